"""The generation quality study: every schedule of a grid from the same contexts and noise.

Results come point by point into a folder, from which `quality_report` draws and judges them.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.metrics.frechet import frechet_distance
from horizon_imagination.models.perceptual import Lpips
from horizon_imagination.studies.quality_generate import (
    Engine,
    Generated,
    device_name,
    generate,
    reconstruct,
    weights_identity,
)
from horizon_imagination.studies.quality_measures import Extractor, closeness
from horizon_imagination.studies.quality_points import YARDSTICKS, Grid, Point, Shard
from horizon_imagination.studies.quality_records import (
    Line,
    adding,
    features_path,
    file_name,
    finished,
    load_features,
    save_features,
    study_key,
)
from horizon_imagination.studies.quality_scenes import Scenes, Videos, draw_scenes
from horizon_imagination.studies.results import provenance

REFERENCES = ("truth", "reconstruction")
"""What generated videos are compared with: the real frames, and what the tokenizer keeps."""


@dataclass(frozen=True, kw_only=True)
class QualityStudy:
    """The sizes of the study; the defaults are the paper's."""

    grid: Grid = field(default_factory=Grid)
    segments: int = 512
    batch: int = 64
    seed: int = 0
    engine: Engine = "window"

    def __post_init__(self) -> None:
        if self.segments < 8:
            raise ValueError(f"segments must be at least 8 to compare sets, got {self.segments}")
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, got {self.batch}")


class Laboratory:
    """The agent and its videos, all that the points of a study share."""

    def __init__(
        self,
        study: QualityStudy,
        agent: Agent,
        store: Store,
        extractor: Extractor | None,
        lpips: Lpips | None = None,
    ) -> None:
        self.study, self.agent, self.extractor, self.lpips = study, agent, extractor, lpips
        grid = study.grid
        self.scenes: Scenes = draw_scenes(
            agent,
            store,
            videos=study.segments,
            horizon=grid.horizon,
            context=grid.context,
            seed=study.seed,
        )
        self.references: dict[str, Videos] = {
            "truth": self.scenes.truth,
            "reconstruction": reconstruct(agent, self.scenes.truth, study.batch),
        }
        self.features: dict[str, Tensor] = {}
        self.settings = self._settings()
        self.key = study_key(self.settings)
        self.origin = provenance()

    def _settings(self) -> dict[str, Any]:
        study, agent = self.study, self.agent
        return {
            "env": agent.config.env.id,
            "segments": study.segments,
            "horizon": study.grid.horizon,
            "context": study.grid.context,
            "batch": study.batch,
            "seed": study.seed,
            "engine": study.engine,
            "precision": agent.config.runtime.precision,
            "fused": agent.fused,
            "device": device_name(agent.device),
            "features": self.extractor.name if self.extractor else "none",
            "lpips": self.lpips is not None,
            "weights": weights_identity(agent),
            "data": self.scenes.identity(),
        }

    def prepare(self, folder: Path) -> None:
        """Features of both references, from the folder if they are there."""
        for name, videos in self.references.items():
            self.features[name] = self._features(folder, name, videos)

    def measure(self, point: Point, folder: Path) -> Line:
        """Generate the videos of a point and compare them; its features stay in the folder."""
        begun = time.perf_counter()
        made = self._videos(point)
        line: Line = {"study": self.key, **point._asdict(), **self._costs(point, made)}
        mine = self._features(folder, file_name(point), made.videos) if self.extractor else None
        for name, videos in self.references.items():
            found = closeness(made.videos, videos, device=self.agent.device, lpips=self.lpips)
            fvd = None if mine is None else frechet_distance(mine, self.features[name])
            line[name] = {"fvd": fvd, **found.line()}
        line["seconds"] = time.perf_counter() - begun
        return line | {"settings": self.settings, "grid": asdict(self.study.grid), **self.origin}

    def _videos(self, point: Point) -> Generated:
        if point.kind in YARDSTICKS:
            held = point.kind == "frozen"
            return Generated(
                self.scenes.held if held else self.references["reconstruction"], 0.0, 0
            )
        schedule = point.schedule(self.study.grid.horizon)
        return generate(
            self.agent, self.scenes, schedule, batch=self.study.batch, engine=self.study.engine
        )

    def _costs(self, point: Point, made: Generated) -> dict[str, Any]:
        grid = self.study.grid
        window, plain = point.evaluations(grid.horizon, grid.context)
        return {
            "latency": made.latency or None,
            "batch": min(self.study.batch, self.study.segments),
            "frame_evaluations": window,
            "frame_evaluations_plain": plain,
            "broken": made.broken,
        }

    def _features(self, folder: Path, name: str, videos: Videos) -> Tensor:
        if self.extractor is None:
            return torch.zeros(len(videos), 0)
        path = features_path(folder, self.key, name)
        kept = load_features(path) if name in REFERENCES else None
        if kept is not None:
            return kept
        features = self.extractor.features(videos)
        save_features(path, features)
        return features


def run(
    laboratory: Laboratory, folder: Path, shard: Shard, say: Callable[[str], None]
) -> list[Line]:
    """Measure the points of this part that are not finished yet; returns their lines."""
    grid, key = laboratory.study.grid, laboratory.key
    mine = shard.of(grid.points())
    with adding(folder, shard) as file:
        done = finished(folder, key)
        left = [point for point in mine if point not in done]
        say(f"{len(mine)} points, {len(mine) - len(left)} of them finished before (study {key})")
        if not left:
            return []
        laboratory.prepare(folder)
        clock, lines = Clock(left, grid), []
        for point in left:
            lines.append(laboratory.measure(point, folder))
            file.add(lines[-1])
            say(clock.tick(point, lines[-1]))
    return lines


class Clock:
    """Says after every point how fast it goes and how long the rest will take."""

    def __init__(self, points: list[Point], grid: Grid) -> None:
        # Decoding, features and comparisons cost about as much as a few evaluations per frame.
        self.cost = {
            p: p.evaluations(grid.horizon, grid.context)[0] + 4 * grid.horizon for p in points
        }
        self.done, self.spent, self.begun = 0, 0, time.perf_counter()

    def tick(self, point: Point, line: Line) -> str:
        """The progress line of a point that has just been finished."""
        self.done, self.spent = self.done + 1, self.spent + self.cost[point]
        seconds = time.perf_counter() - self.begun
        left = seconds * (sum(self.cost.values()) / self.spent - 1)
        truth = line["truth"]
        fvd = "" if truth["fvd"] is None else f"FVD {truth['fvd']:.4g}, "
        latency = f", {line['latency']:.3g} s a batch" if line["latency"] else ""
        broken = f", {line['broken']} videos NOT FINITE" if line["broken"] else ""
        return (
            f"[{self.done}/{len(self.cost)}] {point.name}: {fvd}MSE {truth['mse']:.3g}"
            f"{latency}{broken}; {60 * self.done / seconds:.1f} points a minute, "
            f"{left / 60:.1f} minutes left"
        )
