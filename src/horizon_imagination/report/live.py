"""Film strips while a run is going on."""

from pathlib import Path

from horizon_imagination.errors import UsageError
from horizon_imagination.learn.streams import derive_seed
from horizon_imagination.report.pictures import has_films, write_strips
from horizon_imagination.run.trainer import Trainer
from horizon_imagination.run.watch import Watcher


class StripWriter(Watcher):
    """Writes `videos/epoch-N.png` (and `.mp4`) every `training.strips_every` epochs.

    It draws from random numbers of its own: a run learns the same with and without it. What
    cannot be drawn or written costs one note and no training.
    """

    def __init__(self, trainer: Trainer, *, examples: int = 2) -> None:
        self.trainer, self.examples = trainer, examples
        self.every = trainer.config.training.strips_every
        self._written = -1
        self._noted: set[str] = set()

    def start(self, description: dict) -> None:
        """Say once what is missing."""
        if not self.every:
            return
        if not _has_pillow():
            self.every = 0
            self._note("pillow is not installed: no film strips are written")
        elif not has_films():
            self._note("av is not installed: film strips are pictures only")

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        """Write strips if it is their turn and the world model has begun to learn."""
        if self.every and (epoch + 1) % self.every == 0:
            self._write(epoch)

    def finish(self, folder: Path) -> None:
        """The last strips, whatever epoch it is."""
        if self.every:
            self._write(self.trainer.progress.epoch - 1)

    def _write(self, epoch: int) -> None:
        trainer = self.trainer
        if epoch <= self._written or epoch < trainer.config.world_model.learner.first_epoch:
            return
        self._written = epoch
        seed = derive_seed(trainer.config.seed, f"strips {epoch}") % 2**31
        name = f"epoch-{epoch + 1:06d}"
        try:
            write_strips(trainer.agent, trainer.store, trainer.folder, name, self.examples, seed)
        except (UsageError, OSError) as error:
            self._note(f"no film strip: {error}")

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.trainer.watcher.note(text)


def _has_pillow() -> bool:
    try:
        import PIL  # noqa: F401
    except ImportError:
        return False
    return True
