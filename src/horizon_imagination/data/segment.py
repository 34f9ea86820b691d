"""A batch of real experience, and the one shift of the project."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Shaped, UInt8
from torch import Tensor

from horizon_imagination.types import Actions, no_action


def shift_right(
    x: Shaped[Tensor, "batch time *rest"], first: float
) -> Shaped[Tensor, "batch time *rest"]:
    """The sequence one step later: `first`, then everything but the last entry.

    >>> shift_right(torch.tensor([[3, 1, 2]]), -1)
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
    action: Actions
    reward: Float[Tensor, "batch time"]
    terminated: Bool[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]
    """False on padding."""

    @property
    def prev_actions(self) -> Actions:
        """The action that produced each frame; none for the first."""
        return shift_right(self.action, no_action(self.action))
