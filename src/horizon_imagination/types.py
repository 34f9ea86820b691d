"""Shapes and the words for them, used in every signature.

Time, everywhere: `action[t]` is taken on `frames[t]`; `reward[t]` and `terminated[t]` follow it;
frame t was produced by `prev_actions[t] = action[t - 1]`. tau = 0 is noise, tau = 1 is clean.
"""

import torch
from jaxtyping import Bool, Float, Shaped, UInt8
from torch import Tensor

Frames = UInt8[Tensor, "batch time channel height width"]
Latents = Float[Tensor, "batch time channel height width"]
Times = Float[Tensor, "batch time"]
Actions = Shaped[Tensor, "batch time *entry"]
"""Whole numbers [batch, time]; for several at a time, or for vectors, [batch, time, entry]."""
Action = Shaped[Tensor, " batch *entry"]
"""One action per trajectory."""
Scalars = Float[Tensor, "batch time"]
Flags = Bool[Tensor, "batch time"]
Probs = Float[Tensor, "*batch action"]
Schedule = Float[Tensor, "row horizon"]

NO_ACTION = -1
"""The previous action of the first frame of any sequence; networks learn an embedding for it."""
NO_VECTOR = -2.0
"""The same where an action is a vector, whose entries lie in [-1, 1]."""


def no_action(like: Tensor) -> float:
    """What stands for no action in a tensor of actions, in every entry."""
    return NO_VECTOR if like.is_floating_point() else NO_ACTION


def is_action(actions: Shaped[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """False where there is no action, entry by entry."""
    return actions > NO_VECTOR if actions.is_floating_point() else actions >= 0


def zero_action(actions: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """The actions, with 0 where there is none."""
    return torch.where(is_action(actions), actions, torch.zeros_like(actions))


def entrywise(values: Shaped[Tensor, "batch time"], actions: Tensor) -> Shaped[Tensor, "..."]:
    """A value per frame, shaped to broadcast over the entries of its action."""
    return values.reshape(*values.shape, *(1 for _ in range(actions.ndim - values.ndim)))
