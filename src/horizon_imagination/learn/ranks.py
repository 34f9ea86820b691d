"""One learner on several processes: equal draws, shares of a batch, sums over all of them.

Every rank draws the whole batch and all of its noise from the same streams, then works on its own
rows. What is averaged is averaged over the rows of all ranks, so that a step means the same
whatever their number; only the order of summation differs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among those that train one run; alone by default, where all is the identity."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that collects, evaluates and writes."""
        return self.rank == 0

    def rows(self, total: int) -> slice:
        """The rows of a batch that are this rank's, a stretch.

        >>> [Ranks(rank, 3).rows(8) for rank in range(3)]
        [slice(0, 2, None), slice(2, 5, None), slice(5, 8, None)]
        """
        return slice(total * self.rank // self.world, total * (self.rank + 1) // self.world)

    def share(self, batch: T) -> T:
        """This rank's rows of a tensor, or of every tensor in a tuple of them."""
        if self.world == 1:
            return batch
        if isinstance(batch, Tensor):
            return batch[self.rows(len(batch))]  # type: ignore[return-value]
        parts = [self.share(part) for part in batch]  # type: ignore[attr-defined]
        kind: Any = type(batch)
        return kind(*parts) if hasattr(batch, "_fields") else kind(parts)

    def total(self, rows: int) -> int:
        """The rows of all ranks together, from each one's number."""
        return rows if self.world == 1 else int(self.sum(torch.tensor(rows)))

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all ranks, without gradient."""
        if self.world == 1:
            return value
        total = value.detach().clone()
        dist.all_reduce(total)
        return total

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on one of the ranks, or on more."""
        return self.total(int(flag)) > 0

    def mean(self, total: Tensor, count: Tensor) -> Tensor:
        """A mean over the things of all ranks, from each one's sum and count."""
        if self.world == 1:
            return total.detach() / count.clamp(min=1)
        both = self.sum(torch.stack([total.detach(), count.to(total)]))
        return both[0] / both[1].clamp(min=1)

    def gather(self, mine: Tensor, total: int) -> Tensor:
        """The rows of all ranks in their order, from each one's share of `total` rows."""
        if self.world == 1:
            return mine
        # A sum with zeros is exact, and takes shares of unequal size.
        everything = mine.new_zeros(total, *mine.shape[1:], dtype=_summable(mine.dtype))
        everything[self.rows(total)] = mine.detach().to(everything.dtype)
        dist.all_reduce(everything)
        return everything.to(mine.dtype)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its sum over all ranks."""
        if self.world == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        pieces = flat.split([gradient.numel() for gradient in gradients])
        for gradient, piece in zip(gradients, pieces, strict=True):
            gradient.copy_(piece.view_as(gradient))

    def wait(self) -> None:
        """Return once every rank has come here."""
        if self.world > 1:
            dist.all_reduce(torch.zeros(1))

    def tell(self, value: float) -> float:
        """What the first rank says, on all of them."""
        if self.world == 1:
            return value
        said = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(said, src=0)
        return float(said)


def current_ranks() -> Ranks:
    """Where this process stands, as torch.distributed knows it."""
    if not (dist.is_available() and dist.is_initialized()):
        return Ranks()
    return Ranks(dist.get_rank(), dist.get_world_size())


def _summable(dtype: torch.dtype) -> torch.dtype:
    return torch.uint8 if dtype == torch.bool else dtype
