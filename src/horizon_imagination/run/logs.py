"""Where metrics go: a line of JSON per epoch, TensorBoard, and wandb if asked."""

import json
import secrets
from pathlib import Path
from typing import Any

from horizon_imagination.config import Config
from horizon_imagination.config_json import to_json
from horizon_imagination.errors import UsageError
from horizon_imagination.run.folder import METRICS, rewind_metrics
from horizon_imagination.run.watch import Watcher

TENSORBOARD, WANDB_ID = "tensorboard", "wandb-id.txt"


class MetricsFile(Watcher):
    """`metrics.jsonl`: one object per epoch, `{"epoch": n, "env/return": …}`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, description: dict[str, Any]) -> None:
        """Forget the epochs that will be trained again."""
        rewind_metrics(self.folder, description["first_epoch"])

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        """Append a line; the file is complete whenever one looks."""
        with open(self.folder / METRICS, "a") as file:
            file.write(json.dumps({"epoch": epoch} | metrics) + "\n")


class TensorBoard(Watcher):
    """Events in the run's `tensorboard` folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer: Any = None

    def start(self, description: dict[str, Any]) -> None:
        """Open the events; what a resumed run repeats replaces what was there."""
        from torch.utils.tensorboard import SummaryWriter

        place, first = str(self.folder / TENSORBOARD), description["first_epoch"]
        self.writer = SummaryWriter(place, purge_step=first or None)

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        """One point per metric."""
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def finish(self, folder: Path) -> None:
        """Close the events."""
        self.writer.close()


class Wandb(Watcher):
    """A run of a wandb project; a resumed run goes on in the same one."""

    def __init__(self, folder: Path, project: str, config: Config) -> None:
        try:
            import wandb  # type: ignore[import-not-found]
        except ImportError:
            raise UsageError(
                "--wandb needs wandb: pip install 'horizon_imagination[wandb]'"
            ) from None
        self.module, self.folder = wandb, folder
        self.project, self.config = project, config
        self.run: Any = None

    def start(self, description: dict[str, Any]) -> None:
        """Begin, or go on with, the run of this folder."""
        name = self.folder / WANDB_ID
        if not name.exists():
            name.write_text(secrets.token_hex(8))
        self.run = self.module.init(
            project=self.project,
            id=name.read_text().strip(),
            name=self.folder.name,
            dir=str(self.folder),
            config=to_json(self.config),
            resume="allow",
        )

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        """One point per metric."""
        self.run.log(metrics | {"epoch": epoch}, step=epoch)

    def finish(self, folder: Path) -> None:
        """Close the run."""
        self.run.finish()


def make_logs(folder: Path, config: Config, wandb: str | None) -> tuple[list[Watcher], list[str]]:
    """The logs of a run, and a warning for each that cannot be had."""
    logs: list[Watcher] = [MetricsFile(folder)]
    warnings = []
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        warnings.append("tensorboard is not installed: no events are written, metrics.jsonl is")
    else:
        logs.append(TensorBoard(folder))
    if wandb:
        logs.append(Wandb(folder, wandb, config))
    return logs, warnings
