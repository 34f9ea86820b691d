"""The folder of a quality study: a line per finished point, and features of every set of videos.

Lines are only ever added, one file per part of a sharded study; a line counts if it is whole.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from horizon_imagination.errors import UsageError
from horizon_imagination.studies.quality_points import Point, Shard
from horizon_imagination.studies.results import write_jsonl

Line = dict[str, Any]


def study_key(settings: dict[str, Any]) -> str:
    """The name of a study: a hash of everything its numbers depend on, except the point."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def point_of(line: Line) -> Point:
    """The point that a line is about."""
    return Point(line["kind"], line["budget"], line["decay_horizon"])


def is_study(folder: Path) -> bool:
    """Whether a folder holds results of a quality study."""
    return any(folder.glob("points*.jsonl"))


def read_lines(folder: Path) -> list[Line]:
    """All whole lines of all parts, in the order of their writing within each."""
    lines = []
    for path in sorted(folder.glob("points*.jsonl"), key=lambda p: p.stat().st_mtime):
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
                point_of(line)
            except (ValueError, KeyError, TypeError):
                continue  # the half line of a killed process
            if "study" in line:
                lines.append(line)
    return lines


def finished(folder: Path, study: str) -> dict[Point, Line]:
    """What is known of a study, from all its parts."""
    return {point_of(line): line for line in read_lines(folder) if line["study"] == study}


def write_merged(folder: Path, lines: Iterable[Line]) -> None:
    """All points of a study in one file, whatever parts they came from."""
    write_jsonl(folder / "quality.jsonl", sorted(lines, key=point_of))


class PointsFile:
    """The lines of one part of a study, open for adding."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def add(self, line: Line) -> None:
        """Return once the line is safe on the disk."""
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


def file_name(point: Point) -> str:
    """A point as the name of a file."""
    if not point.budget:
        return point.kind
    decay = f"-decay{point.decay_horizon:g}" if point.kind == "horizon" else ""
    return f"{point.kind}-budget{point.budget}{decay}"


def save_features(path: Path, features: Tensor) -> None:
    """Write features, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    save_file({"features": features.contiguous()}, draft)
    os.replace(draft, path)


def load_features(path: Path) -> Tensor | None:
    """Features that were kept, or none."""
    try:
        return load_file(path)["features"]
    except FileNotFoundError:
        return None
    except (SafetensorError, KeyError, OSError) as error:
        raise UsageError(f"{path} cannot be read ({error}); remove it and run again") from error
