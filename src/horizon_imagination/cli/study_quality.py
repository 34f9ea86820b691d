"""`horizon study quality`: how good generated videos are, by budget and decay horizon."""

import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.studies.results import output_folder

Kind = Literal["horizon", "pyramidal", "full"]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """FVD and MSE of generated videos over budgets and decay horizons.

    A restart skips finished points. Parts of the grid run in any number of processes with
    --shard; the one that finishes last draws.
    """

    run: Positional[Path]
    """Folder of a run, or of the results of this study to draw and judge them again."""
    segments: int = 512
    """Videos per point."""
    budgets: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    """Denoising steps for a whole video."""
    decay_horizons: tuple[float, ...] = (1, 2, 4, 8, 16, 32)
    """Frames in flight of the Horizon schedule; those above the horizon are left out."""
    kinds: tuple[Kind, ...] = ("horizon", "pyramidal", "full")
    """Kinds of schedules; the Pyramidal one needs budgets of at least the horizon."""
    horizon: int | None = None
    """Frames to generate (the run's own horizon by default)."""
    context: int = 1
    """Real frames to start from."""
    data: Path | None = None
    """A dataset to take segments from (the run's own by default)."""
    batch: int = 64
    """Videos generated at once; latencies are those of such a batch."""
    features: str = "i3d"
    """i3d, none (MSE only), or a file of converted I3D weights."""
    lpips: Literal["auto", "off"] = "auto"
    """Compute LPIPS where the vgg16 weights are there."""
    resamples: int = 50
    """Resampled sets behind each interval; 0 leaves intervals and extrapolations out."""
    engine: Literal["window", "plain"] = "window"
    """The exact window over a cache, or the plain loop that evaluates everything."""
    seed: int = 0
    """Chooses segments and noise."""
    out: Path | None = None
    """Folder for the results (studies/quality in the run by default)."""
    shard: str = ""
    """i/n: only part i of n of the points, in a process of its own."""
    device: str = "auto"
    """cuda, cuda:N, mps, cpu, or auto for the best there is."""
    precision: Literal["auto", "float32", "bfloat16"] | None = None
    """Activations of networks (the run's own by default)."""
    smoke: bool = False
    """A small grid of 16 videos: about a minute on a CPU."""


def main(argv: list[str]) -> int | None:
    """Measure what is missing, then draw; the last line of stdout holds the verdicts as JSON."""
    args = parse(Arguments, argv, prog="horizon study quality")
    from horizon_imagination.studies.quality_points import Shard
    from horizon_imagination.studies.quality_records import finished, is_study

    if args.resamples < 0:
        raise UsageError(f"--resamples is {args.resamples}: expected 0 or more")
    if is_study(args.run):
        return _report(args.run, None, args)
    shard = Shard.parse(args.shard)
    laboratory = _laboratory(args)
    from horizon_imagination.studies import quality

    folder = output_folder(args.out or args.run / "studies" / "quality")
    quality.run(laboratory, folder, shard, _say)
    every = laboratory.study.grid.points()
    left = len(set(every) - set(finished(folder, laboratory.key)))
    if left:
        print(f"{left} of {len(every)} points are still missing; their parts will draw the results")
        return 0
    return _report(folder, laboratory.key, args)


def _laboratory(args: Arguments):
    """The agent, its data and what measures, from the command line."""
    from horizon_imagination.agent import Agent
    from horizon_imagination.data import Store
    from horizon_imagination.report.pictures import replay_of
    from horizon_imagination.report.records import read_record
    from horizon_imagination.studies import quality, quality_measures

    agent = Agent.load(args.run, args.device)
    if args.precision:
        runtime = dataclasses.replace(agent.config.runtime, precision=args.precision)
        agent.config = dataclasses.replace(agent.config, runtime=runtime)
    study = _study(args, agent.config.imagination.horizon)
    extractor = None
    if args.features != "none":
        path = None if args.features == "i3d" else Path(args.features)
        extractor = quality_measures.i3d_extractor(path, agent.device)
    lpips = quality_measures.find_lpips(agent.device) if args.lpips == "auto" else None
    store = Store.open(args.data) if args.data else replay_of(read_record(args.run))
    return quality.Laboratory(study, agent, store, extractor, lpips)


def _study(args: Arguments, horizon: int):
    from horizon_imagination.studies.quality import QualityStudy
    from horizon_imagination.studies.quality_points import Grid

    horizon = horizon if args.horizon is None else args.horizon
    budgets, decays, segments = args.budgets, args.decay_horizons, args.segments
    if args.smoke:
        budgets = (max(horizon // 2, 1), 2 * horizon)
        decays, segments = (1, min(4, horizon)), 16
    with as_usage_error():
        grid = Grid(
            horizon=horizon,
            context=args.context,
            budgets=budgets,
            decay_horizons=decays,
            kinds=args.kinds,
        )
        return QualityStudy(
            grid=grid, segments=segments, batch=args.batch, seed=args.seed, engine=args.engine
        )


def _report(folder: Path, study: str | None, args: Arguments) -> int:
    from horizon_imagination.studies import quality_report

    text, numbers = quality_report.write(folder, study, args.resamples, _say)
    print(text)
    print(f"written to {folder}")
    print(json.dumps(numbers))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
