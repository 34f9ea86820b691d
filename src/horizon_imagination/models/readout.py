"""How a network predicts a scalar such as a reward or a return.

`symlog` regresses the symlog of the scalar. What it learns of an uncertain scalar is the mean of
symlogs, whose symexp lies below the mean: a reward of 0 or 20 with equal chance is read as 3.6.
`categories` predicts a distribution over bins and reads its mean in the scalar's own units. Its
targets are two-hot: the two nearest bins share the weight so that their mean is the scalar. The
distribution with the least cross-entropy then has the mean of the data, whatever their spread.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from horizon_imagination.returns import symexp, symlog

ReadoutName = Literal["symlog", "categories"]
Scalar = Float[Tensor, "*shape"]
Outputs = Float[Tensor, "*shape size"]

BINS, LIMIT = 129, 12.0
"""Bins are equally spaced in symlog space, from -LIMIT to LIMIT: up to 162,754 either way."""
SHARPNESS = 2.0
"""A new head predicts bin b (in symlog space) with a probability proportional to
exp(-SHARPNESS |b|): nearly zero."""


def two_hot(x: Scalar, bins: Float[Tensor, " size"]) -> Outputs:
    """Weights on the two bins around x whose mean is x; beyond the last bin, all on that one.

    >>> two_hot(torch.tensor([2.5, -7.0]), torch.tensor([-1.0, 0.0, 2.0, 4.0]))
    tensor([[0.0000, 0.0000, 0.7500, 0.2500],
            [1.0000, 0.0000, 0.0000, 0.0000]])
    """
    x = x.clamp(bins[0], bins[-1])
    above = torch.searchsorted(bins, x.contiguous(), right=True).clamp(1, len(bins) - 1)
    low, high = bins[above - 1], bins[above]
    share = ((x - low) / (high - low))[..., None]
    weights = torch.zeros(*x.shape, len(bins), dtype=x.dtype, device=x.device)
    weights.scatter_(-1, (above - 1)[..., None], 1 - share)
    return weights.scatter_(-1, above[..., None], share)


class SymlogReadout(nn.Module):
    """One output: the symlog of the scalar, learned by its squared error."""

    size = 1

    def value(self, out: Outputs) -> Scalar:
        return symexp(out[..., 0].float())

    def error(self, out: Outputs, target: Scalar) -> Scalar:
        return (out[..., 0].float() - symlog(target)).square()

    def start(self, head: nn.Linear) -> None:
        """A new head keeps the weights it was made with."""


class CategoricalReadout(nn.Module):
    """Logits of bins, learned by the cross-entropy with two-hot targets."""

    size = BINS

    def __init__(self) -> None:
        super().__init__()
        bins = symexp(torch.linspace(-LIMIT, LIMIT, BINS))
        self.register_buffer("bins", bins, persistent=False)
        self.bins: Float[Tensor, " size"]

    def value(self, out: Outputs) -> Scalar:
        """The mean of the distribution, in the scalar's own units."""
        return (out.float().softmax(-1) * self.bins).sum(-1)

    def error(self, out: Outputs, target: Scalar) -> Scalar:
        return -(two_hot(target.float(), self.bins) * out.float().log_softmax(-1)).sum(-1)

    @torch.no_grad()
    def start(self, head: nn.Linear) -> None:
        """A new head predicts nearly zero for every frame."""
        nn.init.zeros_(head.weight[: self.size])
        head.bias[: self.size] = -SHARPNESS * symlog(self.bins).abs()


READOUTS = {"symlog": SymlogReadout, "categories": CategoricalReadout}
