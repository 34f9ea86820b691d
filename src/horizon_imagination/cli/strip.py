"""`horizon strip`: film strips of a run's imagination, by schedule or by sampler of actions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse
from horizon_imagination.errors import UsageError, as_usage_error

Kind = Literal["horizon", "pyramidal", "full"]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Draw what really happened, its reconstruction, and imagined futures below one another.

    By default one row per sampler of actions, with the run's own schedule. With --budget or
    --decay-horizon one row per schedule, under the recorded actions.
    """

    run: Positional[Path]
    """Folder of a run."""
    budget: tuple[int, ...] = ()
    """Denoising steps to compare."""
    decay_horizon: tuple[float, ...] = ()
    """Decay horizons to compare."""
    kind: tuple[Kind, ...] = ("horizon",)
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
    """cuda, mps, cpu, or auto for the best there is."""


def main(argv: list[str]) -> int | None:
    """Load the agent, imagine, draw."""
    args = parse(Arguments, argv, prog="horizon strip")
    if args.examples < 1:
        raise UsageError(f"--examples is {args.examples}: expected at least 1")
    if args.out is not None and args.out.suffix != ".png":
        raise UsageError(f"--out is {args.out}: expected a name that ends in .png")
    from horizon_imagination.agent import Agent
    from horizon_imagination.data import Store
    from horizon_imagination.report import films
    from horizon_imagination.report.pictures import VIDEOS, replay_of, save_strips
    from horizon_imagination.report.records import read_record
    from horizon_imagination.schedules import horizon_schedule

    record = read_record(args.run)
    agent = Agent.load(args.run, args.device)
    cfg = agent.config.imagination
    horizon = args.horizon or cfg.horizon
    compare = args.budget or args.decay_horizon or args.kind != ("horizon",)
    budgets, decays = args.budget or (cfg.budget,), args.decay_horizon or (cfg.decay_horizon,)
    with as_usage_error():
        own = horizon_schedule(horizon, cfg.budget, cfg.decay_horizon)
    schedules = films.named_schedules(args.kind, horizon, budgets, decays)
    store = Store.open(args.data) if args.data else replay_of(record)
    scene = films.make_scene(agent, store, count=args.examples, horizon=horizon, seed=args.seed)
    if compare:
        strips = films.schedule_strips(agent, scene, schedules, seed=args.seed)
    else:
        strips = films.sampler_strips(agent, scene, seed=args.seed, schedule=own)
    for path in save_strips(args.out or args.run / VIDEOS / "strips.png", strips):
        print(path)
    return 0
