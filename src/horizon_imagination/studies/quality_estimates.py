"""Numbers of a quality study with their uncertainty: one bootstrap for all points.

Every point continues the same contexts, so all are resampled by the same draws: an interval of a
difference between two points is a paired one.
"""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from horizon_imagination.errors import UsageError
from horizon_imagination.metrics.frechet import extrapolated_distance, frechet_distance
from horizon_imagination.metrics.statistics import Interval
from horizon_imagination.studies.quality import REFERENCES
from horizon_imagination.studies.quality_points import Point
from horizon_imagination.studies.quality_records import (
    Line,
    features_path,
    file_name,
    load_features,
)
from horizon_imagination.studies.results import write_text


@dataclass(frozen=True)
class Estimate:
    """A number and its values on resampled videos (none if nothing was resampled)."""

    value: float
    resampled: NDArray[np.float64]

    def __sub__(self, other: "Estimate") -> "Estimate":
        return Estimate(self.value - other.value, self.resampled - other.resampled)

    def __mul__(self, factor: float) -> "Estimate":
        return Estimate(self.value * factor, self.resampled * factor)

    def interval(self, level: float = 0.95) -> Interval:
        """The basic bootstrap interval: errors of resampled sets, turned around the value.

        A resampled set repeats videos, which makes a Fréchet distance too large once more;
        turning around takes that out. Without resampling the interval is the value itself.
        """
        if self.resampled.size == 0:
            return Interval(self.value, self.value, self.value)
        low, high = np.quantile(self.resampled, [(1 - level) / 2, (1 + level) / 2])
        return Interval(self.value, 2 * self.value - float(high), 2 * self.value - float(low))


def mean_of(estimates: list[Estimate]) -> Estimate:
    """The mean of several numbers, resampled together."""
    value = float(np.mean([e.value for e in estimates]))
    return Estimate(value, np.mean([e.resampled for e in estimates], axis=0))


class Results:
    """The finished points of one study."""

    def __init__(
        self,
        lines: dict[Point, Line],
        distances: dict[str, dict[str, dict[str, Any]]] | None = None,
        resamples: int = 0,
    ) -> None:
        """`distances` are those of `resampled_distances`, by file name and reference."""
        self.lines, self._distances = lines, distances or {}
        self.settings: dict[str, Any] = next(iter(lines.values()))["settings"]
        self.horizon: int = self.settings["horizon"]
        self._draws = draws(self.settings["segments"], resamples).numpy()

    @property
    def has_fvd(self) -> bool:
        """Whether features were extracted."""
        return self.settings["features"] != "none"

    def points(self, kind: str) -> list[Point]:
        """The finished points of a kind, by decay horizon and budget."""
        found = [point for point in self.lines if point.kind == kind]
        return sorted(found, key=lambda p: (p.decay_horizon, p.budget))

    def mse(self, point: Point, reference: str) -> Estimate:
        """Mean squared error of a point."""
        by_video = np.array(self.lines[point][reference]["mse_by_video"])
        return Estimate(self.lines[point][reference]["mse"], by_video[self._draws].mean(axis=1))

    def fvd(self, point: Point, reference: str) -> Estimate:
        """Fréchet video distance of a point."""
        found = self._distances.get(file_name(point), {}).get(reference, {})
        value = self.lines[point][reference]["fvd"]
        return Estimate(value, np.array(found.get("resampled", [])))

    def extrapolated(self, point: Point, reference: str) -> float | None:
        """The distance that ever more videos would approach, where it was computed."""
        return self._distances.get(file_name(point), {}).get(reference, {}).get("extrapolated")


def draws(videos: int, resamples: int) -> Int[Tensor, "resample video"]:
    """Which videos every resampled set consists of."""
    rng = torch.Generator().manual_seed(0)
    return torch.randint(videos, (resamples, videos), generator=rng)


def resampled_distances(
    folder: Path, lines: dict[Point, Line], resamples: int, say: Callable[[str], None]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Distances of resampled videos and extrapolated ones, by file name and reference.

    They are kept in the folder, so that only those of new points are computed.
    """
    any_line = next(iter(lines.values()))
    study, settings = any_line["study"], any_line["settings"]
    if settings["features"] == "none" or resamples == 0:
        return {}
    path = folder / f"resampled-{study}.json"
    kept = json.loads(path.read_text()) if path.is_file() else {}
    found = kept.get("distances", {}) if kept.get("resamples") == resamples else {}
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
    index = draws(settings["segments"], resamples)
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
