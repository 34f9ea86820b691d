"""The training returns published with the paper, for comparison with our own.

Configurations: `ar` (decay 1, budget 32), `hi-4-16`, `hi-4-32` (decay, budget), `naive-4-16`, and
`ablation-naive-4-16`, the runs behind the ablation figure. Source and licence stand at the head of
the data file.
"""

import csv
import functools
import gzip
import io
from collections import defaultdict
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from horizon_imagination.errors import UsageError

DATA = "published_scores.csv.gz"
WINDOW = 10_000
"""Steps over which a training return is averaged."""


@dataclass(frozen=True)
class Curve:
    """One seed: the mean return of the training episodes that ended in the epoch up to a step."""

    steps: NDArray[np.int64]
    returns: NDArray[np.float64]


@dataclass(frozen=True)
class PublishedPoint:
    """Mean and deviation over the seeds that finished an episode in the window."""

    mean: float
    std: float
    seeds: int

    @property
    def sample_std(self) -> float:
        """The deviation of the sample, which reports show; 0 of a single seed."""
        return self.std * (self.seeds / max(self.seeds - 1, 1)) ** 0.5


@functools.cache
def published_scores() -> dict[tuple[str, str], dict[int, Curve]]:
    """All curves by environment and configuration, then by seed."""
    content = resources.files("horizon_imagination.metrics").joinpath("data", DATA).read_bytes()
    lines = io.StringIO(gzip.decompress(content).decode())
    points: dict[tuple[str, str], dict[int, list[tuple[int, float]]]] = {}
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        seeds = points.setdefault((row["env"], row["config"]), defaultdict(list))
        seeds[int(row["seed"])].append((int(row["step"]), float(row["return"])))
    return {key: {s: as_curve(p) for s, p in seeds.items()} for key, seeds in points.items()}


def as_curve(points: list[tuple[int, float]]) -> Curve:
    """Points in the order of their steps, as arrays."""
    steps, returns = zip(*sorted(points), strict=True)
    return Curve(np.array(steps, dtype=np.int64), np.array(returns, dtype=np.float64))


def published_configs(env_id: str) -> list[str]:
    """The configurations published for an environment; empty if it is not one of the paper's."""
    return [config for env, config in published_scores() if env == env_id]


def published_curve(env_id: str, config: str) -> dict[int, Curve]:
    """Every seed's curve of one environment and configuration."""
    configs = published_configs(env_id)
    if not configs:
        known = ", ".join(sorted({env for env, _ in published_scores()}))
        raise UsageError(f"nothing is published for {env_id!r}: the paper's are {known}")
    if config not in configs:
        raise UsageError(
            f"no configuration {config!r} is published for {env_id}: choose one of "
            f"{', '.join(configs)}"
        )
    return published_scores()[env_id, config]


def recent_return(curve: Curve, step: int, window: int = WINDOW) -> float | None:
    """The mean of a curve's points in (step - window, step]; None if there is no point."""
    recent = (curve.steps > step - window) & (curve.steps <= step)
    return float(curve.returns[recent].mean()) if recent.any() else None


def published_at(
    env_id: str, config: str, step: int, window: int = WINDOW
) -> PublishedPoint | None:
    """Return of the published runs at a step; None if no episode had ended in the window.

    Every seed counts with its recent return; mean and (population) deviation are over seeds.
    """
    curves = published_curve(env_id, config).values()
    means = [m for c in curves if (m := recent_return(c, step, window)) is not None]
    if not means:
        return None
    return PublishedPoint(float(np.mean(means)), float(np.std(means)), len(means))
