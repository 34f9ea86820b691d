"""Where a run keeps its snapshots, and which of them to load."""

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
    """Give a written snapshot its name, at once, and drop the oldest beyond `keep`."""
    final = temporary.with_suffix("")
    if final.exists():
        shutil.rmtree(final)
    temporary.rename(final)
    run = final.parent.parent
    for old in snapshots(run, prefix)[:-keep]:
        shutil.rmtree(old)
    return final


def agent_folder(path: Path) -> Path:
    """The folder with an agent's weights: a run's best snapshot, its latest, or `path` itself."""
    for candidate in (path, *snapshots(path, BEST)[::-1], *snapshots(path)[::-1]):
        if (candidate / "agent.json").is_file():
            return candidate
    if not path.exists():
        raise UsageError(f"{path} does not exist; expected the folder of a run or of a snapshot")
    raise UsageError(f"{path} holds no snapshot yet; train first (horizon train --out {path})")
