"""`horizon info`: parameters, memory and FLOPs of a config, beside the paper's figures."""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from horizon_imagination.cli.parse import parse
from horizon_imagination.cli.train import expand, from_preset
from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError

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
    argv = expand(argv)
    args = parse(Arguments, argv, prog="horizon info", default=from_preset(Arguments(), argv))
    from horizon_imagination.run.costs import costs
    from horizon_imagination.run.needs import memory, size, snapshot_bytes

    actions = args.actions or _actions(args.config)
    counted = costs(args.config, actions)
    print(f"{args.preset}: {args.config.env.id}, {actions} actions")
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
    length = args.config.world_model.segment_length
    print(
        f"\nencode {counted.encode / 1e9:.2f} GFLOP a frame, decode {counted.decode / 1e9:.2f}, "
        f"denoise {counted.denoise / 1e9:.2f} for {length} frames, act {counted.act / 1e9:.2f}"
    )
    parts = memory(args.config, counted, half=False)
    print(f"memory in float32: {', '.join(f'{n} {size(x)}' for n, x in parts.items())}")
    print(f"snapshots on disk: {size(snapshot_bytes(args.config, counted))}")
    print(
        "A multiply-add is two FLOPs, a backward pass two forward ones; activations are estimated."
    )
    return 0


def _actions(config: Config) -> int:
    from horizon_imagination.envs import env_names, make_env

    known = {env.name: env.num_actions for env in env_names()}
    if config.env.id in known:
        return known[config.env.id]
    try:
        env = make_env(config.env, 0)
    except UsageError as error:
        raise UsageError(f"{error}; or give the number of actions with --actions") from error
    env.close()
    return int(env.action_space.n)  # type: ignore[attr-defined]
