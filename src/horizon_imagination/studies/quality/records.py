"""The folder of a quality study: a line per finished point, and features of every set of videos.

Lines are only ever added, one file per part of a sharded study; a line counts if it is whole.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from horizon_imagination.errors import UsageError
from horizon_imagination.files import replacing, write_jsonl
from horizon_imagination.schema import checked
from horizon_imagination.schema import read_lines as read_json_lines
from horizon_imagination.studies.quality.grid import GridPoint, PointKind, Shard
from horizon_imagination.tensor_files import read_tensors

Line = dict[str, Any]


@dataclass(frozen=True)
class _Line:
    """What every line has; a point has its figures besides."""

    study: str
    kind: PointKind
    budget: int
    decay_horizon: float
    settings: dict[str, Any]


def study_key(settings: dict[str, Any]) -> str:
    """The name of a study: a hash of everything its numbers depend on, except the point."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def point_of(line: Line) -> GridPoint:
    """The point that a line is about."""
    return GridPoint(line["kind"], line["budget"], line["decay_horizon"])


def is_study(folder: Path) -> bool:
    """Whether a folder holds results of a quality study."""
    return any(folder.glob("points*.jsonl"))


def read_lines(folder: Path) -> list[Line]:
    """All whole lines of all parts, in the order of their writing within each."""
    lines = []
    for path in sorted(folder.glob("points*.jsonl"), key=lambda p: p.stat().st_mtime):
        for line in read_json_lines(path, dict):
            if "study" in line:
                checked(line, _Line, f"{path}: ", extra=True)
                lines.append(line)
    return lines


def finished(folder: Path, study: str) -> dict[GridPoint, Line]:
    """The finished points of a study, from all its parts."""
    return {point_of(line): line for line in read_lines(folder) if line["study"] == study}


def write_merged(folder: Path, lines: Iterable[Line]) -> None:
    """Write the points of all parts of a study into one file."""
    write_jsonl(folder / "quality.jsonl", sorted(lines, key=point_of))


class PointsFile:
    """The lines of one part of a study, open for adding."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def add(self, line: Line) -> None:
        """Append a line; returns once it is on the disk."""
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@contextmanager
def adding(folder: Path, shard: Shard) -> Iterator[PointsFile]:
    """Open a part's file; no other process may add to it meanwhile."""
    path = folder / shard.file
    with open(path, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another process is adding to {path}; wait for it, or name another --out"
            ) from None
        if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
            file.write("\n")  # after the half line of a killed process
        yield PointsFile(file)


def features_path(folder: Path, study: str, name: str) -> Path:
    """Where the features of a set of videos are kept."""
    return folder / "features" / study / f"{name}.safetensors"


def file_name(point: GridPoint) -> str:
    """A point as the name of a file."""
    if not point.budget:
        return point.kind
    decay = f"-decay{point.decay_horizon:g}" if point.kind == "horizon" else ""
    return f"{point.kind}-budget{point.budget}{decay}"


def save_features(path: Path, features: Tensor) -> None:
    """Write features atomically."""
    with replacing(path) as temporary:
        save_file({"features": features.contiguous()}, temporary)


def load_features(path: Path) -> Tensor | None:
    """Stored features; None if there are none."""
    if not path.exists():
        return None
    try:
        return read_tensors(path)["features"]
    except (UsageError, KeyError) as error:
        raise UsageError(f"{path} cannot be read ({error}); remove it and run again") from error
