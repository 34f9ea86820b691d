"""The generation quality study: every schedule of a grid from the same contexts and noise.

Every finished point adds a line to a folder; `page` judges and draws from that folder.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from einops import reduce, repeat
from jaxtyping import Float, UInt8
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.errors import UsageError
from horizon_imagination.metrics import image_quality
from horizon_imagination.metrics.frechet import frechet_distance
from horizon_imagination.metrics.i3d import I3D, MIN_FRAMES, video_features
from horizon_imagination.models.perceptual import Lpips
from horizon_imagination.pretrained import is_installed, load_weights
from horizon_imagination.provenance import provenance
from horizon_imagination.studies.quality.grid import BASELINES, REFERENCES, Grid, GridPoint, Shard
from horizon_imagination.studies.quality.records import (
    Line,
    adding,
    features_path,
    file_name,
    finished,
    load_features,
    save_features,
    study_key,
)
from horizon_imagination.studies.quality.videos import (
    Engine,
    Generated,
    Scenes,
    Videos,
    device_name,
    generate,
    reconstruct,
    sample_scenes,
    weights_identity,
)
from horizon_imagination.wording import time_left

Features = Float[Tensor, "video feature"]
BEST_PSNR = 100.0
"""PSNR of identical frames in decibels; infinity would spoil the mean."""


@dataclass(frozen=True)
class Extractor:
    """A function from videos to features, and its name in the results."""

    name: str
    features: Callable[[Videos], Features]


def i3d_extractor(path: Path | None, device: torch.device, batch: int = 16) -> Extractor:
    """I3D from the user's cache, or from a converted file."""
    if path is not None and not path.is_file():
        raise UsageError(f"--features is '{path}': expected i3d, none or a file of I3D weights")
    name = "i3d" if path is None else f"i3d {sha256(path.read_bytes()).hexdigest()[:8]}"
    network = I3D(load_weights("i3d", path)).to(device)

    def features(videos: Videos) -> Features:
        return video_features(watchable(videos), network, device=device, batch_size=batch)

    return Extractor(name, features)


def watchable(videos: Videos) -> UInt8[Tensor, "video _ 3 height width"]:
    """Three channels and at least as many frames as I3D needs: the last frame is held."""
    videos = image_quality.in_colour(videos)
    missing = MIN_FRAMES - videos.shape[1]
    if missing <= 0:
        return videos
    return torch.cat([videos, repeat(videos[:, -1], "n c h w -> n t c h w", t=missing)], dim=1)


def find_lpips(device: torch.device) -> Lpips | None:
    """LPIPS, where its weights are in the cache with their heads."""
    if not is_installed("vgg16"):
        return None
    weights = load_weights("vgg16")
    return Lpips(weights).to(device) if "head0" in weights else None


@dataclass(frozen=True)
class Closeness:
    """Frame by frame comparison of two sets of videos; all but `mse` are means."""

    mse: Float[Tensor, "video time"]
    psnr: float
    ssim: float | None
    lpips: float | None

    def line(self) -> dict[str, object]:
        """As plain data; per video and per frame index for the MSE."""
        return {
            "mse": self.mse.mean().item(),
            "psnr": self.psnr,
            "ssim": self.ssim,
            "lpips": self.lpips,
            "mse_by_frame": _rounded(reduce(self.mse, "n t -> t", "mean")),
            "mse_by_video": _rounded(reduce(self.mse, "n t -> n", "mean")),
        }


@torch.no_grad()
def closeness(
    videos: Videos,
    reference: Videos,
    *,
    device: torch.device,
    lpips: Lpips | None = None,
    batch: int = 16,
) -> Closeness:
    """Compare videos with those they should be. SSIM needs frames of 11 x 11 pixels."""
    found: dict[str, list[Tensor]] = {"mse": [], "psnr": [], "ssim": [], "lpips": []}
    for mine, theirs in zip(videos.split(batch), reference.split(batch), strict=True):
        a, b = (image_quality.unit_pixels(x.to(device)) for x in (mine, theirs))
        found["mse"].append(image_quality.mse(a, b))
        found["psnr"].append(image_quality.psnr(a, b).clamp(max=BEST_PSNR))
        if min(a.shape[-2:]) >= 11:
            found["ssim"].append(image_quality.ssim(a, b))
        if lpips is not None:
            a, b = (image_quality.in_colour(x) for x in (a, b))
            found["lpips"].append(image_quality.lpips(a, b, lpips))
    means = {
        name: torch.cat(parts).double().mean().item() if parts else None
        for name, parts in found.items()
    }
    mse = torch.cat(found["mse"]).double().cpu()
    return Closeness(mse, means["psnr"] or 0.0, means["ssim"], means["lpips"])


def _rounded(values: Float[Tensor, " n"]) -> list[float]:
    """Seven significant digits keep a line short."""
    return [float(f"{value:.7g}") for value in values.tolist()]


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
    """What all points of a study share: agent, videos, features of the references."""

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
        self.scenes: Scenes = sample_scenes(
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
        self.origin = provenance(str(agent.device))

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

    def measure(self, point: GridPoint, folder: Path) -> Line:
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

    def _videos(self, point: GridPoint) -> Generated:
        if point.kind in BASELINES:
            held = point.kind == "frozen"
            return Generated(
                self.scenes.held if held else self.references["reconstruction"], 0.0, 0
            )
        schedule = point.schedule(self.study.grid.horizon)
        return generate(
            self.agent, self.scenes, schedule, batch=self.study.batch, engine=self.study.engine
        )

    def _costs(self, point: GridPoint, made: Generated) -> dict[str, Any]:
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


def measure_points(
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
    """Progress lines with rate and time left."""

    def __init__(self, points: list[GridPoint], grid: Grid) -> None:
        # Decoding, features and comparisons cost about as much as a few evaluations per frame.
        self.cost = {
            p: p.evaluations(grid.horizon, grid.context)[0] + 4 * grid.horizon for p in points
        }
        self.done, self.spent, self.begun = 0, 0, time.perf_counter()

    def tick(self, point: GridPoint, line: Line) -> str:
        """The progress line of a point that has just been finished."""
        self.done, self.spent = self.done + 1, self.spent + self.cost[point]
        seconds = time.perf_counter() - self.begun
        left = time_left(seconds, self.spent, sum(self.cost.values()))
        truth = line["truth"]
        fvd = "" if truth["fvd"] is None else f"FVD {truth['fvd']:.4g}, "
        latency = f", {line['latency']:.3g} s a batch" if line["latency"] else ""
        broken = f", {line['broken']} videos NOT FINITE" if line["broken"] else ""
        return (
            f"[{self.done}/{len(self.cost)}] {point.name}: {fvd}MSE {truth['mse']:.3g}"
            f"{latency}{broken}; {60 * self.done / seconds:.1f} points a minute, "
            f"{left / 60:.1f} minutes left"
        )
