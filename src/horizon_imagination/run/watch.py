"""What a training loop tells the world; watchers overload what they care for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Watcher:
    """Listens to a run and ignores everything."""

    def start(self, description: dict[str, Any]) -> None:
        """The run begins or goes on: epochs, first epoch, steps of every stage."""

    def stage(self, epoch: int, name: str, steps: int) -> None:
        """A stage of an epoch begins: collect, a learner's name, or evaluate."""

    def step(self, count: int = 1) -> None:
        """Steps of the stage are done."""

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        """An epoch is over; means of its metrics."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def finish(self, folder: Path) -> None:
        """The run is over."""


class Watchers(Watcher):
    """Several watchers as one."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self.watchers = watchers

    def start(self, description: dict[str, Any]) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.start(description)

    def stage(self, epoch: int, name: str, steps: int) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.stage(epoch, name, steps)

    def step(self, count: int = 1) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.step(count)

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.epoch(epoch, metrics)

    def note(self, text: str) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.note(text)

    def finish(self, folder: Path) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.finish(folder)
