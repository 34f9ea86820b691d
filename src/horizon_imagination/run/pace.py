"""The time left of a run, from the time of its steps so far."""

import time
from collections.abc import Callable
from dataclasses import dataclass


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
        self, plan: list[Stage], epochs: int, clock: Callable[[], float] = time.monotonic
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
