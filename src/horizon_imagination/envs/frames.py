"""What the agent sees: 8-bit frames of one size, whatever the environment shows."""

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Shaped, UInt8

from horizon_imagination.envs.resize import resize
from horizon_imagination.envs.state import State
from horizon_imagination.errors import UsageError

Frame = UInt8[np.ndarray, "height width channel"]

LUMA = np.array([299, 587, 114], dtype=np.uint32)
"""Weights of red, green and blue in grey, in thousandths (the usual ITU-R 601 ones)."""


class ToFrames(gymnasium.Wrapper):
    """Turns the image among the observations, or the render, into `size` x `size` uint8 frames.

    Takes height x width x channel, channel x height x width or height x width; one or three (or,
    with transparency, four) channels; uint8, or floats in [0, 1] (in [0, 255] if
    the space says so); a dict with exactly one image.
    """

    def __init__(self, env: gymnasium.Env, size: int, grey: bool, pixels: bool = False) -> None:
        super().__init__(env)
        self.size, self.grey, self.pixels = size, grey, pixels
        self.key = None if pixels else image_key(env.observation_space)
        box = None if pixels else _entry(env.observation_space, self.key)
        self.image_shape = () if box is None else box.shape
        self.peak = 1.0 if box is None else _peak(box)
        channels = 1 if grey else 3
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, channels), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self.frame(observation), info

    def step(self, action: Any) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.frame(observation), float(reward), bool(terminated), bool(truncated), info

    def frame(self, observation: Any) -> Frame:
        """The frame that shows this observation."""
        if self.pixels:
            observation = self.env.render()
            if not isinstance(observation, np.ndarray):
                raise UsageError(
                    f"env.pixels: {type(self.env.unwrapped).__name__}.render() gave no image: the "
                    "environment must support render_mode rgb_array"
                )
        elif self.key is not None:
            observation = observation[self.key]
        image = np.asarray(observation)
        if not self.pixels and image.shape != self.image_shape:
            raise ValueError(
                f"the environment gave an observation of shape {image.shape}, but its space says "
                f"{self.image_shape}"
            )
        frame = resize(as_rgb(image, self.peak), self.size)
        return grey(frame) if self.grey else frame

    def layer_state(self) -> State:
        """Frames are a function of the present."""
        return {}

    def set_layer_state(self, state: State) -> None:
        """The inverse of `layer_state`."""


def image_key(space: gymnasium.Space) -> str | None:
    """The entry of a dict observation that is an image; none if the observation itself is one."""
    if isinstance(space, gymnasium.spaces.Dict):
        images = [key for key, entry in space.items() if is_image(entry)]
        if len(images) == 1:
            return images[0]
        found = f"{len(images)} images among the entries {', '.join(space)}"
    elif is_image(space):
        return None
    else:
        found = f"{space}, which is no image"
    raise UsageError(
        f"the environment observes {found}; expected one image: use --env.pixels to see its render "
        "instead, or wrap the environment"
    )


def _entry(space: gymnasium.Space, key: str | None) -> gymnasium.spaces.Box:
    entry = space if key is None else space[key]  # type: ignore[index]
    assert isinstance(entry, gymnasium.spaces.Box)
    return entry


def _peak(box: gymnasium.spaces.Box) -> float:
    highest = float(box.high.max())
    return 255.0 if 1.0 < highest <= 255.0 else 1.0


def is_image(space: gymnasium.Space) -> bool:
    """Whether the space holds images of at least 8 x 8 pixels (smaller ones are symbolic grids)."""
    if not isinstance(space, gymnasium.spaces.Box):
        return False
    if space.dtype != np.uint8 and not np.issubdtype(space.dtype, np.floating):
        return False
    shape = space.shape
    if len(shape) == 3 and shape[2] in (1, 3, 4):
        return min(shape[:2]) >= 8
    if len(shape) == 3 and shape[0] in (1, 3, 4):
        return min(shape[1:]) >= 8
    return len(shape) == 2 and min(shape) >= 8


def as_rgb(
    image: Shaped[np.ndarray, "..."], peak: float = 1.0
) -> UInt8[np.ndarray, "height width 3"]:
    """Any layout that `ToFrames` takes as height x width x RGB; floats are in [0, peak]."""
    if image.dtype != np.uint8:
        if not np.isfinite(image).all():
            raise ValueError("the environment gave an image with values that are not finite")
        image = (np.clip(image / peak, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    if image.ndim == 2:
        image = image[:, :, None]
    if image.shape[2] not in (1, 3, 4) and image.shape[0] in (1, 3, 4):
        image = image.transpose(1, 2, 0)
    if image.shape[2] == 1:
        return np.repeat(image, 3, axis=2)
    return np.ascontiguousarray(image[:, :, :3])


def grey(image: UInt8[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "height width 1"]:
    """Luminance."""
    return ((image @ LUMA + 500) // 1000).astype(np.uint8)[:, :, None]
