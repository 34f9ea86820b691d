"""Statistics of a few expensive runs: robust means, intervals, comparisons.

Scores come in strata, one array per task (game): an interval resamples runs within each task and
never mixes tasks. One task is `[scores]`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from horizon_imagination.envs.known import ATARI_SCORES, reference_scores
from horizon_imagination.errors import UsageError

Array = NDArray[np.float64]
Strata = Sequence[ArrayLike]
Statistic = Callable[[Array], float]
FEWEST = 3
"""Runs, or episodes, from which on an interval of their bootstrap is called one of 95 %."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval."""

    estimate: float
    low: float
    high: float


def mean(scores: ArrayLike) -> float:
    """The plain mean."""
    return float(np.mean(as_scores(scores)))


def median(scores: ArrayLike) -> float:
    """The plain median."""
    return float(np.median(as_scores(scores)))


def interquartile_mean(scores: ArrayLike) -> float:
    """The mean of what is left when the lowest and the highest quarter are dropped.

    >>> interquartile_mean([1, 2, 3, 4, 5, 6, 7, 1000])
    4.5
    """
    ordered = np.sort(as_scores(scores))
    dropped = len(ordered) // 4
    return float(ordered[dropped : len(ordered) - dropped].mean())


def bootstrap_interval(
    strata: Strata,
    statistic: Statistic = interquartile_mean,
    *,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of a statistic over all scores, runs resampled within each task."""
    tasks, rng = as_strata(strata), np.random.default_rng(seed)
    drawn = [statistic(resample(tasks, rng)) for _ in range(resamples)]
    return percentile_interval(statistic(np.concatenate(tasks)), drawn, level)


def difference_interval(
    strata_a: Strata,
    strata_b: Strata,
    statistic: Statistic = interquartile_mean,
    *,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of statistic(a) - statistic(b) for two methods on the same tasks."""
    a, b = same_tasks(strata_a, strata_b)
    rng = np.random.default_rng(seed)
    drawn = [statistic(resample(a, rng)) - statistic(resample(b, rng)) for _ in range(resamples)]
    estimate = statistic(np.concatenate(a)) - statistic(np.concatenate(b))
    return percentile_interval(estimate, drawn, level)


def probability_of_improvement(strata_a: Strata, strata_b: Strata) -> float:
    """Probability that a run of a beats a run of b (ties count half), averaged over tasks."""
    pairs = zip(*same_tasks(strata_a, strata_b), strict=True)
    return float(np.mean([wins(a, b) for a, b in pairs]))


def improvement_interval(
    strata_a: Strata,
    strata_b: Strata,
    *,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of the probability of improvement."""
    a, b = same_tasks(strata_a, strata_b)
    rng = np.random.default_rng(seed)
    drawn = [
        probability_of_improvement(
            [rng.choice(task, task.size) for task in a], [rng.choice(task, task.size) for task in b]
        )
        for _ in range(resamples)
    ]
    return percentile_interval(probability_of_improvement(a, b), drawn, level)


def sample_deviation(scores: ArrayLike) -> float | None:
    """The standard deviation that a few scores tell of all: divided by one less than their number.

    >>> sample_deviation([1.0, 3.0]), sample_deviation([5.0])
    (1.4142135623730951, None)
    """
    flat = as_scores(scores)
    return float(flat.std(ddof=1)) if flat.size > 1 else None


def human_normalized(game: str, score: float) -> float:
    """(score - random) / (human - random) of an Atari game, by `Gopher` or `ALE/Gopher-v5`.

    >>> human_normalized("ALE/Boxing-v5", 12.1)
    1.0
    """
    scores = reference_scores(game)
    if "human" not in scores:
        raise UsageError(
            f"no human score is known for {game!r}: known are {', '.join(ATARI_SCORES)}"
        )
    return (score - scores["random"]) / (scores["human"] - scores["random"])


def smoothing_window(points: int) -> int:
    """An odd window of about a fifth of a curve, at most the paper's 15.

    >>> [smoothing_window(points) for points in (5, 16, 40, 200)]
    [1, 3, 9, 15]
    """
    return min(15, points // 10 * 2 + 1)


def moving_average(values: ArrayLike, window: int = 15) -> Array:
    """Centred moving average; at the ends the window keeps what it has.

    >>> moving_average([0.0, 3.0, 6.0, 9.0], window=3).tolist()
    [1.5, 3.0, 6.0, 7.5]
    """
    series = as_scores(values)
    if window < 1 or window % 2 == 0:
        raise ValueError(f"a centred window has an odd length, got {window}")
    total = np.concatenate([[0.0], np.cumsum(series)])
    index = np.arange(series.size)
    first = np.maximum(index - window // 2, 0)
    last = np.minimum(index + window // 2 + 1, series.size)
    return (total[last] - total[first]) / (last - first)


def as_scores(scores: ArrayLike) -> Array:
    """A non-empty flat array of finite numbers."""
    flat = np.asarray(scores, dtype=np.float64).ravel()
    if flat.size == 0 or not np.isfinite(flat).all():
        raise ValueError("statistics need at least one score, and all of them finite")
    return flat


def as_strata(strata: Strata) -> list[Array]:
    """One array per task."""
    if len(strata) == 0:
        raise ValueError("statistics need at least one task")
    return [as_scores(task) for task in strata]


def same_tasks(strata_a: Strata, strata_b: Strata) -> tuple[list[Array], list[Array]]:
    """The scores of two methods as strata of the same tasks."""
    if len(strata_a) != len(strata_b):
        raise ValueError(
            f"compare methods on the same tasks, got {len(strata_a)} and {len(strata_b)}"
        )
    return as_strata(strata_a), as_strata(strata_b)


def resample(tasks: list[Array], rng: np.random.Generator) -> Array:
    """As many runs of each task as there were, drawn with replacement."""
    return np.concatenate([rng.choice(task, task.size) for task in tasks])


def wins(a: Array, b: Array) -> float:
    """The share of pairs in which a is larger, ties counting half."""
    return float((np.sign(a[:, None] - b[None, :]).mean() + 1) / 2)


def percentile_interval(estimate: float, drawn: Sequence[float], level: float) -> Interval:
    """The central part of the resampled values."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(estimate), float(low), float(high))
