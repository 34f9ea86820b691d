"""How far a run has come, as its folder tells it; nothing else is remembered."""

import fcntl
import json
from dataclasses import dataclass
from pathlib import Path

from horizon_imagination.checkpoint import STATE
from horizon_imagination.config import Config
from horizon_imagination.run.folder import LOCK, METRICS
from horizon_imagination.snapshots import snapshots

RECENT = 10
"""Epochs over which the pace is taken."""
TAIL = 2**16
"""Bytes at the end of the metrics in which to look for them."""


@dataclass(frozen=True)
class Standing:
    """A run between its start and its end."""

    epochs: int
    """Done so far."""
    total: int
    seconds: float
    """Wall time so far."""
    pace: float | None
    """Seconds an epoch takes by now, if known."""

    @property
    def left(self) -> float | None:
        """Seconds until the end, at this pace."""
        return None if self.pace is None else self.pace * max(0, self.total - self.epochs)


def standing(folder: Path, config: Config) -> Standing:
    """What the metrics of a run say."""
    lines = _tail(folder / METRICS)
    total = config.training.epochs
    if not lines:
        return Standing(0, total, 0.0, None)
    times = [line["time/seconds"] for line in lines[-RECENT - 1 :]]
    pace = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else times[-1]
    return Standing(lines[-1]["epoch"] + 1, total, times[-1], max(pace, 0.0))


def is_finished(folder: Path, config: Config) -> bool:
    """Whether the latest snapshot is that of the last epoch, or of the target."""
    found = snapshots(folder)
    if not found:
        return False
    try:
        state = json.loads((found[-1] / STATE).read_text())
    except (OSError, ValueError):
        return False  # the run itself tells what is wrong with its snapshot
    target, reached = config.training.target_return, state.get("reached")
    done = target is not None and reached is not None and reached >= target
    return done or state.get("epoch", 0) >= config.training.epochs


def saved_epochs(folder: Path) -> int:
    """Epochs that are safe in a snapshot."""
    found = snapshots(folder)
    try:
        return json.loads((found[-1] / STATE).read_text())["epoch"] if found else 0
    except (OSError, ValueError, KeyError):
        return 0


def is_claimed(folder: Path) -> bool:
    """Whether some process is training in the folder right now."""
    try:
        with open(folder / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _tail(path: Path) -> list[dict]:
    """The last complete lines of a file of JSON lines."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    found = []
    for line in lines[0 if size <= TAIL else 1 : -1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # the half line of a killed process
    return [line for line in found if "time/seconds" in line and "epoch" in line]
