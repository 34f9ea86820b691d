"""How an observation is read as a picture: which entry, layout, range, channels and size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from einops import rearrange
from jaxtyping import Shaped, UInt8

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.resize import resize
from horizon_imagination.errors import UsageError

Frame = UInt8[np.ndarray, "height width channel"]
Picture = UInt8[np.ndarray, "height width _channel"]

LUMA = np.array([299, 587, 114], dtype=np.uint32)
"""Weights of red, green and blue in grey, in thousandths (the usual ITU-R 601 ones)."""
SMALLEST = 8
"""Pixels a side; what is smaller is a symbolic grid and no picture."""
OVERSHOOT = 0.01
"""Share of the range by which values may leave it, as interpolated pictures do."""


@dataclass(frozen=True)
class View:
    """The reading of one world's observations; a pure function from observation to frame.

    Takes height x width x channel, channel x height x width or height x width; a stack also as
    time x height x width x channel or time x channel x height x width; bytes, truth values, or
    floats in `low` to `high`; a dict of which `key` is the picture.
    """

    size: int
    grey: bool
    channels: str
    """auto (one or three), rgba, or stack (any number, each one kept)."""
    shape: tuple[int, ...]
    """Of the picture in the observation; empty where it is known only once it is drawn."""
    dtype: str
    low: float
    high: float
    key: str | None = None
    pixels: bool = False
    """The observation is the world's render."""
    told: bool = False
    """The range is the user's (`env.range`), not the space's."""

    @property
    def frame_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the frames."""
        count = 1 if self.grey else 3
        if self.channels == "stack":
            count = self.shape[_channel_axis(self.shape)]
            count *= _colours_of_each(self.shape)
        return self.size, self.size, count

    def frame(self, observation: Any) -> Frame:
        """The frame that shows this observation."""
        if self.key is not None:
            if not isinstance(observation, dict) or self.key not in observation:
                raise ValueError(f"the observation has no entry {self.key!r}")
            observation = observation[self.key]
        image = np.asarray(observation)
        if self.shape and not self.pixels and image.shape != self.shape:
            raise ValueError(
                f"the observation has the shape {image.shape}, but its space says {self.shape}"
            )
        channels_last = self._channels_last(self._bytes(image))
        if self.channels == "stack":
            return resize(channels_last, self.size)
        frame = resize(_colours(channels_last), self.size)
        return grey(frame) if self.grey else frame

    def drawn(self, image: Shaped[np.ndarray, "..."]) -> "View":
        """The view of a render, once its shape can be seen."""
        dtype = str(image.dtype) if self.told else self.dtype
        return replace(self, shape=image.shape, dtype=dtype)

    def line(self) -> str:
        """For people: what is read, and how."""
        where = self._what
        if self.key is not None:
            where = f"the entry {self.key!r} of the observation"
        kind = f"{_by(self.shape)} {self.dtype}" if self.shape else self.dtype
        scaled = f"values {self.low:g} to {self.high:g}"
        told = {"rgba": ", transparency dropped", "stack": ", every channel kept"}
        height, width, count = self.frame_shape
        shown = {1: "grey", 3: "RGB"}.get(count if self.channels != "stack" else 0, "stacked")
        return (
            f"{where}, {kind}, {scaled}{told.get(self.channels, '')}, as {height} x {width} x "
            f"{count} ({shown}) bytes"
        )

    @property
    def _what(self) -> str:
        return "the render" if self.pixels else "the observation"

    def _bytes(self, image: Shaped[np.ndarray, "..."]) -> UInt8[np.ndarray, "..."]:
        """The picture with its range spread over 0 to 255."""
        if image.dtype == np.uint8 and self.dtype == "uint8" and (self.low, self.high) == (0, 255):
            return image
        floats, what = np.issubdtype(image.dtype, np.floating), self._what
        if image.dtype == np.uint8 and self.dtype.startswith("float"):
            raise ValueError(f"{what} is uint8, but its space says {self.dtype}")
        if floats and self.dtype == "uint8" and not self.told:
            raise ValueError(
                f"{what} is {image.dtype}, but uint8 was expected: name the range of its values, "
                "e.g. --env.range 0 1"
            )
        if not np.issubdtype(image.dtype, np.number) and image.dtype != np.bool_:
            raise ValueError(f"{what} is {image.dtype}: expected numbers")
        values = image if floats else image.astype(np.float32)
        if not np.isfinite(values).all():
            raise ValueError(f"{what} has values that are not finite")
        span = self.high - self.low
        least, most = float(values.min()), float(values.max())
        if least < self.low - OVERSHOOT * span or most > self.high + OVERSHOOT * span:
            raise ValueError(
                f"{what} has values from {least:g} to {most:g}, outside its range of "
                f"{self.low:g} to {self.high:g}: name the true one with --env.range LOW HIGH"
            )
        return (np.clip((values - self.low) / span, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)

    def _channels_last(self, image: UInt8[np.ndarray, "..."]) -> Picture:
        if image.ndim == 2:
            return image[:, :, None]
        if image.ndim == 4:
            last = image.shape[-1] in (1, 3)
            return rearrange(image, "t h w c -> h w (t c)" if last else "t c h w -> h w (t c)")
        if image.ndim != 3:
            raise ValueError(f"the picture has the shape {image.shape}: expected 2 or 3 axes")
        if self.channels == "stack":
            first = _channel_axis(image.shape) == 0
        else:
            counts = _counts(self.channels)
            first = image.shape[2] not in counts and image.shape[0] in counts
            if not first and image.shape[2] not in counts:
                raise UsageError(_four(image.shape))
        return np.moveaxis(image, 0, -1) if first else image


def read_space(space: gymnasium.Space, cfg: EnvConfig) -> View:
    """How the observations of this space are read; a `UsageError` where that is not clear."""
    if cfg.pixels:
        low, high = cfg.range or (0.0, 255.0)
        told = cfg.range is not None
        return View(
            cfg.size, cfg.grey, cfg.channels, (), "uint8", low, high, pixels=True, told=told
        )
    key = image_key(space, cfg.channels)
    box = space if key is None else space[key]  # type: ignore[index]
    assert isinstance(box, gymnasium.spaces.Box)
    if cfg.channels != "stack" and len(box.shape) == 3 and not _has_count(box.shape, cfg.channels):
        raise UsageError(_four(box.shape))
    low, high = _range(box, cfg)
    shape, dtype, told = tuple(box.shape), str(box.dtype), cfg.range is not None
    return View(cfg.size, cfg.grey, cfg.channels, shape, dtype, low, high, key=key, told=told)


def as_frames(
    observation: Any, view: View | None, frame_shape: tuple[int, int, int]
) -> tuple[UInt8[np.ndarray, "batch height width channel"], bool]:
    """Frames of an observation or of a batch of them, and whether it was a batch.

    Takes finished frames of `frame_shape`, and what a world with this view observes; refuses all
    else, since networks answer anything.
    """
    if not isinstance(observation, dict):
        image = np.asarray(observation)
        if image.dtype == np.uint8 and image.shape == frame_shape:
            return image[None], False
        if image.dtype == np.uint8 and image.ndim == 4 and image.shape[1:] == frame_shape:
            return image, True
    if view is not None and not view.pixels:
        try:
            return _read_frames(observation, view)
        except ValueError as error:
            raise UsageError(f"{error}; {_expected(view, frame_shape)}") from error
    raise UsageError(f"got {_kind(observation)}; {_expected(view, frame_shape)}")


def _read_frames(
    observation: Any, view: View
) -> tuple[UInt8[np.ndarray, "batch height width channel"], bool]:
    if isinstance(observation, dict) != (view.key is not None):
        raise ValueError(f"got {_kind(observation)}")
    entry = observation if view.key is None else observation.get(view.key)
    image = np.asarray(entry)
    if image.shape == view.shape:
        return view.frame(observation)[None], False
    if image.shape[1:] != view.shape or not len(image):
        raise ValueError(f"got {_kind(entry)}")
    key = view.key
    return np.stack([view.frame(x if key is None else {key: x}) for x in image]), True


def _kind(observation: Any) -> str:
    if isinstance(observation, dict):
        return f"a dict of {', '.join(map(str, observation))}"
    image = np.asarray(observation)
    return f"{image.dtype} of shape {image.shape}"


def _expected(view: View | None, frame_shape: tuple[int, int, int]) -> str:
    """What to hand over instead."""
    raw = ""
    if view is not None and not view.pixels:
        entry = "" if view.key is None else f"a dict with {view.key!r}: "
        raw = f", or what the world observes ({entry}{view.dtype} of shape {view.shape})"
    return (
        f"expected uint8 frames of shape {frame_shape}, as agent.make_env() returns them{raw}, or "
        "a batch of these"
    )


def image_key(space: gymnasium.Space, channels: str) -> str | None:
    """The entry of a dict observation that is an image; none if the observation itself is one."""
    if isinstance(space, gymnasium.spaces.Dict):
        images = [key for key, entry in space.items() if is_image(entry, channels)]
        if len(images) == 1:
            return images[0]
        found = f"{len(images)} images among the entries {', '.join(space)}"
    elif is_image(space, channels):
        return None
    else:
        found = f"{_short(space)}, which is no image"
        if channels != "stack" and is_image(space, "stack"):
            found += " (--env.channels stack keeps every channel as it is)"
    raise UsageError(
        f"the environment observes {found}; expected one image: use --env.pixels to see its render "
        "instead, or wrap the environment"
    )


def is_image(space: gymnasium.Space, channels: str = "auto") -> bool:
    """Whether the space holds images of at least 8 x 8 pixels (smaller ones are symbolic grids)."""
    if not isinstance(space, gymnasium.spaces.Box):
        return False
    stack, shape = channels == "stack", space.shape
    kinds = (np.uint8, np.bool_) if stack else (np.uint8,)
    if space.dtype not in kinds and not np.issubdtype(space.dtype, np.floating):
        return False
    if len(shape) == 2:
        return min(shape) >= SMALLEST
    if len(shape) == 4:
        sides = shape[1:3] if shape[-1] in (1, 3) else shape[2:]
        return stack and min(sides) >= SMALLEST and _colours_of_each(shape) in (1, 3)
    if len(shape) != 3:
        return False
    if stack:
        axis = _channel_axis(shape)
    elif shape[2] in (1, 3, 4):
        axis = 2
    elif shape[0] in (1, 3, 4):
        axis = 0
    else:
        return False
    return min(shape[:2] if axis == 2 else shape[1:]) >= SMALLEST


def grey(image: UInt8[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "height width 1"]:
    """Luminance."""
    return ((image @ LUMA + 500) // 1000).astype(np.uint8)[:, :, None]


def _colours(image: Picture) -> UInt8[np.ndarray, "height width 3"]:
    if image.shape[2] == 1:
        return np.repeat(image, 3, axis=2)
    return np.ascontiguousarray(image[:, :, :3])


def _range(box: gymnasium.spaces.Box, cfg: EnvConfig) -> tuple[float, float]:
    if cfg.range is not None:
        return cfg.range
    if box.dtype == np.uint8:
        return 0.0, 255.0
    if box.dtype == np.bool_:
        return 0.0, 1.0
    low, high = float(np.min(box.low)), float(np.max(box.high))
    if not (np.isfinite([low, high]).all() and low < high):
        raise UsageError(
            f"the environment observes {box.dtype} images from {low:g} to {high:g}, which is no "
            "range: name the one that its values have, e.g. --env.range 0 1"
        )
    return low, high


def _counts(channels: str) -> tuple[int, ...]:
    return (1, 3, 4) if channels == "rgba" else (1, 3)


def _has_count(shape: Sequence[int], channels: str) -> bool:
    counts = _counts(channels)
    return shape[2] in counts or (shape[0] in counts and shape[2] not in (1, 3, 4))


def _channel_axis(shape: Sequence[int]) -> int:
    """The axis of a stack: the first of four, else the shorter one of the first and the last."""
    if len(shape) == 2:
        raise UsageError("env.channels stack: the picture has no channels; leave the flag out")
    return 0 if len(shape) == 4 or shape[0] < shape[2] else 2


def _colours_of_each(shape: Sequence[int]) -> int:
    """Channels of each picture of a stack."""
    if len(shape) != 4:
        return 1
    return shape[-1] if shape[-1] in (1, 3) else shape[1]


def _four(shape: Sequence[int]) -> str:
    return (
        f"the picture has the shape {tuple(shape)}, and four channels may be colours with "
        "transparency or a stack of frames: say which with --env.channels rgba or "
        "--env.channels stack"
    )


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _short(space: gymnasium.Space) -> str:
    """A space without the arrays of its bounds."""
    if isinstance(space, gymnasium.spaces.Box):
        return f"Box({_by(space.shape)}, {space.dtype})"
    return str(space)
