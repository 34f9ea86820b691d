"""The reward-termination model: what followed the action that led to a frame."""

from jaxtyping import Float
from torch import Tensor

from horizon_imagination.models.readout import READOUTS, ReadoutName
from horizon_imagination.models.recurrent import RecurrentNetwork
from horizon_imagination.types import Flags, Latents, Scalars


class RewardModel(RecurrentNetwork):
    """Reward and end, read off the frame that an action led to."""

    def __init__(self, *, readout: ReadoutName = "symlog", **shape: int | bool) -> None:
        read = READOUTS[readout]()
        super().__init__(outputs=read.size + 2, norm_layers=True, use_tau=False, **shape)  # type: ignore[arg-type]
        self.readout = read
        read.start(self.head)

    def split(
        self, out: Float[Tensor, "batch time output"]
    ) -> tuple[Float[Tensor, "batch time size"], Float[Tensor, "batch time 2"]]:
        """Outputs that say the reward, and end logits."""
        return out[..., : self.readout.size], out[..., self.readout.size :]

    def predict(
        self, z: Latents, mask: Flags | None = None
    ) -> tuple[Scalars, Float[Tensor, "batch time 2"]]:
        """Rewards and end logits at every frame; those of the first frame mean nothing."""
        reward, end_logits = self.split(self(z, None, None, mask)[0].float())
        return self.readout.value(reward), end_logits
