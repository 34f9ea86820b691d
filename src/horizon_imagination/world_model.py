"""What a world model must offer, so that a controller can learn, be shown and be played in it.

`WorldModel` is a protocol: any object with these methods fits, a network or exact formulas. Frames
are bytes, latents are floats; a world model without a tokenizer scales bytes to [-1, 1]. Noise is
uniform in [-1, 1], so latents should have about that range. Time and actions are those of
`types.py`: `prev_actions[t]` led to frame t and is `NO_ACTION` at the start of an episode.

A world model that also offers `cache` and `window` (`WindowedWorldModel`) is imagined by the
windowed engine; any other one by the plain loop, which evaluates every frame at every row.
"""

from typing import Any, Protocol, runtime_checkable

from horizon_imagination.types import Actions, Flags, Frames, Latents, Scalars, Times


@runtime_checkable
class WorldModel(Protocol):
    """Frames to latents and back, velocities of noisy latents, rewards and ends of clean ones.

    `real` is False at padding in front of a context that begins before its episode. It is None or
    all True as long as `imagination.context` is 1.
    """

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a latent frame; height and width are equal."""
        ...

    def encode(self, frames: Frames) -> Latents:
        """Latents of frames, float32."""
        ...

    def decode(self, z: Latents) -> Frames:
        """Frames to look at, of clean or noisy latents."""
        ...

    def velocity(
        self, z: Latents, tau: Times, prev_actions: Actions, real: Flags | None = None
    ) -> Latents:
        """v(z, tau, previous actions) of every frame; the first ones are a clean context."""
        ...

    def reward_and_end(self, z: Latents, real: Flags | None = None) -> tuple[Scalars, Scalars]:
        """Reward of the step that led to each clean frame, and the chance that it was the last.

        Those of the first frame mean nothing.
        """
        ...


@runtime_checkable
class WindowedWorldModel(WorldModel, Protocol):
    """A world model that evaluates a few frames over a cache of settled ones.

    The velocity of a frame must depend on it and on earlier frames alone. Then the window gives
    the numbers of the plain loop.
    """

    def cache(self, frames: int) -> Any:
        """An empty cache for up to so many frames; called once for each imagination."""
        ...

    def window(
        self,
        z: Latents,
        tau: Times,
        prev_actions: Actions,
        *,
        cache: Any,
        start: int,
        real: Flags | None = None,
    ) -> Latents:
        """Velocities of the frames from `start` on; what the cache has of earlier ones is settled.

        `real` has a column for every frame of cache and window together.
        """
        ...


NEEDED = ("latent_shape", "encode", "decode", "velocity", "reward_and_end")


def check_world_model(world_model: Any) -> None:
    """Refuse an object that lacks a part of a world model, and latents that are not square."""
    missing = [name for name in NEEDED if not hasattr(world_model, name)]
    if missing:
        raise ValueError(
            f"the world model, a {type(world_model).__name__}, has no {', '.join(missing)}: "
            "hi.WorldModel says what is needed"
        )
    channels, height, width = world_model.latent_shape
    if height != width:
        raise ValueError(f"latents are {channels} x {height} x {width}: expected as high as wide")
