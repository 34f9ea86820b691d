"""`horizon study`: the paper's studies, one command each."""

import dataclasses
import json
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse, parse_with_run_defaults
from horizon_imagination.cli.place import Place, place_of
from horizon_imagination.config import ControllerConfig
from horizon_imagination.errors import UsageError, as_usage_error, unusable
from horizon_imagination.files import output_folder


@dataclass(frozen=True, kw_only=True)
class ActionsArguments:
    """How often do actions change, or how far do they move, while a policy changes? JSONL, CSV,
    figure, and a text."""

    out: Path = Path("runs/studies/actions")
    """Folder for the results."""
    pairs: int = 10_000
    """Pairs of policies per number of actions."""
    path_pairs: int = 1_000
    """Pairs of source and target policies per entropy."""
    orders: int = 200
    """Orders drawn per pair; all of them where there are fewer."""
    monte_carlo: int = 0
    """Dice sampled per pair; 0 integrates over the dice exactly."""
    smoke: bool = False
    """A hundredth of the pairs and fewer actions: a few seconds."""
    seed: int = 0
    """Seed of policies, orders and dice."""
    json: bool = False
    """End with the results in one line of JSON."""


def actions_main(argv: list[str]) -> int | None:
    """Run the study; --json ends with the means."""
    args = parse(ActionsArguments, argv, prog="horizon study actions")
    from horizon_imagination.studies import actions, actions_report

    with as_usage_error():
        study = actions.ActionStudy(
            sizes=(2, 4, 8) if args.smoke else (2, 4, 8, 16, 32, 64),
            pairs=max(1, args.pairs // 100) if args.smoke else args.pairs,
            path_pairs=max(1, args.path_pairs // 10) if args.smoke else args.path_pairs,
            orders=args.orders,
            monte_carlo=args.monte_carlo,
            seed=args.seed,
        )
    folder = output_folder(args.out)
    results = actions.run(study, lambda line: print(line, file=sys.stderr))
    print(actions_report.write(study, results, folder))
    print(f"written to {folder}")
    if args.json:
        print(json.dumps(actions_report.means(results)))
    return 0


@dataclass(frozen=True, kw_only=True)
class ControllerArguments:
    """Train a new actor and critic in trajectories that the real environment plays.

    Frames are encoded by the run's tokenizer. What the controller does not learn here, it cannot
    learn in a world model either; what it learns here but not in the run, the world model hides.
    """

    run: Positional[Path]
    """A run, one of its snapshots, or an agent's file; catch or fog for agents of the package."""
    epochs: int = 12
    """Each collects and learns as much as an epoch of the run."""
    initial: int = 4000
    """Steps of the untrained policy before the first epoch."""
    seed: int = 0
    """Seed of worlds, networks and draws."""
    out: Path = Path("runs/studies/controller")
    """Folder for the results."""
    device: str = "auto"
    """cuda, mps, cpu, or auto for the best one available."""
    trust: bool = False
    """Import the environment that the run's own files name as `module:Name`."""
    json: bool = False
    """End with the results in one line of JSON."""
    controller: ControllerConfig = field(default_factory=ControllerConfig)


def controller_main(argv: list[str]) -> int | None:
    """Train, write a line per epoch and a figure."""
    args = parse_with_run_defaults(
        ControllerArguments,
        argv,
        prog="horizon study controller",
        run="run",
        section="controller",
    )
    if args.epochs < 1 or args.initial < 1:
        raise UsageError("--epochs and --initial must be at least 1")
    from horizon_imagination.agent import Agent
    from horizon_imagination.studies.controller import Report, check_actions, played_config

    source = Agent.load(place_of(args.run).agent, args.device)
    check_actions(source)
    if args.controller.learner.steps_per_epoch < 1:
        raise UsageError(
            "the controller learns nothing with --controller.learner.steps-per-epoch 0; "
            "say how many updates an epoch has"
        )
    config = replace(played_config(source.config, args.controller), seed=args.seed)
    if args.trust:
        config = replace(config, env=config.env.trusted())
    report = Report(output_folder(args.out), args.run)
    _train(source, config, report, args)
    print("\n".join(report.finish()))
    if args.json:
        print(json.dumps(report.summary()))
    return 0


def _train(source, config, report, args: ControllerArguments) -> None:
    from tempfile import TemporaryDirectory

    from horizon_imagination.studies.controller import train
    from horizon_imagination.wording import clock, time_left

    begun = time.monotonic()
    with (
        TemporaryDirectory(prefix="horizon-controller-") as folder,
        closing(train(source, config, Path(folder), args.epochs, args.initial)) as epochs,
    ):
        for done, figures in enumerate(epochs, start=1):
            left = time_left(time.monotonic() - begun, done, args.epochs)
            print(f"{report.add(figures)}, left about {clock(left)}", flush=True)


@dataclass(frozen=True, kw_only=True)
class DreamsArguments:
    """Compare what dreams pay with what the environment pays, from the same contexts.

    The run's agent plays fresh episodes; from frames of these its policy goes on in imagination and
    in the environment.
    """

    run: Positional[Path]
    """A run, one of its snapshots, or an agent's file; catch or fog for agents of the package."""
    contexts: int = 256
    """Frames from which both go on."""
    steps: int = 2000
    """Fresh steps to take contexts from."""
    budget: int | None = None
    """Denoising steps of a dream, instead of the agent's own."""
    decay_horizon: float | None = None
    """Decay horizon of a dream, instead of the agent's own."""
    seed: int = 0
    """Seed of the environment and of all draws."""
    out: Path | None = None
    """Folder for the results; by default studies/dreams in the run, or studies/dreams-NU-B with
    another schedule."""
    device: str = "auto"
    """cuda, mps, cpu, or auto for the best one available."""
    trust: bool = False
    """Import the environment that the run's own files name as `module:Name`."""
    json: bool = False
    """End with the results in one line of JSON."""


def dreams_main(argv: list[str]) -> int | None:
    """Play, imagine, compare."""
    args = parse(DreamsArguments, argv, prog="horizon study dreams")
    if args.contexts < 1 or args.steps < 1:
        raise UsageError("--contexts and --steps must be at least 1")
    from tempfile import TemporaryDirectory

    from horizon_imagination.agent import Agent
    from horizon_imagination.studies import dreams
    from horizon_imagination.studies.controller import check_actions

    place = place_of(args.run)
    agent = Agent.load(place.agent, args.device)
    check_actions(agent)
    env = agent.config.env.trusted() if args.trust else agent.config.env
    with as_usage_error():
        schedule, name, said = dreams.another_schedule(agent, args.budget, args.decay_horizon)
    folder = output_folder(args.out or place.results / "studies" / name)
    with TemporaryDirectory(prefix="horizon-dreams-") as replay:
        futures = dreams.play_and_imagine(
            agent,
            env,
            Path(replay) / "replay",
            contexts=args.contexts,
            steps=args.steps,
            seed=args.seed,
            progress=Counter(),
            schedule=schedule,
        )
    found = dreams.summary(futures) | said
    print("\n".join(dreams.write(found, folder)))
    if args.json:
        print(json.dumps(found))
    return 0


class Counter:
    """Says a tenth of the way at a time how far a stage has come, and the time left."""

    def __init__(self) -> None:
        self.stage, self.begun = "", 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """One more is done."""
        from horizon_imagination.wording import clock, time_left

        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.begun = stage, now
        if done * 10 // total > (done - 1) * 10 // total:
            left = clock(time_left(now - self.begun, done, total))
            print(f"{stage}: {done} of {total}, left about {left}", file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class ImaginationArguments:
    """Imagine a falling dot with its exact velocity field, and a policy that steers it."""

    out: Path = Path("runs/studies/imagination")
    """Folder for the picture."""
    horizon: int = 8
    """Frames to imagine."""
    budget: int = 10
    """Denoising steps."""
    decay_horizon: float = 3.0
    """Width of the ramp from noise to clean, in frames."""
    seed: int = 0
    """Seed of worlds, noise and dice."""
    json: bool = False
    """End with the results in one line of JSON."""


def imagination_main(argv: list[str]) -> int | None:
    """Imagine with stable and with naive actions."""
    args = parse(ImaginationArguments, argv, prog="horizon study imagination")
    from horizon_imagination.studies import imagination

    with as_usage_error():
        study = imagination.DotStudy(
            horizon=args.horizon,
            budget=args.budget,
            decay_horizon=args.decay_horizon,
            seed=args.seed,
        )
        outcome = {name: imagination.run(study, name) for name in ("stable", "naive")}
    folder = output_folder(args.out)
    imagination.draw_strip(study, outcome["stable"], folder / "imagination.png")
    found = {name: imagination.summary(study, imagined) for name, imagined in outcome.items()}
    for name, numbers in found.items():
        print(f"{name:>6}: " + ", ".join(f"{key} {value:.3f}" for key, value in numbers.items()))
    print(f"picture: {folder / 'imagination.png'}")
    if args.json:
        print(json.dumps(found))
    return 0


@dataclass(frozen=True, kw_only=True)
class QualityArguments:
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
    """Widths of the Horizon schedule's ramp, in frames; at most the horizon."""
    kinds: tuple[Literal["horizon", "pyramidal", "full"], ...] = ("horizon", "pyramidal", "full")
    """Kinds of schedules; the Pyramidal one needs budgets of at least the horizon."""
    horizon: int | None = None
    """Frames to generate (the run's own horizon by default)."""
    context: int = 1
    """Real frames to start from."""
    data: Path | None = None
    """A dataset to take segments from (the run's own by default)."""
    batch: int = 64
    """Videos generated in one batch; latencies are those of such a batch."""
    features: str = "i3d"
    """i3d, none (MSE only), or a file of converted I3D weights."""
    lpips: Literal["auto", "off"] = "auto"
    """Compute LPIPS where the vgg16 weights are installed."""
    resamples: int = 50
    """Resampled sets behind each interval; 0 leaves intervals and extrapolations out."""
    engine: Literal["window", "plain"] = "window"
    """window evaluates only frames that change, with a cache; plain evaluates every frame."""
    seed: int = 0
    """Chooses segments and noise."""
    out: Path | None = None
    """Folder for the results (studies/quality in the run by default)."""
    shard: str = ""
    """i/n: only part i of n of the points, in a process of its own."""
    device: str = "auto"
    """cuda, cuda:N, mps, cpu, or auto for the best one available."""
    precision: Literal["auto", "float32", "bfloat16"] | None = None
    """Activations of networks (the run's own by default)."""
    smoke: bool = False
    """A small grid of 16 videos: about a minute on a CPU."""
    json: bool = False
    """End with the results in one line of JSON."""


def quality_main(argv: list[str]) -> int | None:
    """Measure what is missing, then draw; --json ends with the verdicts."""
    args = parse(QualityArguments, argv, prog="horizon study quality")
    from horizon_imagination.studies.quality.grid import Shard
    from horizon_imagination.studies.quality.records import finished, is_study

    if args.resamples < 0:
        raise UsageError(f"--resamples is {args.resamples}: expected 0 or more")
    if is_study(args.run):
        return _report(args.run, None, args)
    shard = Shard.parse(args.shard)
    place = place_of(args.run)
    laboratory = _laboratory(args, place)
    from horizon_imagination.studies.quality.laboratory import measure_points

    folder = output_folder(args.out or place.results / "studies" / "quality")
    measure_points(laboratory, folder, shard, _say)
    every = laboratory.study.grid.points()
    left = len(set(every) - set(finished(folder, laboratory.key)))
    if left:
        print(f"{left} of {len(every)} points are still missing; their parts will draw the results")
        return 0
    return _report(folder, laboratory.key, args)


def _laboratory(args: QualityArguments, place: Place):
    """The agent, its data and what measures, from the command line."""
    from horizon_imagination.agent import Agent
    from horizon_imagination.studies.quality.laboratory import Laboratory, find_lpips, i3d_extractor

    agent = Agent.load(place.agent, args.device)
    if args.precision:
        runtime = dataclasses.replace(agent.config.runtime, precision=args.precision)
        agent.config = dataclasses.replace(agent.config, runtime=runtime)
    study = _study(args, agent.config.imagination.horizon)
    extractor = None
    if args.features != "none":
        path = None if args.features == "i3d" else Path(args.features)
        extractor = i3d_extractor(path, agent.device)
    lpips = find_lpips(agent.device) if args.lpips == "auto" else None
    return Laboratory(study, agent, place.stored(args.data), extractor, lpips)


def _study(args: QualityArguments, horizon: int):
    from horizon_imagination.studies.quality.grid import Grid
    from horizon_imagination.studies.quality.laboratory import QualityStudy

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


def _report(folder: Path, study: str | None, args: QualityArguments) -> int:
    from horizon_imagination.studies.quality import page

    with unusable(folder):
        text, numbers = page.write(folder, study, args.resamples, _say)
    print(text)
    print(f"written to {folder}")
    if args.json:
        print(json.dumps(numbers))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
