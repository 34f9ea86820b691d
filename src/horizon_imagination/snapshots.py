"""Where a run keeps its snapshots, and which of them to load."""

import os
import shutil
from pathlib import Path

from horizon_imagination.errors import UsageError

CHECKPOINTS, SNAPSHOT, BEST = "checkpoints", "epoch-", "best-"


def snapshots(run: Path, prefix: str = SNAPSHOT) -> list[Path]:
    """Complete snapshots, oldest first; one that was being written is not among them."""
    folder = run / CHECKPOINTS
    found = folder.glob(f"{prefix}[0-9]*") if folder.is_dir() else []
    return sorted(path for path in found if path.is_dir() and path.suffix != ".tmp")


def publish(temporary: Path, keep: int, prefix: str = SNAPSHOT) -> Path:
    """Give a written snapshot its name, at once, and drop the oldest beyond `keep`.

    A snapshot of the same name stays until the new one is there; the new one then has a `+` more.
    """
    final = temporary.with_suffix("")
    while final.exists():
        final = final.with_name(final.name + "+")
    for file in (*temporary.iterdir(), temporary):
        _sync(file)
    temporary.rename(final)
    _sync(final.parent)
    others = [path for path in snapshots(final.parent.parent, prefix) if path != final]
    for old in others[: len(others) - keep + 1]:
        shutil.rmtree(old)
    return final


def _sync(path: Path) -> None:
    """Return once a file, or the names in a folder, are safe on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def agent_folder(path: Path) -> Path:
    """The folder with an agent's weights: a run's best snapshot, its latest, or `path` itself."""
    for candidate in (path, *snapshots(path, BEST)[::-1], *snapshots(path)[::-1]):
        if (candidate / "agent.json").is_file():
            return candidate
    if not path.exists():
        raise UsageError(f"{path} does not exist; expected the folder of a run or of a snapshot")
    raise UsageError(f"{path} holds no snapshot yet; train first (horizon train --out {path})")
