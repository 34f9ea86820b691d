"""One episode from a `.npz` file, under the names that are common."""

import math
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from horizon_imagination.errors import UsageError
from horizon_imagination.schema import check_regular

NAMES = {
    "frames": ("frames", "observations", "observation", "obs", "images", "image"),
    "action": ("actions", "action"),
    "reward": ("rewards", "reward"),
    "terminated": ("terminated", "terminateds", "terminations", "terminals", "dones", "done"),
    "truncated": ("truncated", "truncateds", "truncations", "timeouts"),
}
"""What an array may be called; the first name that is there counts."""
LARGEST = 4 * 2**30
"""Bytes of an array."""
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
ZIP = (zipfile.BadZipFile, NotImplementedError)


def read_npz(
    path: Path,
) -> tuple[np.ndarray, np.ndarray, bool, Callable[[], Iterator[np.ndarray]]]:
    """Actions, rewards, whether the episode terminated, and a reader of its frames."""
    action = _array(path, "action")
    whole = np.issubdtype(action.dtype, np.integer)
    if action.ndim == 2 and action.shape[1] == 1 and whole:
        action = action[:, 0]
    real = np.issubdtype(action.dtype, np.floating) and action.ndim == 2
    if not real and not (whole and action.ndim in (1, 2)):
        raise UsageError(
            f"{path}: actions are {action.dtype} of shape {action.shape}; expected whole numbers, "
            "one per step (discrete actions) or several, or vectors of floats (time, entry)"
        )
    steps = len(action)
    reward = _array(path, "reward", np.zeros(steps, np.float32)).reshape(-1)
    if not np.issubdtype(reward.dtype, np.number) or np.iscomplexobj(reward):
        raise UsageError(f"{path}: rewards are {reward.dtype}; expected numbers")
    terminated = _final_flag(path, "terminated", steps)
    # In recordings with one flag for all ends, the time limit takes precedence.
    terminated = terminated and not _final_flag(path, "truncated", steps)
    return action, reward.astype(np.float32), terminated, lambda: _frames(path)


def _frames(path: Path) -> Iterator[np.ndarray]:
    """Frames as (height, width, channel), whichever of the usual orders the file has."""
    frames = _array(path, "frames")
    if frames.dtype != np.uint8:
        raise UsageError(f"{path}: frames are {frames.dtype}; expected uint8 from 0 to 255")
    if frames.ndim == 3:
        frames = frames[..., None]
    if frames.ndim != 4 or (frames.shape[-1] not in (1, 3) and frames.shape[1] not in (1, 3)):
        raise UsageError(
            f"{path}: frames have shape {frames.shape}; expected (time, height, width), or "
            "(time, height, width, channel) or (time, channel, height, width) with 1 or 3 channels"
        )
    if not frames.size:
        raise UsageError(f"{path}: frames of shape {frames.shape} have no pixel")
    if frames.shape[-1] not in (1, 3):
        frames = np.moveaxis(frames, 1, -1)
    yield from frames


def _array(path: Path, what: str, default: np.ndarray | None = None) -> np.ndarray:
    try:
        check_regular(path)
        with zipfile.ZipFile(path) as file:
            there = {x.filename.removesuffix(".npy"): x for x in file.infolist()}
            for name in NAMES[what]:
                if name in there:
                    return _member(file, there[name])
    except (ValueError, OSError, EOFError, MemoryError, RuntimeError, zlib.error, *ZIP) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"{path} cannot be read as .npz without pickle ({error}); save plain arrays"
        ) from error
    if default is None:
        raise UsageError(
            f"{path} has no {what} (looked for {', '.join(NAMES[what])}; it has "
            f"{', '.join(there)[:200]})"
        )
    return default


def _member(file: zipfile.ZipFile, about: zipfile.ZipInfo) -> np.ndarray:
    """An array of the archive; what is larger than it says, or than memory should be, is refused
    before any room is made for it."""
    with file.open(about) as content:
        version = np.lib.format.read_magic(content)
        if version not in HEADERS:
            raise ValueError(f"version {version} of its array format is unknown")
        shape, _, dtype = HEADERS[version](content)
        size = math.prod(shape) * dtype.itemsize
    if size > LARGEST:
        raise ValueError(f"{about.filename} would take {size} bytes, expected at most {LARGEST}")
    if size > about.file_size:
        raise ValueError(f"{about.filename} claims {size} bytes and has {about.file_size}")
    with file.open(about) as content:
        return np.lib.format.read_array(content, allow_pickle=False)


def _final_flag(path: Path, what: str, steps: int) -> bool:
    """The flag of the last step; a flag before it would mean several episodes in one file."""
    flags = _array(path, what, np.zeros(steps, bool)).reshape(-1)
    if len(flags) == 1:
        return bool(flags[0])
    if len(flags) != steps:
        raise UsageError(
            f"{path} has {len(flags)} flags '{what}' for {steps} actions; expected one per action"
        )
    if flags[:-1].any():
        raise UsageError(
            f"{path} is '{what}' at step {int(np.flatnonzero(flags)[0])} of {steps}; "
            "expected one episode per file, ended at its last step"
        )
    return bool(flags[-1]) if steps else False
