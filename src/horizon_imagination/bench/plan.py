"""What `horizon bench` measures (a config, schedules, modes, sweeps), and the fit of growth."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from horizon_imagination.bench.clock import Ceilings
from horizon_imagination.config import Config
from horizon_imagination.costs import Costs, Work
from horizon_imagination.presets import replaced

SWEEPS = ("horizon", "budget", "decay_horizon", "batch")


@dataclass(frozen=True)
class Point:
    """One imagination to time."""

    horizon: int
    budget: int
    decay_horizon: float
    batch: int

    def config(self, base: Config) -> Config:
        """The base with this imagination."""
        return replaced(
            base,
            imagination={
                "horizon": self.horizon,
                "budget": self.budget,
                "decay_horizon": self.decay_horizon,
            },
        )


def sweeps(config: Config, *, quick: bool) -> dict[Point, list[str]]:
    """The points, each once, with the sweeps that they belong to.

    Around the config's own imagination: horizons from a half to eight times (budget in
    proportion, decay horizon kept), budgets from a half to four times, decay horizons from 1 to
    half the horizon, batches from a quarter to eight times.
    """
    cfg, batch = config.imagination, config.controller.learner.batch_size
    h, b, nu = cfg.horizon, cfg.budget, cfg.decay_horizon
    count = 3 if quick else 5
    found: dict[Point, list[str]] = {}

    def add(sweep: str, horizon: int, budget: int, decay: float, batch: int) -> None:
        if horizon >= decay and budget >= 1 and batch >= 1:
            names = found.setdefault(Point(horizon, budget, decay, batch), [])
            if sweep not in names:
                names.append(sweep)

    for times in (0.5, 1, 2, 4, 8)[:count]:
        add("horizon", round(h * times), max(1, round(b * times)), nu, batch)
    for times in (0.5, 1, 2, 4)[:count]:
        add("budget", h, round(b * times), nu, batch)
    decays = sorted({nu, *(float(2**i) for i in range(h.bit_length() - 1) if 2**i <= h / 2)})
    for decay in decays[:count]:
        add("decay_horizon", h, b, decay, batch)
    for times in (0.25, 1, 2, 4, 8)[:count]:
        add("batch", h, b, nu, round(batch * times))
    return found


MOST = 1.1
"""Largest ratio of measured to fitted time, at the longest horizon, that the fit explains."""


@dataclass(frozen=True)
class Fit:
    """Milliseconds as frame_ms * frames + pair_ms * pairs, by relative least squares."""

    frame_ms: float
    """Per frame evaluated."""
    pair_ms: float
    """Per pair of frames, one attending to the other."""
    ratios: list[float]
    """Measured over fitted, point by point."""
    slope: float
    """Slope of log time over log horizon."""
    frame_slope: float
    """Slope of log time per evaluated frame over log horizon; 0 if the cache is free."""

    @property
    def explained(self) -> bool:
        """Whether the longest horizon takes no more than its frames and pairs account for."""
        return self.ratios[-1] <= MOST

    def as_json(self) -> dict[str, Any]:
        """The fit and its verdict as JSON values."""
        return asdict(self) | {"explained": self.explained}


def fit_growth(
    horizons: Sequence[int],
    ms: Sequence[float],
    frames: Sequence[float],
    pairs: Sequence[float],
) -> Fit:
    """From points in the order of their horizon; at least three of them.

    Every point counts alike: errors are relative to the point. Neither price is negative.
    """
    time = np.asarray(ms, dtype=np.float64)
    amounts = np.stack([np.asarray(frames, np.float64), np.asarray(pairs, np.float64)], axis=1)
    price = _prices(amounts / time[:, None])
    logs = np.log(np.asarray(horizons, dtype=np.float64))
    return Fit(
        frame_ms=float(price[0]),
        pair_ms=float(price[1]),
        ratios=(time / (amounts @ price)).tolist(),
        slope=float(np.polyfit(logs, np.log(time), 1)[0]),
        frame_slope=float(np.polyfit(logs, np.log(time / amounts[:, 0]), 1)[0]),
    )


def _prices(rows: np.ndarray) -> np.ndarray:
    """Least squares of rows @ price = 1 without negative prices."""
    ones = np.ones(len(rows))
    price = np.linalg.lstsq(rows, ones, rcond=None)[0]
    if (price >= 0).all():
        return price
    single = [np.linalg.lstsq(rows[:, [i]], ones, rcond=None)[0][0] for i in range(2)]
    errors = [np.square(rows[:, i] * single[i] - 1).sum() for i in range(2)]
    best = int(np.argmin(errors))
    return np.where(np.arange(2) == best, single, 0.0)


ROW_SECONDS = 0.02
"""Seconds to launch a row of imagination from Python on a GPU, to estimate the time left."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure."""

    config: Config
    schedules: tuple[tuple[float, int], ...]
    """Decay horizon and budget; the first is the one around which growth is measured."""
    modes: tuple[str, ...]
    """In the order in which they are measured; growth is measured in the first."""
    num_actions: int = 18
    replay_frames: int = 50_000
    repeats: int = 8
    growth: bool = True
    quick: bool = False

    def at(self, schedule: tuple[float, int], mode: str) -> Config:
        """The config with a schedule, in a mode."""
        decay, budget = schedule
        imagination = {"decay_horizon": decay, "budget": budget}
        return in_mode(replaced(self.config, imagination=imagination), mode)


def in_mode(config: Config, mode: str) -> Config:
    """plain: nothing fused, captured or compiled; fast: captured, other switches as given."""
    if mode == "given":
        return config
    if mode == "plain":
        return replaced(config, runtime={"graphs": "off", "fused": "off", "compile": False})
    return replaced(config, runtime={"graphs": "on"})


def weight(ceilings: Ceilings, device: torch.device, work: Work, rows: int) -> float:
    """Rough seconds of a call; only the ratio to other calls matters."""
    launches = ROW_SECONDS * rows if device.type == "cuda" else 0.0
    return 2 * work.flops / ceilings.flops + launches


def weight_of_mode(
    plan: Plan, mode: str, counted: Costs, ceilings: Ceilings, device: torch.device
) -> float:
    """The sum of the weights of all that is measured in a mode."""
    total = 0.0
    for schedule in plan.schedules:
        config, rows = plan.at(schedule, mode), schedule[1]
        batch = config.controller.learner.batch_size
        works = (counted.imagination(config, batch), counted.denoiser(config, batch))
        total += 2 * weight(ceilings, device, counted.controller(config), rows)
        total += sum(weight(ceilings, device, work, rows) for work in works)
    if plan.growth and mode == plan.modes[0]:
        config = plan.at(plan.schedules[0], mode)
        for point in sweeps(config, quick=plan.quick):
            work = counted.imagination(point.config(config), point.batch)
            total += weight(ceilings, device, work, point.budget)
    return total
