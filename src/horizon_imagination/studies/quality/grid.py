"""The grid of the generation quality study: which schedules, in which order, in which process."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.schedules import schedule_of_kind
from horizon_imagination.types import Schedule
from horizon_imagination.windows import frame_evaluations

PointKind = Literal["horizon", "pyramidal", "full", "reconstruction", "frozen"]
BASELINES: tuple[PointKind, ...] = ("reconstruction", "frozen")
"""Baselines that generate nothing: the reconstruction, and the last context frame held."""
SCHEDULES: tuple[PointKind, ...] = ("horizon", "pyramidal", "full")
REFERENCES = ("truth", "reconstruction")
"""What generated videos are compared with: the real frames, and what the tokenizer keeps."""


class GridPoint(NamedTuple):
    """One schedule of the study, or a baseline (with a budget of 0)."""

    kind: PointKind
    budget: int = 0
    decay_horizon: float = 0.0
    """Of the Horizon schedule; 0 for the others, which have no choice."""

    @property
    def name(self) -> str:
        """Its name in progress lines and tables."""
        if self.kind in BASELINES:
            return {"frozen": "context frame held"}.get(self.kind, self.kind)
        decay = f", decay {self.decay_horizon:g}" if self.kind == "horizon" else ""
        return f"{self.kind}, budget {self.budget}{decay}"

    def schedule(self, horizon: int) -> Schedule:
        """Its matrix of times."""
        if self.kind in ("reconstruction", "frozen"):
            raise ValueError(f"{self.name} has no schedule")
        return schedule_of_kind(self.kind, horizon, self.budget, self.decay_horizon)

    def evaluations(self, horizon: int, context: int) -> tuple[int, int]:
        """Frames the denoiser sees per video: with the window, and in the plain loop."""
        return _evaluations(self, horizon, context)


@functools.cache
def _evaluations(point: GridPoint, horizon: int, context: int) -> tuple[int, int]:
    if point.kind in BASELINES:
        return 0, 0
    return frame_evaluations(point.schedule(horizon), context)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Budgets and decay horizons to try; the defaults are the paper's."""

    horizon: int = 32
    context: int = 1
    budgets: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    decay_horizons: tuple[float, ...] = (1, 2, 4, 8, 16, 32)
    kinds: tuple[PointKind, ...] = SCHEDULES

    def __post_init__(self) -> None:
        if self.horizon < 1 or self.context < 1:
            raise ValueError("horizon and context must be at least 1 frame each")
        if not self.budgets or min(self.budgets) < 1:
            raise ValueError("budgets must name denoising steps of at least 1")
        if not self.kinds or not set(self.kinds) <= set(SCHEDULES):
            raise ValueError(f"kinds must be some of {', '.join(SCHEDULES)}")
        if "horizon" in self.kinds and not [d for d in self.decay_horizons if d <= self.horizon]:
            raise ValueError(
                f"no decay horizon fits the horizon of {self.horizon} frames; "
                f"name some between 1 and {self.horizon}"
            )

    def points(self) -> list[GridPoint]:
        """Baselines first, then from cheap to expensive; impossible points are left out.

        Left out are decay horizons above the horizon, and Pyramidal budgets below it.
        """
        found: list[GridPoint] = []
        for budget in self.budgets:
            for kind in self.kinds:
                if kind == "horizon":
                    decays = [d for d in self.decay_horizons if d <= self.horizon]
                    found += [GridPoint(kind, budget, float(decay)) for decay in decays]
                elif kind == "full" or budget >= self.horizon:
                    found.append(GridPoint(kind, budget))
        with as_usage_error():
            found.sort(key=lambda p: (p.evaluations(self.horizon, self.context)[0], p))
        return list(dict.fromkeys([*map(GridPoint, BASELINES), *found]))


@dataclass(frozen=True)
class Shard:
    """Part `index` (from 1) of `count` of the points."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """From `2/8`; the empty text is everything."""
        if not text:
            return cls()
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        index, count = map(int, match.groups()) if match else (0, 0)
        if not 1 <= index <= count:
            raise UsageError(f"--shard is '{text}': expected i/n with i from 1 to n, such as 2/8")
        return cls(index, count)

    def of(self, points: Sequence[GridPoint]) -> list[GridPoint]:
        """Its points: every n-th, so that all parts cost about the same."""
        return list(points[self.index - 1 :: self.count])

    @property
    def file(self) -> str:
        """Where its results go: one file per part, so that no two processes share one."""
        return f"points-{self.index}-of-{self.count}.jsonl" if self.count > 1 else "points.jsonl"
