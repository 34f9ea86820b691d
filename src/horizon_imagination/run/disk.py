"""Disk of a run: whether it will suffice, before the run and while it trains."""

import shutil
from pathlib import Path

from horizon_imagination.run.callbacks import Callback, RunStart
from horizon_imagination.wording import size

MARGIN = 2.0
"""Snapshots that should still fit: one that is written beside the one it replaces."""


def free_bytes(folder: Path) -> int:
    """Free disk where a folder is or will be."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def folder_bytes(folder: Path) -> int:
    """The size of all files below a folder; those that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


def room_warning(needed: float, free: float) -> str:
    """What to say before a run that needs more disk than there is; empty if it fits.

    >>> room_warning(1e9, 5e9), room_warning(5e9, 1e9)[:55]
    ('', 'the disk has 1.0 GB free and the run needs about 5.0 GB')
    """
    if needed <= free:
        return ""
    return (
        f"the disk has {size(free)} free and the run needs about {size(needed)}: make room, or "
        "name another --out"
    )


class DiskWatch(Callback):
    """Warns once when the next snapshots, and the frames collected until then, may not fit."""

    def __init__(self) -> None:
        self.snapshot, self.warned = 0, False

    def on_start(self, run: RunStart) -> None:
        self.folder, self.note = run.folder, run.note
        cfg = run.agent.config
        frame = cfg.env.frame_channels * cfg.env.size**2
        self.collected = cfg.training.snapshot_every * cfg.training.collect_steps * frame
        parameters = sum(weight.numel() for weight in run.agent.weights().values())
        self.snapshot = 12 * parameters  # weights and two moments, until one is measured

    def on_snapshot(self, epochs: int, folder: Path) -> None:
        self.snapshot = folder_bytes(folder)

    def on_metrics(self, epoch: int, metrics: dict[str, float]) -> None:
        free, next_ones = free_bytes(self.folder), MARGIN * self.snapshot + self.collected
        if free >= next_ones:
            self.warned = False
        elif not self.warned:
            self.warned = True
            self.note(
                f"warning: the disk is nearly full: {size(free)} are free, the next snapshot and "
                f"the steps until then need {size(next_ones)}; make room, or stop the run now "
                "(Ctrl-C saves it) and go on elsewhere"
            )
