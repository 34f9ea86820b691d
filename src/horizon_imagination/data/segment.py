"""A batch of real experience, and the one shift of the project."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor

from horizon_imagination.types import NO_ACTION


def shift_right(
    x: Shaped[Tensor, "batch time *rest"], first: float
) -> Shaped[Tensor, "batch time *rest"]:
    """The sequence one step later: `first`, then everything but the last entry.

    >>> shift_right(torch.tensor([[3, 1, 2]]), NO_ACTION)
    tensor([[-1,  3,  1]])
    """
    return torch.cat([torch.full_like(x[:, :1], first), x[:, :-1]], dim=1)


@dataclass(frozen=True)
class Segment:
    """`action[t]` was taken on `frames[t]`; `reward[t]` and `terminated[t]` followed it.

    Padding is on the right. The last frame of an episode has no action: there `action` and
    `reward` are 0 and `terminated` is False, and no real frame comes after it.
    """

    frames: UInt8[Tensor, "batch time channel height width"]
    action: Int[Tensor, "batch time"]
    reward: Float[Tensor, "batch time"]
    terminated: Bool[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]
    """False on padding."""

    @property
    def prev_actions(self) -> Int[Tensor, "batch time"]:
        """The action that produced each frame; `NO_ACTION` for the first."""
        return shift_right(self.action, NO_ACTION)

    def map(self, f: Callable[[Tensor], Tensor]) -> "Segment":
        """The segment with `f` applied to every field."""
        return Segment(**{x.name: f(getattr(self, x.name)) for x in fields(self)})

    def to(self, device: torch.device | str) -> "Segment":
        """The segment on another device."""
        return self.map(lambda x: x.to(device, non_blocking=True))
