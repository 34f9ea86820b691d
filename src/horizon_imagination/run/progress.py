"""A bar for what takes a while; without a terminal, a line every few seconds."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """Yields a function for what was done since the last call, and the steps that it took."""
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
