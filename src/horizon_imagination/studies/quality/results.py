"""Numbers of a quality study with their uncertainty: one bootstrap for all points.

Every point continues the same contexts, so all are resampled by the same draws: an interval of a
difference between two points is a paired one.
"""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from horizon_imagination.errors import UsageError
from horizon_imagination.files import write_text
from horizon_imagination.metrics.frechet import extrapolated_distance, frechet_distance
from horizon_imagination.metrics.statistics import Interval
from horizon_imagination.schema import read_json
from horizon_imagination.studies.quality.grid import REFERENCES, GridPoint
from horizon_imagination.studies.quality.records import (
    Line,
    features_path,
    file_name,
    load_features,
)
from horizon_imagination.wording import signed


@dataclass(frozen=True)
class ResampledEstimate:
    """A number and its values on resampled videos (none if nothing was resampled)."""

    value: float
    resampled: NDArray[np.float64]

    def __sub__(self, other: "ResampledEstimate") -> "ResampledEstimate":
        return ResampledEstimate(self.value - other.value, self.resampled - other.resampled)

    def __mul__(self, factor: float) -> "ResampledEstimate":
        return ResampledEstimate(self.value * factor, self.resampled * factor)

    def interval(self, level: float = 0.95) -> Interval:
        """The basic bootstrap interval: errors of resampled sets, turned around the value.

        A resampled set repeats videos, which makes a Fréchet distance too large once more;
        turning around takes that out. Without resampling the interval is the value itself.
        """
        if self.resampled.size == 0:
            return Interval(self.value, self.value, self.value)
        low, high = np.quantile(self.resampled, [(1 - level) / 2, (1 + level) / 2])
        return Interval(self.value, 2 * self.value - float(high), 2 * self.value - float(low))


def mean_of(estimates: list[ResampledEstimate]) -> ResampledEstimate:
    """The mean of several numbers, resampled together."""
    value = float(np.mean([e.value for e in estimates]))
    return ResampledEstimate(value, np.mean([e.resampled for e in estimates], axis=0))


class Results:
    """The finished points of one study."""

    def __init__(
        self,
        lines: dict[GridPoint, Line],
        distances: dict[str, dict[str, dict[str, Any]]] | None = None,
        resamples: int = 0,
    ) -> None:
        """`distances` are those of `resampled_distances`, by file name and reference."""
        self.lines, self._distances = lines, distances or {}
        self.settings: dict[str, Any] = next(iter(lines.values()))["settings"]
        self.horizon: int = self.settings["horizon"]
        self._resampled = resampled_videos(self.settings["segments"], resamples).numpy()

    @property
    def has_fvd(self) -> bool:
        """Whether features were extracted."""
        return self.settings["features"] != "none"

    def points(self, kind: str) -> list[GridPoint]:
        """The finished points of a kind, by decay horizon and budget."""
        found = [point for point in self.lines if point.kind == kind]
        return sorted(found, key=lambda p: (p.decay_horizon, p.budget))

    def mse(self, point: GridPoint, reference: str) -> ResampledEstimate:
        """Mean squared error of a point."""
        by_video = np.array(self.lines[point][reference]["mse_by_video"])
        return ResampledEstimate(
            self.lines[point][reference]["mse"], by_video[self._resampled].mean(axis=1)
        )

    def fvd(self, point: GridPoint, reference: str) -> ResampledEstimate:
        """Fréchet video distance of a point."""
        found = self._distances.get(file_name(point), {}).get(reference, {})
        value = self.lines[point][reference]["fvd"]
        return ResampledEstimate(value, np.array(found.get("resampled", [])))

    def extrapolated(self, point: GridPoint, reference: str) -> float | None:
        """The distance that ever more videos would approach, where it was computed."""
        return self._distances.get(file_name(point), {}).get(reference, {}).get("extrapolated")


def resampled_videos(videos: int, resamples: int) -> Int[Tensor, "resample video"]:
    """Which videos every resampled set consists of."""
    rng = torch.Generator().manual_seed(0)
    return torch.randint(videos, (resamples, videos), generator=rng)


@dataclass(frozen=True)
class _Resampled:
    """The file of distances that were computed before."""

    resamples: int = 0
    distances: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)


def resampled_distances(
    folder: Path, lines: dict[GridPoint, Line], resamples: int, say: Callable[[str], None]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Distances of resampled videos and extrapolated ones, by file name and reference.

    They are kept in the folder, so that only those of new points are computed.
    """
    any_line = next(iter(lines.values()))
    study, settings = any_line["study"], any_line["settings"]
    if settings["features"] == "none" or resamples == 0:
        return {}
    path = folder / f"resampled-{study}.json"
    kept = read_json(path, _Resampled, extra=True) if path.exists() else _Resampled()
    found = kept.distances if kept.resamples == resamples else {}
    tasks = [
        (file_name(point), reference)
        for point in lines
        for reference in REFERENCES
        if reference not in found.get(file_name(point), {})
    ]
    if not tasks:
        return found
    say(f"resampling {len(tasks)} distances {resamples} times")
    sets = {name: _load(folder, study, name) for name in {*REFERENCES, *(t[0] for t in tasks)}}
    index = resampled_videos(settings["segments"], resamples)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {pool.submit(_resample, sets[mine], sets[ref], index): (mine, ref)
                for mine, ref in tasks}  # fmt: skip
        for job in as_completed(jobs):
            mine, reference = jobs[job]
            found.setdefault(mine, {})[reference] = job.result()
            write_text(path, json.dumps({"resamples": resamples, "distances": found}))
    return found


def _resample(x: Tensor, y: Tensor, index: Tensor) -> dict[str, Any]:
    rng = torch.Generator().manual_seed(0)
    return {
        "resampled": [round(frechet_distance(x[i], y[i]), 4) for i in index],
        "extrapolated": extrapolated_distance(x, y, rng, repeats=2),
    }


def _load(folder: Path, study: str, name: str) -> Tensor:
    path = features_path(folder, study, name)
    features = load_features(path)
    if features is None:
        raise UsageError(
            f"{path} is missing, intervals need it; copy the whole folder of the study, or use "
            "--resamples 0"
        )
    return features


HOLDS, PART, FAILS, OPEN, NONE = (
    "holds", "holds in part", "does not hold", "undecided", "no data"
)  # fmt: skip
COMPARABLE = 1.1
"""Up to this many times the distance of another counts as comparable."""
COLLAPSE = 1.5
"""From this many times the distance on, a loss of quality counts as a collapse."""


@dataclass(frozen=True)
class QualityClaim:
    """A sentence of the paper, a verdict, and the numbers behind it."""

    text: str
    verdict: str
    numbers: list[str]


def claims(results: Results, reference: str) -> list[QualityClaim]:
    """All claims, judged by distances to one reference."""
    judges: list[Callable[[Results, str], QualityClaim]] = [
        parallel_at_low_budgets,
        sub_frame_budgets,
        autoregressive_at_high_budgets,
        error_against_distance,
        pyramidal_collapse,
    ]
    return [judge(results, reference) for judge in judges]


def parallel_at_low_budgets(results: Results, reference: str) -> QualityClaim:
    """Mean distance of decay horizons 4 to 16 against the autoregressive one, by budget."""
    text = (
        "parallel configurations (decay horizon 4 to 16) have a clear advantage under low to "
        "medium budgets"
    )
    numbers, found = [], []
    for budget in _budgets(results):
        one, band = _autoregressive(results, budget), _parallel(results, budget)
        if budget >= 4 * results.horizon or one is None or not band or not results.has_fvd:
            continue
        mine = mean_of([results.fvd(point, reference) for point in band])
        difference = (mine - results.fvd(one, reference)).interval()
        found.append(difference)
        numbers.append(
            f"budget {budget}: mean FVD {mine.value:.4g} at decay "
            f"{_list([p.decay_horizon for p in band])}, {results.fvd(one, reference).value:.4g} "
            f"at decay 1; difference {_show(difference)}"
        )
    return QualityClaim(text, _verdict(found), numbers)


def sub_frame_budgets(results: Results, reference: str) -> QualityClaim:
    """The best parallel point of a sub-frame budget against sixteen times the budget."""
    text = (
        "in several cases parallel variants with sub-frame budgets are comparable to baselines "
        f"with 16 times the budget (comparable: at most {COMPARABLE:g} times the FVD)"
    )
    numbers, found = [], []
    for budget in _budgets(results):
        one, band = _autoregressive(results, 16 * budget), _parallel(results, budget)
        if budget >= results.horizon or one is None or not band or not results.has_fvd:
            continue
        best = min(band, key=lambda point: results.fvd(point, reference).value)
        mine, theirs = results.fvd(best, reference), results.fvd(one, reference)
        found.append((mine - theirs * COMPARABLE).interval())
        numbers.append(
            f"{best.name}: FVD {mine.value:.4g}; {one.name}: {theirs.value:.4g}; difference "
            f"{_show((mine - theirs).interval())}"
        )
    several = HOLDS if any(x.high <= 0 for x in found) else _verdict(found)
    return QualityClaim(text, several, numbers)


def autoregressive_at_high_budgets(results: Results, reference: str) -> QualityClaim:
    """The rank of decay horizon 1 at budgets from four steps a frame on (128 for 32 frames)."""
    text = f"at budgets of {4 * results.horizon} and more the autoregressive baseline ranks first"
    numbers, found = [], []
    for budget in _budgets(results):
        points = [p for p in results.points("horizon") if p.budget == budget]
        one = _autoregressive(results, budget)
        if budget < 4 * results.horizon or one is None or len(points) < 2 or not results.has_fvd:
            continue
        ranked = sorted(points, key=lambda point: results.fvd(point, reference).value)
        rival = next(point for point in ranked if point != one)
        difference = results.fvd(one, reference) - results.fvd(rival, reference)
        found.append(difference.interval())
        order = ", ".join(
            f"decay {p.decay_horizon:g} {results.fvd(p, reference).value:.4g}" for p in ranked
        )
        numbers.append(
            f"budget {budget}: rank {ranked.index(one) + 1} of {len(ranked)} ({order}); "
            f"difference to the best other one {_show(difference.interval())}"
        )
    return QualityClaim(text, _verdict(found), numbers)


def error_against_distance(results: Results, reference: str) -> QualityClaim:
    """From the budget of the least MSE to the largest: does the MSE rise while the FVD falls?"""
    text = (
        "more budget may drift further from the truth (MSE rises) while quality improves (FVD "
        "falls)"
    )
    numbers, both, neither, budgets = [], 0, 0, _budgets(results)
    decays = sorted({point.decay_horizon for point in results.points("horizon")})
    for decay in decays if len(budgets) > 1 and results.has_fvd else []:
        known = [p for p in results.points("horizon") if p.decay_horizon == decay]
        first, last = min(known, key=lambda p: results.mse(p, reference).value), known[-1]
        if last.budget != budgets[-1]:
            continue
        if first == last:
            neither += 1
            numbers.append(f"decay {decay:g}: least MSE at the largest budget, {last.budget}")
            continue
        error = (results.mse(last, reference) - results.mse(first, reference)).interval()
        distance = (results.fvd(last, reference) - results.fvd(first, reference)).interval()
        both += error.low > 0 and distance.high < 0
        neither += error.high < 0 or distance.low > 0
        numbers.append(
            f"decay {decay:g}, budget {first.budget} to {last.budget}: MSE {_show(error)}, FVD "
            f"{_show(distance)}"
        )
    if not numbers:
        return QualityClaim(text, NONE, [])
    if both:
        return QualityClaim(text, HOLDS if both == len(numbers) else PART, numbers)
    return QualityClaim(text, FAILS if neither == len(numbers) else OPEN, numbers)


def pyramidal_collapse(results: Results, reference: str) -> QualityClaim:
    """The distance of the Pyramidal schedule at its largest budget against its smallest."""
    text = (
        "the Pyramidal schedule collapses as the budget grows "
        f"(collapse: at least {COLLAPSE:g} times the FVD of its smallest budget)"
    )
    points = results.points("pyramidal")
    if len(points) < 2 or not results.has_fvd:
        return QualityClaim(text, NONE, [])
    first, last = results.fvd(points[0], reference), results.fvd(points[-1], reference)
    rise = (last - first).interval()
    numbers = [f"budget {p.budget}: FVD {results.fvd(p, reference).value:.4g}" for p in points]
    numbers.append(f"from budget {points[0].budget} to {points[-1].budget}: {_show(rise)}")
    same = [p for p in results.points("horizon") if p.budget == points[-1].budget]
    if same:
        best = min(same, key=lambda point: results.fvd(point, reference).value)
        numbers.append(f"{best.name}: FVD {results.fvd(best, reference).value:.4g}")
    if rise.low > 0:
        return QualityClaim(text, HOLDS if last.value >= COLLAPSE * first.value else PART, numbers)
    return QualityClaim(text, FAILS if rise.high < 0 else OPEN, numbers)


def _verdict(differences: list[Interval]) -> str:
    """Whether differences that the claim says are negative are so, beyond their intervals."""
    if not differences:
        return NONE
    below = sum(x.high < 0 for x in differences)
    above = sum(x.low > 0 for x in differences)
    if below == len(differences):
        return HOLDS
    if below:
        return PART
    return FAILS if above else OPEN


def _budgets(results: Results) -> list[int]:
    return sorted({point.budget for point in results.points("horizon")})


def _autoregressive(results: Results, budget: int) -> GridPoint | None:
    point = GridPoint("horizon", budget, 1.0)
    return point if point in results.lines else None


def _parallel(results: Results, budget: int) -> list[GridPoint]:
    return [
        point
        for point in results.points("horizon")
        if point.budget == budget and 4 <= point.decay_horizon <= 16
    ]


def _show(interval: Interval) -> str:
    estimate, low, high = (signed(x, 4) for x in (interval.estimate, interval.low, interval.high))
    return estimate if interval.low == interval.high else f"{estimate} [{low}, {high}]"


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
