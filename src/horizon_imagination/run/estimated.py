"""`estimate.json`: what was estimated before a run began, kept for comparison."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from horizon_imagination.files import write_json
from horizon_imagination.schema import read_json

ESTIMATE = "estimate.json"


@dataclass(frozen=True)
class Estimated:
    """The estimate of a run; empty for runs of earlier versions."""

    epoch_seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of an epoch by learner, on a quiet machine."""
    disk_bytes: float = 0.0
    """Disk of the whole run, its replay included."""


def read_estimate(folder: Path) -> Estimated:
    """The estimate of the run in a folder."""
    path = folder / ESTIMATE
    return read_json(path, Estimated, extra=True) if path.exists() else Estimated()


def write_estimate(folder: Path, estimated: Estimated) -> None:
    """Keep the estimate."""
    write_json(folder / ESTIMATE, asdict(estimated))
