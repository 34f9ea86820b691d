"""Progress of long work: what is done, how fast, and how long the rest takes."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from horizon_imagination.wording import clock, rate, time_left


class Tally:
    """How many things are done, how fast steps are taken, how long the rest takes."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total = what, total
        self.done = self.steps = 0
        self.begun = monotonic()

    def add(self, done: int, steps: int) -> None:
        """Count what is done since the last call, and the steps that it took."""
        self.done += done
        self.steps += steps

    def __str__(self) -> str:
        said = [f"{self.done:,}/{self.total:,} {self.what}"]
        seconds = monotonic() - self.begun
        if self.steps and self.what != "steps":
            said.append(f"{self.steps:,} steps")
        if self.steps and seconds:
            said.append(rate(self.steps / seconds))
        if self.done:
            said.append(f"left about {clock(time_left(seconds, self.done, self.total))}")
        return ", ".join(said)


@contextmanager
def counted(what: str, total: int, seconds: float = 5.0) -> Iterator[Callable[[int, int], None]]:
    """A bar, or without a terminal a line every few seconds.

    Yields a function for what was done since the last call, and the steps that it took.
    """
    tally = Tally(what, total)
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = BarColumn(), TextColumn("{task.description}")
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(str(tally), total=total)

            def update(done: int, steps: int) -> None:
                tally.add(done, steps)
                bar.update(task, completed=tally.done, description=str(tally))

            yield update
        return
    last = monotonic()

    def report(done: int, steps: int) -> None:
        nonlocal last
        tally.add(done, steps)
        if monotonic() - last >= seconds:
            last = monotonic()
            print(tally, file=sys.stderr, flush=True)

    yield report


def _always(epoch: int) -> bool:
    return True


@dataclass(frozen=True)
class Stage:
    """A part of the epochs in which it works."""

    name: str
    steps: int
    """Steps per epoch."""
    works_in: Callable[[int], bool] = _always
    """Whether it runs in an epoch (from 0)."""

    def steps_between(self, first: int, epochs: int) -> int:
        """Steps in the epochs first .. epochs - 1.

        >>> Stage("tokenizer", 10, lambda epoch: 2 <= epoch <= 4).steps_between(3, 9)
        20
        """
        return self.steps * sum(map(self.works_in, range(first, epochs)))


class Pace:
    """Seconds per step of every stage, the recent ones counting more."""

    def __init__(
        self, plan: list[Stage], epochs: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self.plan, self.epochs, self.clock = plan, epochs, clock
        self.seconds: dict[str, float] = {}
        self._stage, self._steps, self._since = "", 0, clock()

    def stage(self, name: str) -> None:
        """A stage begins; the previous one is over."""
        self._close()
        self._stage, self._steps, self._since = name, 0, self.clock()

    def step(self, count: int = 1) -> None:
        """Steps of the stage are done."""
        self._steps += count

    def rate(self) -> float:
        """Steps per second of the current stage."""
        return self._steps / max(self.clock() - self._since, 1e-9)

    def epoch_over(self) -> None:
        """Nothing runs until the next stage."""
        self._close()
        self._stage, self._steps = "", 0

    def left(self, epoch: int) -> tuple[float, list[str]]:
        """Seconds for the epochs from `epoch` on, and the stages that have not run yet."""
        total, unknown = 0.0, []
        for stage in self.plan:
            steps = stage.steps_between(epoch, self.epochs)
            if steps and stage.name in self.seconds:
                total += steps * self.seconds[stage.name]
            elif steps:
                unknown.append(stage.name)
        return total, unknown

    def _close(self) -> None:
        if not self._stage or not self._steps:
            return
        now = (self.clock() - self._since) / self._steps
        before = self.seconds.get(self._stage, now)
        self.seconds[self._stage] = 0.7 * before + 0.3 * now
