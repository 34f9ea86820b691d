"""`horizon report`, `horizon strip` and `horizon doctor`: what there is to see of runs.

A page about runs or a suite, pictures of imagination, and what looks wrong with a run, in words.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse
from horizon_imagination.cli.place import place_of
from horizon_imagination.config import ScheduleKind
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.files import output_folder


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Write a self-contained report.html: curves, reconstructions, imagined futures."""

    runs: Positional[tuple[Path, ...]] = ()
    """Folders of runs (several are drawn over one another), or the folder of one suite."""
    published: bool = False
    """Report on the runs published with the paper, without any of one's own."""
    out: Path | None = None
    """Folder for report.html and what belongs to it, or a page that ends in .html. By default the
    folder of the run or suite, or the one that holds the first of several runs."""
    examples: int = 2
    """Moments from which futures are imagined."""
    seed: int = 0
    """Chooses these moments and the noise."""
    device: str = "auto"
    """cuda, mps, cpu, or auto for the best one available."""


def main(argv: list[str]) -> int | None:
    """Read the runs, draw, write the page."""
    args = parse(Arguments, argv, prog="horizon report")
    if bool(args.runs) == args.published:
        raise UsageError("name at least one run or suite (horizon report RUN …), or --published")
    if args.examples < 1:
        raise UsageError(f"--examples is {args.examples}: expected at least 1")
    from horizon_imagination.scale.suite import is_suite

    if args.published or any(is_suite(folder) for folder in args.runs):
        return _suite(args)
    return _runs(args)


def _page(out: Path | None, default: Path) -> Path:
    """The page to write: `out` itself if it is one, otherwise report.html in a folder.

    >>> _page(Path("there"), Path("run")).as_posix(), _page(Path("x.html"), Path("run")).as_posix()
    ('there/report.html', 'x.html')
    """
    if out is not None and out.suffix == ".html":
        return out
    return (out or default) / "report.html"


def _runs(args: Arguments) -> int:
    from horizon_imagination.report.page import write_page
    from horizon_imagination.report.run_page import comparison_report, run_report
    from horizon_imagination.run.read import load_run

    runs = [load_run(folder) for folder in args.runs]
    path = _page(args.out, runs[0].folder if len(runs) == 1 else args.runs[0].parent)
    output_folder(path.parent)
    folder = path.parent if args.out else None
    if len(runs) == 1:
        about = {"examples": args.examples, "seed": args.seed, "device": args.device}
        content = run_report(runs[0], folder, **about)
    else:
        content = comparison_report(runs, folder, device=args.device, seed=args.seed)
    write_page(path, content)
    print(f"report: {path}")
    return 0


def _suite(args: Arguments) -> int:
    from horizon_imagination.report.suite import published_suite, read_suite
    from horizon_imagination.report.suite_page import write_suite_report

    if len(args.runs) > 1:
        raise UsageError("a suite is reported alone: name one folder")
    own = next(iter(args.runs), None)
    suite = published_suite() if own is None else read_suite(own)
    page = _page(args.out, own or Path("runs/published"))
    output_folder(page.parent)
    page, *others = write_suite_report(suite, page)
    print(f"report: {page}")
    for path in others:
        print(path)
    return 0


@dataclass(frozen=True, kw_only=True)
class StripArguments:
    """Draw what really happened, its reconstruction, and imagined futures below one another.

    By default one row per sampler of actions, with the run's own schedule. With --budgets or
    --decay-horizons one row per schedule, under the recorded actions.
    """

    run: Positional[Path]
    """A run or one of its snapshots; with --data also an agent's file, or catch or fog."""
    budgets: tuple[int, ...] = ()
    """Denoising steps to compare."""
    decay_horizons: tuple[float, ...] = ()
    """Decay horizons to compare."""
    kinds: tuple[ScheduleKind, ...] = ("horizon",)
    """Kinds of schedules to compare."""
    horizon: int | None = None
    """Frames to imagine (the run's own by default)."""
    data: Path | None = None
    """A dataset to take moments from (the run's replay by default)."""
    examples: int = 2
    """Moments from which futures are imagined."""
    seed: int = 0
    """Chooses these moments and the noise."""
    out: Path | None = None
    """The picture to write; strips.png in the run's videos by default. A film comes beside it."""
    device: str = "auto"
    """cuda, mps, cpu, or auto for the best one available."""


def strip_main(argv: list[str]) -> int | None:
    """Load the agent, imagine, draw."""
    args = parse(StripArguments, argv, prog="horizon strip")
    if args.examples < 1:
        raise UsageError(f"--examples is {args.examples}: expected at least 1")
    if args.out is not None and args.out.suffix != ".png":
        raise UsageError(f"--out is {args.out}: expected a name that ends in .png")
    from horizon_imagination.agent import Agent
    from horizon_imagination.report.pictures import save_strips
    from horizon_imagination.report.strips import (
        make_scene,
        named_schedules,
        sampler_strips,
        schedule_strips,
    )
    from horizon_imagination.run.folder import VIDEOS
    from horizon_imagination.schedules import horizon_schedule

    place = place_of(args.run)
    store = place.stored(args.data)  # before anything is written
    agent = Agent.load(place.agent, args.device)
    path = args.out or place.results / VIDEOS / "strips.png"
    output_folder(path.parent)
    cfg = agent.config.imagination
    horizon = args.horizon or cfg.horizon
    compare = args.budgets or args.decay_horizons or args.kinds != ("horizon",)
    budgets, decays = args.budgets or (cfg.budget,), args.decay_horizons or (cfg.decay_horizon,)
    with as_usage_error():
        own = horizon_schedule(horizon, cfg.budget, cfg.decay_horizon)
    schedules = named_schedules(args.kinds, horizon, budgets, decays)
    scene = make_scene(agent, store, count=args.examples, horizon=horizon, seed=args.seed)
    if compare:
        strips = schedule_strips(agent, scene, schedules, seed=args.seed)
    else:
        strips = sampler_strips(agent, scene, seed=args.seed, schedule=own)
    for written in save_strips(path, strips):
        print(written)
    return 0


@dataclass(frozen=True, kw_only=True)
class DoctorArguments:
    """Say what looks wrong with a run: its folder, its replay, its metrics, its speed.

    One finding a line: the figures, what they usually mean, what to try. Exit status 0 if there
    is none, 1 if there are some, 2 if the folder cannot be read as a run.
    """

    run: Positional[Path]
    """Folder of a run, finished or not."""
    json: bool = False
    """Print one JSON object instead."""


def doctor_main(argv: list[str]) -> int:
    """Examine a run."""
    args = parse(DoctorArguments, argv, prog="horizon doctor")
    from horizon_imagination.run.diagnosis import diagnose
    from horizon_imagination.run.integrity import inspect
    from horizon_imagination.run.needs import read_estimate
    from horizon_imagination.run.read import load_run

    run = load_run(args.run, "cpu")
    estimate = read_estimate(args.run)
    found = inspect(run, estimate.disk_bytes) + diagnose(run, estimate.epoch_seconds)
    if args.json:
        about = {"run": str(args.run), "epochs": run.epochs, "healthy": not found}
        print(json.dumps(about | {"findings": [asdict(finding) for finding in found]}, indent=1))
        return 1 if found else 0
    for finding in found:
        print(finding.line())
    if not found:
        print(f"{args.run}: nothing looks wrong ({run.epochs} epochs, {run.env_steps:,} steps)")
    return 1 if found else 0
