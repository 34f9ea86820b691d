"""What a training loop tells its callbacks: the life cycle of a run.

    on_start                    the run begins or is resumed
      on_epoch                  an epoch begins
        on_stage, on_step       collect, each learner, evaluate; one on_step or more in each;
                                `together` where world model and controller learn at once
        on_metrics              the epoch is over
        on_snapshot             if a snapshot was written after it
    on_end                      the run is over; not called if it was interrupted

`on_note` may come at any time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.learn.batches import Batches


@dataclass(frozen=True)
class Stage:
    """A part of the epochs in which it has steps."""

    name: str
    steps_in: Callable[[int], int]
    """Its steps in an epoch (from 0)."""

    def steps_between(self, first: int, epochs: int) -> int:
        """Steps in the epochs first .. epochs - 1.

        >>> Stage("tokenizer", lambda epoch: 10 if epoch <= 4 else 0).steps_between(3, 9)
        20
        """
        return sum(map(self.steps_in, range(first, epochs)))


def _ignored() -> None:
    """Nobody to stop."""


@dataclass(frozen=True)
class RunStart:
    """A run that begins or is resumed."""

    agent: Agent
    store: Store
    folder: Path
    first_epoch: int = 0
    """The epoch that comes next: those before it are done."""
    seconds: float = 0.0
    """Wall time of the epochs before it."""
    plan: tuple[Stage, ...] = ()
    """The stages of an epoch."""
    note: Callable[[str], None] = lambda text: None
    """For a callback that has something to say to the others."""
    batches: Batches | None = None
    """Batches of the stored experience: frames, segments, contexts."""
    stop: Callable[[], None] = _ignored
    """Ends the run after the present epoch, with a snapshot; a later start goes on from there."""


class Callback:
    """Listens to a run and ignores everything; subclasses override what they need."""

    def on_start(self, run: RunStart) -> None:
        """The run begins or is resumed."""

    def on_epoch(self, epoch: int) -> None:
        """An epoch begins; epochs count from 0."""

    def on_stage(self, epoch: int, name: str, steps: int) -> None:
        """A stage of an epoch begins: collect, a learner's name, together, or evaluate."""

    def on_step(self, count: int = 1) -> None:
        """Steps of the stage are done."""

    def on_metrics(self, epoch: int, metrics: dict[str, float]) -> None:
        """An epoch is over; means of its metrics. Entries that are added are logged too."""

    def on_snapshot(self, epochs: int, folder: Path) -> None:
        """A snapshot was written; so many epochs are done."""

    def on_note(self, text: str) -> None:
        """A line for the user."""

    def on_end(self) -> None:
        """The run is over."""


class Callbacks(Callback):
    """Several callbacks as one: each is told everything, in order."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = tuple(callbacks)

    def on_start(self, run: RunStart) -> None:
        for callback in self.callbacks:
            callback.on_start(run)

    def on_epoch(self, epoch: int) -> None:
        for callback in self.callbacks:
            callback.on_epoch(epoch)

    def on_stage(self, epoch: int, name: str, steps: int) -> None:
        for callback in self.callbacks:
            callback.on_stage(epoch, name, steps)

    def on_step(self, count: int = 1) -> None:
        for callback in self.callbacks:
            callback.on_step(count)

    def on_metrics(self, epoch: int, metrics: dict[str, float]) -> None:
        for callback in self.callbacks:
            callback.on_metrics(epoch, metrics)

    def on_snapshot(self, epochs: int, folder: Path) -> None:
        for callback in self.callbacks:
            callback.on_snapshot(epochs, folder)

    def on_note(self, text: str) -> None:
        for callback in self.callbacks:
            callback.on_note(text)

    def on_end(self) -> None:
        for callback in self.callbacks:
            callback.on_end()
