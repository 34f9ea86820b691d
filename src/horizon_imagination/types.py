"""Shapes and the words for them, used in every signature.

Time, everywhere: `action[t]` is taken on `frames[t]`; `reward[t]` and `terminated[t]` follow it;
frame t was produced by `prev_actions[t] = action[t - 1]`. tau = 0 is noise, tau = 1 is clean.
"""

from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

Frames = UInt8[Tensor, "batch time channel height width"]
Latents = Float[Tensor, "batch time channel height width"]
Times = Float[Tensor, "batch time"]
Actions = Int[Tensor, "batch time"]
Scalars = Float[Tensor, "batch time"]
Flags = Bool[Tensor, "batch time"]
Probs = Float[Tensor, "*batch action"]
Schedule = Float[Tensor, "row horizon"]

NO_ACTION = -1
"""The previous action of the first frame of any sequence; networks learn an embedding for it."""
