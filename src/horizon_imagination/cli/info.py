"""`horizon info`, `horizon envs` and `horizon schedule`: what to know before anything is trained.

What a config costs beside the paper's figures, which worlds there are, what schedules look like.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from horizon_imagination.cli.parse import parse, parse_with_preset
from horizon_imagination.config import Config, EnvConfig, ScheduleKind
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.files import output_folder
from horizon_imagination.wording import number

if TYPE_CHECKING:
    from horizon_imagination.actions import ActionSpace
    from horizon_imagination.costs import Costs

PAPER = {
    "tokenizer": (("tokenizer",), "22.5 M"),
    "world model": (("denoiser", "reward"), "67 M (63.1 M in the published code)"),
    "actor and critic": (("actor", "critic"), "7.5 M (with a shared encoder; 10.8 M apart)"),
}
"""Parts, their networks, and the paper's count of parameters."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What a config is made of and what its steps cost; every field of the config is a flag."""

    preset: str = "paper"
    """The config (see horizon presets)."""
    actions: int | None = None
    """Number of actions; that of the environment if not given."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


def main(argv: list[str]) -> int | None:
    """Count and print; takes seconds, no memory, no GPU."""
    args = parse_with_preset(Arguments, argv, prog="horizon info")
    from horizon_imagination.actions import as_space
    from horizon_imagination.costs import costs
    from horizon_imagination.run.needs import memory, snapshot_bytes
    from horizon_imagination.wording import size

    actions = as_space(args.actions or _actions(args.config))
    counted = costs(args.config, actions)
    print(f"{args.preset}: {args.config.env.id}, {actions.words()}")
    print(f"\n{'network':<18} {'parameters':>12}  the paper's")
    for part, (names, figure) in PAPER.items():
        print(f"{part:<18} {sum(counted.parameters[x] for x in names):>12,}  {figure}")
        for name in names if len(names) > 1 else ():
            print(f"  {name:<16} {counted.parameters[name]:>12,}")
    print(f"{'all':<18} {sum(counted.parameters.values()):>12,}")
    print(f"\n{'step of':<12} {'batch':>6} {'TFLOP':>9} {'activations':>12}")
    for name, step in counted.steps.items():
        batch = getattr(args.config, name).learner.batch_size
        print(f"{name:<12} {batch:>6} {step.flops / 1e12:>9.3f} {size(step.activations):>12}")
    print(_calls(counted))
    parts = memory(args.config, counted, half=False)
    print(f"memory in float32: {', '.join(f'{n} {size(x)}' for n, x in parts.items())}")
    print(f"snapshots on disk: {size(snapshot_bytes(args.config, counted))}")
    print(
        "A multiply-add is two FLOPs, a backward pass two forward passes. Attention counts the "
        "pairs of frames\nthat see each other. Activations are estimated."
    )
    return 0


def _calls(counted: "Costs") -> str:
    """GFLOPs of single calls, and what imagining one trajectory asks for."""
    config, plan = counted.config, counted.plan(counted.config)
    cfg, length = config.imagination, config.world_model.segment_length
    every = cfg.budget * (cfg.context + cfg.horizon)
    calls = {
        "encode a frame": counted.encode.flops,
        "decode a frame": counted.decode.flops,
        "act once": counted.act,
        f"denoise a training segment of {length} frames": counted.segment.flops,
        f"denoise a trajectory ({plan.frames:,} of {every:,} frames, schedule "
        f"{cfg.decay_horizon:g}, {cfg.budget})": counted.denoiser(config, 1).flops,
        f"imagine a trajectory with policy ({config.controller.context + plan.actor_frames} "
        "frames seen by the actor)": counted.imagination(config, 1).flops,
    }
    lines = [f"{flops / 1e9:>9.2f}  {name}" for name, flops in calls.items()]
    return "\n".join([f"\n{'GFLOP':>9}", *lines, ""])


def _actions(config: Config) -> "ActionSpace":
    from horizon_imagination.envs.known import known_actions
    from horizon_imagination.envs.look import look

    try:
        return known_actions(config.env.id) or look(config.env).action_space
    except UsageError as error:
        raise UsageError(f"{error}; or give the number of actions with --actions") from error


@dataclass(frozen=True, kw_only=True)
class EnvsArguments:
    """List worlds with their number of actions, random and best returns; or try one.

    With --check, fifty steps are played at random in the world that is named.
    """

    all_games: bool = False
    """List every Atari game that is installed."""
    check: str | None = None
    """Try this world: whether it keeps Gymnasium's contract, what is seen of it, how fast it is."""
    env: EnvConfig = field(default_factory=EnvConfig)


def envs_main(argv: list[str]) -> int | None:
    """One line per world."""
    args = parse(EnvsArguments, argv, prog="horizon envs")
    if args.check is not None:
        return _check(replace(args.env, id=args.check))
    from horizon_imagination.envs import atari_games, env_names

    print(f"{'world':<24} actions  random    best  what")
    for env in env_names():
        line = f"{env.name:<24} {_short(env.action_space):>7} {number(env.random_return):>7}"
        print(f"{line} {number(env.best_return):>7}  {env.summary}")
    games = atari_games()
    if args.all_games:
        print("\n".join(f"ALE/{game}-v5" for game in games))
    elif games:
        print(f"and {len(games)} Atari games, ALE/NAME-v5 (--all-games lists them)")
    else:
        print("Atari games need ale-py: pip install 'horizon_imagination[atari]'")
    print(
        "and any Gymnasium id or module:Name with Discrete, MultiDiscrete or Box actions "
        "(docs/environments.md)"
    )
    return 0


def _short(space: Any) -> str:
    """How many actions there are, or of how many numbers one is."""
    return str(space.n) if hasattr(space, "n") else f"vec {space.shape[0]}"


def _check(cfg: EnvConfig) -> int:
    from horizon_imagination.envs.trial import as_text, try_env

    trial = try_env(cfg)
    low, high = trial.rewards
    print(as_text(trial.frame))
    print(f"{cfg.id} keeps its contract over {trial.steps} random steps")
    print(f"the agent sees {trial.reading}")
    print(
        f"{trial.action_space.words()}, rewards {number(low)} to {number(high)}, "
        f"{trial.episodes} episodes ended, {trial.steps / trial.seconds:.0f} steps a second"
    )
    on = "goes on in the middle of an episode" if trial.restorable else "begins a new episode"
    print(f"a resumed run {on}")
    return 0


@dataclass(frozen=True, kw_only=True)
class ScheduleArguments:
    """Print and draw sampling schedules: which frame is how clean at which denoising step."""

    horizon: int = 16
    """Frames to imagine."""
    budgets: tuple[int, ...] = (16, 24, 32)
    """Denoising steps; one column of the picture each."""
    decay_horizon: float = 3.0
    """Width of the Horizon schedule's ramp from noise to clean, in frames; 1 to the horizon."""
    kinds: tuple[ScheduleKind, ...] = ("pyramidal", "horizon")
    """Schedules to compare; one line of the picture each."""
    context: int = 1
    """Clean frames before the first imagined one."""
    out: Path = Path("runs/schedules")
    """Folder for the picture."""


def schedule_main(argv: list[str]) -> int | None:
    """Print every matrix and what it costs, and draw them."""
    args = parse(ScheduleArguments, argv, prog="horizon schedule")
    from horizon_imagination.schedules import schedule_of_kind
    from horizon_imagination.studies.imagination import describe_schedule, draw_schedules

    if not args.budgets or not args.kinds or args.context < 0:
        raise UsageError("give at least one budget, one kind and a context of at least 0")
    with as_usage_error():
        schedules = [
            [
                schedule_of_kind(kind, args.horizon, budget, args.decay_horizon)
                for budget in args.budgets
            ]
            for kind in args.kinds
        ]
    folder = output_folder(args.out)
    panels = []
    for kind, line in zip(args.kinds, schedules, strict=True):
        for schedule in line:
            print(describe_schedule(kind, schedule, args.context, args.decay_horizon))
        titles = [f"{kind}, budget {budget}" for budget in args.budgets]
        panels.append(list(zip(titles, line, strict=True)))
    draw_schedules(panels, folder / "schedules.png")
    print(f"picture: {folder / 'schedules.png'}")
    return 0
