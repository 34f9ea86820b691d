"""The one description of a dataset folder: names, types and `dataset.json` (see docs/data.md)."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from horizon_imagination.errors import UsageError

FORMAT = "horizon-dataset"
VERSION = 1
DESCRIPTION = "dataset.json"
FRAMES = "frames.u8"
COLUMNS = {"action": "<i4", "reward": "<f4", "terminated": "|u1", "marks": "|u1"}
"""Name and type of each column; the file is the name with the type as suffix."""
FILES = {
    "action": "action.i32",
    "reward": "reward.f32",
    "terminated": "terminated.u8",
    "marks": "marks.u8",
}
FIRST, LAST = 1, 2
"""Bits of `marks`: the row is the first, the last frame of its episode."""

Ended = Literal["terminated", "truncated", "open"]


@dataclass(frozen=True)
class Episode:
    """Where an episode lies, and how it ended."""

    start: int
    length: int
    """Frames, one more than steps."""
    ended: Ended
    total_reward: float
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_steps(self) -> int:
        """Actions taken."""
        return self.length - 1

    def line(self) -> dict[str, Any]:
        """The episode as `dataset.json` has it."""
        place = {"start": self.start, "length": self.length, "ended": self.ended}
        return place | ({"info": dict(self.info)} if self.info else {})


def episode_table(
    starts: np.ndarray,
    reward: np.ndarray,
    terminated: np.ndarray,
    is_open: bool,
    info: Mapping[int, Mapping[str, Any]],
) -> list[Episode]:
    """The episodes that begin at `starts`; `is_open` says whether the last one goes on."""
    if not len(starts):
        return []
    sums = np.add.reduceat(reward.astype(np.float64), starts)
    lengths = np.diff(starts, append=len(reward))
    # The step that ends an episode was taken on its last frame but one.
    over = (lengths > 1) & (terminated[starts + np.maximum(lengths - 2, 0)] == 1)
    ended = np.where(over, "terminated", "truncated").tolist()
    if is_open:
        ended[-1] = "open"
    table = zip(starts.tolist(), lengths.tolist(), ended, sums.tolist(), strict=True)
    return [Episode(*line, info=info.get(line[0], {})) for line in table]


@dataclass(frozen=True)
class Description:
    """What `dataset.json` says."""

    frame_shape: tuple[int, int, int]
    num_actions: int
    env_id: str
    rows: int = 0
    episodes: tuple[Mapping[str, Any], ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Replace `dataset.json` in one go, safe on the disk."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "env_id": self.env_id,
            "frame_shape": list(self.frame_shape),
            "num_actions": self.num_actions,
            "rows": self.rows,
            "sha256": dict(self.sha256),
        }
        head = json.dumps(content, indent=1).removesuffix("\n}")
        lines = ",\n  ".join(json.dumps(dict(x)) for x in self.episodes)
        temporary = folder / (DESCRIPTION + ".tmp")
        with open(temporary, "w") as file:
            file.write(f'{head},\n "episodes": [\n  {lines}\n ]\n}}\n')
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / DESCRIPTION)


def read_description(folder: Path) -> Description:
    """Read and check `dataset.json`."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise UsageError(
            f"{folder} is no dataset: it has no {DESCRIPTION}; expected a folder written by "
            "horizon record, horizon data import, or the replay folder of a run"
        )
    try:
        content = json.loads(path.read_text())
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise UsageError(
                f"{path} is of format {content['format']} {content['version']}; this version "
                f"reads {FORMAT} {VERSION}: convert it or use the version that wrote it"
            )
        channel, height, width = (int(x) for x in content["frame_shape"])
        if min(channel, height, width) < 1 or int(content["num_actions"]) < 1:
            raise ValueError("frame_shape and num_actions must be positive")
        for episode in content["episodes"]:
            if not isinstance(episode["start"], int) or not isinstance(episode["length"], int):
                raise ValueError("start and length of an episode must be whole numbers")
        return Description(
            frame_shape=(channel, height, width),
            num_actions=int(content["num_actions"]),
            env_id=str(content["env_id"]),
            rows=int(content["rows"]),
            episodes=tuple(content["episodes"]),
            sha256=dict(content["sha256"]),
        )
    except UsageError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is damaged ({type(error).__name__}: {error}); restore it from a copy"
        ) from error


def complete_rows(folder: Path, frame_shape: tuple[int, int, int]) -> int:
    """Rows that every file of the folder has in full."""
    sizes = {FRAMES: int(np.prod(frame_shape))}
    sizes |= {FILES[name]: np.dtype(dtype).itemsize for name, dtype in COLUMNS.items()}
    rows = []
    for name, row_bytes in sizes.items():
        if not (folder / name).is_file():
            raise UsageError(f"{folder} is incomplete: {name} is missing; restore it from a copy")
        rows.append((folder / name).stat().st_size // row_bytes)
    return min(rows)


def file_hash(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
