"""`horizon train`: train an agent online, on stored data, or from another run's networks."""

import dataclasses
import difflib
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from horizon_imagination.cli.parse import parse
from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS

A = TypeVar("A", bound=Any)
"""The arguments of a command that has a preset and a config."""
SHORT = {
    "--env": "--env.id",
    "--pixels": "--env.pixels",
    "--device": "--runtime.device",
    "--precision": "--runtime.precision",
}
"""Short names of flags that are wanted often."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Train an agent; the same command again resumes the run.

    Every field of the config is a flag. Short names: --env for --env.id, --pixels for
    --env.pixels, --device and --precision for those of --runtime.
    """

    preset: str = "demo"
    """The config to start from (see horizon presets); a run's own when it is resumed."""
    out: Path | None = None
    """Folder of the run; runs/PRESET-ENV-SEED if not given."""
    offline: Path | None = None
    """Train on this dataset: tokenizer, then world model, then controller (see --offline.*)."""
    init_from: Path | None = None
    """Begin with the tokenizer and the denoiser of this run."""
    freeze: str = ""
    """Of these, the ones that stay as they are: tokenizer, denoiser, or both with a comma."""
    gpus: int = 0
    """Train this one run on so many GPUs; as many as the smallest micro-batch has samples."""
    processes: int = 0
    """The same on the CPU, in so many processes."""
    dry_run: bool = False
    """Print what the run needs and stop."""
    wandb: str | None = None
    """Also log to this wandb project."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


def main(argv: list[str]) -> int | None:
    """Train."""
    signal.signal(signal.SIGTERM, _interrupt)
    from horizon_imagination.run.start import Request, train
    from horizon_imagination.scale.distributed import is_rank, launch, run_rank

    argv = expand(argv)
    args = parse(Arguments, argv, prog="horizon train", default=_default(argv))
    out = args.out or default_folder(args.preset, args.config)
    if args.freeze and args.init_from is None:
        raise UsageError("--freeze needs --init-from RUN: there is nothing learned to keep")
    count = _processes(args)
    request = Request(
        preset=args.preset,
        config=args.config,
        folder=out,
        offline=args.offline,
        keep_env=flag(argv, "--env.id") is not None or _resumes(argv),
        init_from=args.init_from,
        freeze=args.freeze,
        dry_run=args.dry_run,
        wandb=args.wandb,
    )
    if is_rank():
        return run_rank(request)
    return launch(argv, count) if count > 1 and not args.dry_run else train(request)


def _processes(args: Arguments) -> int:
    """In how many processes to train; one clear line where it cannot be."""
    from horizon_imagination.device import resolve_device
    from horizon_imagination.scale.distributed import check_gpus, check_ranks

    if args.gpus and args.processes:
        raise UsageError("--gpus and --processes exclude each other: name one")
    if args.gpus < 0 or args.processes < 0:
        raise UsageError("--gpus and --processes must be at least 1")
    check_gpus(args.gpus)
    if args.gpus and resolve_device(args.config.runtime.device).type != "cuda":
        raise UsageError(f"--gpus {args.gpus} and --device {args.config.runtime.device}: name one")
    if args.processes > 1 and resolve_device(args.config.runtime.device).type != "cpu":
        raise UsageError("--processes is for the CPU: use --gpus, or add --device cpu")
    count = args.gpus or args.processes or 1
    check_ranks(args.config, count)
    return count


def expand(argv: list[str]) -> list[str]:
    """Short names as the full ones.

    >>> expand(["--env", "fog", "--device=cpu"])
    ['--env.id', 'fog', '--runtime.device=cpu']
    """
    full = []
    for word in argv:
        name, equals, value = word.partition("=")
        full.append(SHORT.get(name, name) + equals + value)
    return full


def preset(name: str) -> Config:
    """The config of a preset; an unknown one names its nearest neighbour."""
    if name not in PRESETS:
        close = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(PRESETS)}"
        raise UsageError(f"unknown preset '{name}'; {hint} (horizon presets lists them)")
    return PRESETS[name][1]


def default_folder(name: str, config: Config) -> Path:
    """runs/PRESET-ENV-SEED.

    >>> default_folder("paper", PRESETS["paper"][1]).as_posix()
    'runs/paper-Boxing-0'
    """
    env = config.env.id.removeprefix("ALE/").removesuffix("-v5")
    plain = "".join(x if x.isalnum() or x in "-_." else "-" for x in env)
    return Path("runs") / f"{name}-{plain}-{config.seed}"


def flag(argv: list[str], name: str) -> str | None:
    """The value of a flag, before anything is parsed.

    >>> flag(["--preset=demo", "--out", "x"], "--out")
    'x'
    """
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def _default(argv: list[str]) -> Arguments:
    """What flags change: the preset that is named, or the config of the run that is there."""
    from horizon_imagination.run.folder import read_config, read_launch

    out = flag(argv, "--out")
    if out and _resumes(argv):
        launch = read_launch(Path(out))
        return Arguments(
            preset=launch.preset,
            offline=Path(launch.offline) if launch.offline else None,
            init_from=Path(launch.init_from) if launch.init_from else None,
            freeze=",".join(launch.freeze),
            config=read_config(Path(out)),
        )
    return from_preset(Arguments(), argv)


def from_preset(chosen: A, argv: list[str]) -> A:
    """The arguments of a command with the preset that is named, or its own one, as the config."""
    name = flag(argv, "--preset") or chosen.preset
    return dataclasses.replace(chosen, preset=name, config=preset(name))


def _resumes(argv: list[str]) -> bool:
    """Whether a run is named that is there, and no preset: then its own config counts."""
    from horizon_imagination.run.folder import is_run

    out = flag(argv, "--out")
    return flag(argv, "--preset") is None and bool(out) and is_run(Path(out or ""))


def _interrupt(number: int, frame: object) -> None:
    """A request to end is treated like Ctrl-C."""
    print("horizon: asked to end", file=sys.stderr)
    raise KeyboardInterrupt
