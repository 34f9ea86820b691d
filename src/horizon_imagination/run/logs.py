"""Where metrics go: a line of JSON per epoch, TensorBoard, and wandb if asked."""

import math
import secrets
import threading
from pathlib import Path
from typing import Any

from horizon_imagination.config import Config
from horizon_imagination.config_json import to_json
from horizon_imagination.errors import UsageError
from horizon_imagination.files import append_jsonl
from horizon_imagination.provenance import provenance
from horizon_imagination.run.callbacks import Callback, RunStart
from horizon_imagination.run.folder import (
    METRICS,
    SESSIONS,
    TENSORBOARD,
    rewind_metrics,
    strips_of,
)
from horizon_imagination.run.read import read_metrics

WANDB_ID = "wandb-id.txt"


class MetricsFile(Callback):
    """`metrics.jsonl`: one object per epoch, `{"epoch": n, "env/return": …}`, in strict JSON.

    A value that is not finite is null. `sessions.jsonl` gets a line whenever the run is started or
    resumed: the epoch that comes next, date, commit, machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_start(self, run: RunStart) -> None:
        """Drop the epochs that will be trained again."""
        rewind_metrics(self.folder, run.first_epoch)
        made = provenance(str(run.agent.device))
        append_jsonl(self.folder / SESSIONS, {"epoch": run.first_epoch} | made)

    def on_metrics(self, epoch: int, metrics: dict[str, float]) -> None:
        """Append a line; the file is complete whenever one looks."""
        finite = {name: x if math.isfinite(x) else None for name, x in metrics.items()}
        append_jsonl(self.folder / METRICS, {"epoch": epoch} | finite)


class TensorBoard(Callback):
    """Events in the run's `tensorboard` folder: metrics, and film strips as images.

    They are counted in environment steps, or in epochs where an epoch takes none (offline).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer: Any = None
        self._by_epoch = False
        self._latest, self._drawn = (-1, 0), -1

    def on_start(self, run: RunStart) -> None:
        """Open the events; those of epochs that are trained again replace what was there."""
        from torch.utils.tensorboard import SummaryWriter

        self._by_epoch = not run.agent.config.training.collect_steps
        done = [entry for entry in read_metrics(self.folder) if entry["epoch"] < run.first_epoch]
        first = self._step(done[-1]["epoch"], done[-1]) + 1 if done else None
        _hush_writers()
        self.writer = SummaryWriter(str(self.folder / TENSORBOARD), purge_step=first)

    def on_metrics(self, epoch: int, metrics: dict[str, float]) -> None:
        """One point per metric, and the strips of this epoch if there are any."""
        self._latest = epoch, self._step(epoch, metrics)
        for name, value in (metrics | {"epoch": epoch}).items():
            self.writer.add_scalar(name, value, self._latest[1])
        self._add_strips()
        self.writer.flush()

    def on_end(self) -> None:
        """Add the last strips and close the events."""
        self._add_strips()
        self.writer.close()

    def _step(self, epoch: int, metrics: dict[str, float]) -> int:
        return epoch if self._by_epoch else int(metrics.get("env/steps", epoch))

    def _add_strips(self) -> None:
        epoch, step = self._latest
        path = strips_of(self.folder, epoch)
        if epoch == self._drawn or not path.is_file():
            return
        import numpy as np
        from PIL import Image

        self._drawn = epoch
        with Image.open(path) as image:
            paper = Image.new("RGBA", image.size, "white")
            paper.alpha_composite(image.convert("RGBA"))
            pixels = np.asarray(paper.convert("RGB"))
        self.writer.add_image("strips", pixels, step, dataformats="HWC")


def _hush_writers() -> None:
    """Events are written by a thread; the run raises its errors, so the thread need not print them.

    Failures of other threads are told as before.
    """
    before = threading.excepthook
    if getattr(before, "hushes_writers", False):
        return

    def hook(args: threading.ExceptHookArgs) -> None:
        of_writer = type(args.thread).__module__.startswith("tensorboard.")
        if not (of_writer and isinstance(args.exc_value, OSError)):
            before(args)

    hook.hushes_writers = True  # type: ignore[attr-defined]
    threading.excepthook = hook


class Wandb(Callback):
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

    def on_start(self, run: RunStart) -> None:
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

    def on_metrics(self, epoch: int, metrics: dict[str, float]) -> None:
        self.run.log(metrics | {"epoch": epoch}, step=epoch)

    def on_end(self) -> None:
        self.run.finish()


def make_logs(folder: Path, config: Config, wandb: str | None) -> tuple[list[Callback], list[str]]:
    """The logs of a run, and a warning for each that cannot be had."""
    logs: list[Callback] = [MetricsFile(folder)]
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
