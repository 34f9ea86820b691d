"""Which frames a row of the schedule needs: the window plan of exact, fast imagination.

A clean frame after clean frames has final keys and values (it is *settled*); a frame that has not
started is invisible to all before it. So each denoising step needs only the frames from the first
unsettled one to the last one that moves.
"""

from typing import NamedTuple

from horizon_imagination.schedules import moving
from horizon_imagination.types import Schedule


class Window(NamedTuple):
    """The frames [start, stop) to evaluate at a row, of context and imagined frames together."""

    row: int
    start: int
    """Frames before it are settled: their state is cached."""
    stop: int
    settled: int
    """Frames settled once this row is evaluated; the next window starts here."""

    @property
    def width(self) -> int:
        """How many frames are evaluated."""
        return self.stop - self.start


def window_plan(schedule: Schedule, context: int) -> list[Window]:
    """One window per denoising step; `context` clean frames precede the schedule's.

    >>> from horizon_imagination.schedules import horizon_schedule
    >>> [tuple(w) for w in window_plan(horizon_schedule(3, 3, 1), context=1)]
    [(0, 0, 2, 1), (1, 1, 3, 2), (2, 2, 4, 3)]
    """
    plan, settled, stop = [], 0, context
    for row, (moves, tau) in enumerate(zip(moving(schedule), schedule[:-1], strict=True)):
        moved = moves.nonzero().flatten()
        start = settled
        # Never smaller again: a frame that pauses is still seen by those that move after it.
        stop = max(stop, context + int(moved[-1]) + 1) if len(moved) else stop
        clean = context + int((tau == 1).int().cumprod(0).sum())
        settled = max(settled, min(clean, stop))
        plan.append(Window(row, start, stop, settled))
    return plan


def frame_evaluations(schedule: Schedule, context: int) -> tuple[int, int]:
    """Frames the denoiser evaluates for one trajectory: with the window, and without it."""
    windowed = sum(window.width for window in window_plan(schedule, context))
    return windowed, (len(schedule) - 1) * (context + schedule.shape[1])
