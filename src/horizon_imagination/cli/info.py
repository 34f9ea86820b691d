"""`horizon info`: parameters, memory and FLOPs of a config, beside the paper's figures."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from horizon_imagination.cli.parse import parse_with_preset
from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError

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
