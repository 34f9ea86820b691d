"""The reward-termination model: what followed the action that led to a frame."""

from jaxtyping import Float
from torch import Tensor

from horizon_imagination.models.recurrent import RecurrentNetwork
from horizon_imagination.types import Latents, Scalars


class RewardModel(RecurrentNetwork):
    """symlog reward and end logits, read off the frame that an action led to."""

    def __init__(self, **shape: int | bool) -> None:
        super().__init__(outputs=3, norm_layers=True, use_tau=False, **shape)  # type: ignore[arg-type]

    def predict(self, z: Latents) -> tuple[Scalars, Float[Tensor, "batch time 2"]]:
        """symlog rewards and end logits at every frame; those of the first frame mean nothing."""
        out, _ = self(z)
        return out[..., 0], out[..., 1:]
