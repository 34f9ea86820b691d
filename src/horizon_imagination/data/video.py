"""One episode from a video and a table of actions."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from horizon_imagination.errors import UsageError

VIDEO_SUFFIXES = {".mp4", ".mkv", ".webm", ".mov", ".avi"}
FLAGS = {"0": False, "1": True, "false": False, "true": True, "": False}


def decode(path: Path) -> Iterator[np.ndarray]:
    """The frames of a video, in order, as RGB (height, width, channel)."""
    try:
        import av
        from av.error import FFmpegError
    except ImportError as error:
        raise UsageError("reading videos needs PyAV; install it with: pip install av") from error
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise UsageError(f"{path} has no video stream")
            for frame in container.decode(video=0):
                yield frame.to_ndarray(format="rgb24")
    except UsageError:
        raise
    except (FFmpegError, OSError, ValueError) as error:  # a name in it that is not UTF-8, too
        raise UsageError(f"{path} cannot be decoded ({error}); expected a video") from error


def read_table(path: Path) -> tuple[np.ndarray, np.ndarray, bool]:
    """Actions, rewards and whether the episode terminated, from a table with a header."""
    if not path.is_file():
        raise UsageError(f"{path} is missing; each video needs a table with a header 'action'")
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        try:
            header = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = header
            lines = [(reader.line_num, line) for line in reader]
        except (csv.Error, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is no table of comma-separated values ({error})") from error
    unknown = set(header) - {"action", "reward", "terminated"}
    if "action" not in header or unknown:
        raise UsageError(
            f"{path} has the columns {', '.join(header) or 'none'}; expected a first line "
            "'action', 'action,reward' or 'action,reward,terminated'"
        )
    rows = [_row(path, number, line) for number, line in lines]
    for (_, _, terminated), (number, _) in zip(rows[:-1], lines[:-1], strict=True):
        if terminated:
            raise UsageError(
                f"{path} is terminated at line {number}, before its last line; "
                "expected one episode per video"
            )
    action = np.array([row[0] for row in rows], np.int64)
    reward = np.array([row[1] for row in rows], np.float32)
    return action, reward, bool(rows) and rows[-1][2]


def _row(path: Path, number: int, line: dict[str, str | None]) -> tuple[int, float, bool]:
    try:
        action = int(line["action"] or "")
        if abs(action) >= 2**63:
            raise ValueError("too large for any array")
        reward = float(line.get("reward") or 0)
        terminated = FLAGS[(line.get("terminated") or "").strip().lower()]
        if None in line:
            raise ValueError("more values than columns")
        return action, reward, terminated
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"{path}, line {number}: {', '.join(str(x) for x in line.values())} is not a whole "
            "action, a reward and a flag 0 or 1"
        ) from error
