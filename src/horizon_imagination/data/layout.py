"""The one description of a dataset folder: names, types and `dataset.json` (see docs/data.md)."""

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from horizon_imagination.action_json import (
    WrittenActions,
    check_written,
    space_from_json,
    space_to_json,
)
from horizon_imagination.actions import ActionSpace, Box
from horizon_imagination.config import DatasetId, EnvConfig
from horizon_imagination.config_json import from_json
from horizon_imagination.errors import UsageError
from horizon_imagination.files import sync
from horizon_imagination.schema import NUMBERS, read_json

FORMAT = "horizon-dataset"
VERSION = 1
DESCRIPTION = "dataset.json"
FRAMES = "frames.u8"
COLUMNS = {"action": "<i4", "reward": "<f4", "terminated": "|u1", "marks": "|u1"}
"""Name and type of each column; vectors of actions are of other types (`columns_of`)."""
SUFFIXES = {"<i4": "i32", "<f4": "f32", "|u1": "u8"}
MOST_ACTIONS = 2**31 - 1
"""What the column of actions can number."""
LARGEST_FRAME = 2**31
"""Bytes of a frame."""
LARGEST_DESCRIPTION = 2**29
"""Bytes of `dataset.json`, which has a line per episode."""
FIRST, LAST = 1, 2
"""Bits of `marks`: the row is the first, the last frame of its episode."""

Ended = Literal["terminated", "truncated", "open"]


class ColumnType(NamedTuple):
    """The file of a column, its type, and how many numbers it has per row."""

    file: str
    dtype: str
    entries: int = 0
    """0 for a plain number."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return np.dtype(self.dtype).itemsize * max(1, self.entries)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of one row."""
        return (self.entries,) if self.entries else ()

    def read(self, folder: Path, rows: int = -1) -> np.ndarray:
        """The rows of the file, or so many of them."""
        count = rows * max(1, self.entries) if rows >= 0 else -1
        return np.fromfile(folder / self.file, self.dtype, count=count).reshape(-1, *self.row_shape)


def columns_of(space: ActionSpace) -> dict[str, ColumnType]:
    """The columns of a dataset with such actions: the file is the name with the type as suffix.

    >>> columns_of(Box((-1,), (1,)))["action"].file
    'action.f32'
    """
    types = COLUMNS | ({"action": "<f4"} if isinstance(space, Box) else {})
    return {
        name: ColumnType(
            f"{name}.{SUFFIXES[dtype]}", dtype, sum(space.shape) if name == "action" else 0
        )
        for name, dtype in types.items()
    }


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
    action_space: ActionSpace
    env_id: str
    rows: int = 0
    episodes: tuple[Mapping[str, Any], ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    """The whole config of the environment; empty where it is not known."""
    played_by: Mapping[str, Any] = field(default_factory=dict)
    """Who acted: a policy, and the run and snapshot it came from."""

    def env_config(self, default: EnvConfig) -> EnvConfig:
        """The environment that was played in, as far as the dataset knows it.

        A dataset that knows an id alone, or was written by another version, changes the id of
        `default` alone. The id is untrusted: it names no code to import.
        """
        with suppress(UsageError):
            if self.env:
                known = from_json(dict(self.env), EnvConfig, "env")
                return replace(known, id=DatasetId(known.id))
        return replace(default, id=DatasetId(self.env_id))

    def write(self, folder: Path) -> None:
        """Replace `dataset.json` in one go, safe on the disk."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "env_id": self.env_id,
            **({"env": dict(self.env)} if self.env else {}),
            **({"played_by": dict(self.played_by)} if self.played_by else {}),
            "frame_shape": list(self.frame_shape),
            **space_to_json(self.action_space),
            "rows": self.rows,
            "sha256": dict(self.sha256),
        }
        head = json.dumps(content, indent=1).removesuffix("\n}")
        lines = ",\n  ".join(json.dumps(dict(x)) for x in self.episodes)
        temporary = folder / (DESCRIPTION + ".tmp")
        temporary.unlink(missing_ok=True)  # a link to another file would be written through
        with open(temporary, "w") as file:
            file.write(f'{head},\n "episodes": [\n  {lines}\n ]\n}}\n')
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / DESCRIPTION)
        sync(folder)  # the names of all files in it, too


@dataclass(frozen=True)
class _Content:
    """The schema of `dataset.json`."""

    format: str
    version: int
    env_id: str
    frame_shape: tuple[int, int, int]
    rows: int
    sha256: dict[str, str]
    episodes: list
    num_actions: int | None = None
    actions: WrittenActions | None = None
    env: dict[str, Any] | None = None
    played_by: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.format != FORMAT or self.version != VERSION:
            raise ValueError(
                f"it is of format {self.format} {self.version}; this version reads {FORMAT} "
                f"{VERSION}: convert it or use the version that wrote it"
            )
        if min(self.frame_shape) < 1 or math.prod(self.frame_shape) > LARGEST_FRAME:
            raise ValueError(
                f"frame_shape {self.frame_shape} must be positive, and at most 2^31 bytes in all"
            )
        check_written(self.num_actions, self.actions)
        if self.rows < 0:
            raise ValueError("rows must be at least 0")
        for number, line in enumerate(self.episodes):
            if not _is_episode(line):
                raise ValueError(
                    f"episodes[{number}] must have start and length, whole numbers, and info, an "
                    "object"
                )


def _is_episode(line: Any) -> bool:
    """By hand, since there may be a million of them."""
    if not isinstance(line, dict) or not isinstance(line.get("info", {}), dict):
        return False
    places = (line.get("start"), line.get("length"))
    return all(type(x) is int and 0 <= x < NUMBERS for x in places)


def read_description(folder: Path) -> Description:
    """Read and check `dataset.json`."""
    path = folder / DESCRIPTION
    if not path.exists():
        raise UsageError(
            f"{folder} is no dataset: it has no {DESCRIPTION}; expected a folder written by "
            "horizon record, horizon data import, or the replay folder of a run"
        )
    content = read_json(path, _Content, largest=LARGEST_DESCRIPTION)
    return Description(
        frame_shape=content.frame_shape,
        action_space=space_from_json(content.num_actions, content.actions),
        env_id=DatasetId(content.env_id),
        rows=content.rows,
        episodes=tuple(content.episodes),
        sha256=content.sha256,
        env=content.env or {},
        played_by=content.played_by or {},
    )


def complete_rows(
    folder: Path, frame_shape: tuple[int, int, int], columns: Mapping[str, ColumnType]
) -> int:
    """Rows that every file of the folder has in full."""
    sizes = {FRAMES: int(np.prod(frame_shape))}
    sizes |= {column.file: column.row_bytes for column in columns.values()}
    rows = []
    for name, row_bytes in sizes.items():
        if not (folder / name).is_file():
            raise UsageError(f"{folder} is incomplete: {name} is missing; restore it from a copy")
        rows.append((folder / name).stat().st_size // row_bytes)
    return min(rows)


def is_storable(reward: float) -> bool:
    """Whether float32 holds the reward as a finite number."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.float32(reward)))
