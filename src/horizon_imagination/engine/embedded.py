"""The world model of this project, as `WorldModel` describes any: three networks, and a cache."""

from typing import Any

from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from horizon_imagination.engine.fused import FusedCache, FusedDenoiser
from horizon_imagination.models.denoiser import Denoiser, FrameCache
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.models.tokenizer import Tokenizer
from horizon_imagination.types import Actions, Flags, Frames, Latents, Scalars, Times


class WindowCache:
    """The cache of the denoiser that evaluates the windows, made at the first of them."""

    def __init__(self, frames: int) -> None:
        self.frames = frames
        self.of: FrameCache | FusedCache | None = None


class EmbeddedWorldModel:
    """Tokenizer, denoiser and reward model; windows run in fused kernels where there are any."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        denoiser: Denoiser,
        reward: RewardModel,
        fused: FusedDenoiser | None = None,
    ) -> None:
        self.tokenizer, self.denoiser, self.reward = tokenizer, denoiser, reward
        self.fused = fused

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a latent frame."""
        size = self.tokenizer.latent_size
        return self.tokenizer.latent_channels, size, size

    def encode(self, frames: Frames) -> Float[Tensor, "batch time _ _ _"]:
        """The tokenizer's latents."""
        return self.tokenizer.encode(frames)

    def decode(self, z: Latents) -> UInt8[Tensor, "batch time _ _ _"]:
        """The tokenizer's frames."""
        return self.tokenizer.decode(z)

    def velocity(
        self, z: Latents, tau: Times, prev_actions: Actions, real: Flags | None = None
    ) -> Latents:
        """Velocities of a whole sequence."""
        return self.denoiser.window(z, tau, prev_actions, cache=None, start=0, real=real)

    def reward_and_end(self, z: Latents, real: Flags | None = None) -> tuple[Scalars, Scalars]:
        """What the reward model reads off the frames."""
        reward, end_logits = self.reward.predict(z, real)
        return reward, end_logits.softmax(-1)[..., 1]

    def cache(self, frames: int) -> WindowCache:
        """An empty cache; fused kernels take the present weights."""
        if self.fused is not None:
            self.fused.refresh()
        return WindowCache(frames)

    def window(
        self,
        z: Latents,
        tau: Times,
        prev_actions: Actions,
        *,
        cache: WindowCache,
        start: int,
        real: Bool[Tensor, "batch all_frames"] | None = None,
    ) -> Latents:
        """Velocities over the cache; padded contexts need the plain denoiser."""
        evaluator: Any = self.denoiser if self.fused is None or real is not None else self.fused
        if cache.of is None:
            cache.of = evaluator.cache(cache.frames)
        return evaluator.window(z, tau, prev_actions, cache=cache.of, start=start, real=real)
