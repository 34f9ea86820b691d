"""`horizon train`: train an agent online, on stored data, or from another run's networks.

`horizon presets` lists the configs that it can start from.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from horizon_imagination.cli.parse import Named, from_preset, named, parse, preset
from horizon_imagination.config import Config
from horizon_imagination.config_json import to_json
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS

if TYPE_CHECKING:
    from horizon_imagination.run.callbacks import Callback


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
    """Train on this dataset: tokenizer, then world model, then controller (see --offline.*). The
    environment is the dataset's own where no flag says otherwise."""
    init_from: Path | None = None
    """Start with the tokenizer and the denoiser of this run."""
    freeze: str = ""
    """Networks of --init-from that are not trained: tokenizer, denoiser, or tokenizer,denoiser."""
    gpus: int = 0
    """Train this run on this many GPUs; at most as many as the smallest micro-batch has samples."""
    processes: int = 0
    """Train this run on the CPU in this many processes."""
    trust: bool = False
    """Import the environment that the run's own files name as `module:Name`; one that is typed
    with --env needs no trust."""
    dry_run: bool = False
    """Print estimated time, memory and disk, and stop."""
    wandb: str | None = None
    """Also log to this wandb project."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


def main(argv: list[str]) -> int | None:
    """Train."""
    flags = named(argv, Arguments, "horizon train")
    args = parse(Arguments, argv, prog="horizon train", default=_default(flags))
    config = args.config
    if args.trust and (args.offline is None or _resumes(flags)):  # a dataset never decides
        config = replace(config, env=config.env.trusted())
    from horizon_imagination.run.folder import default_folder
    from horizon_imagination.run.signals import preempt_signal
    from horizon_imagination.run.start import Request, train
    from horizon_imagination.scale.distributed import is_rank, launch, run_rank

    out = args.out or default_folder(args.preset, config)
    if args.freeze and args.init_from is None:
        raise UsageError("--freeze needs --init-from RUN: there is nothing learned to keep")
    count = _processes(args)
    request = Request(
        preset=args.preset,
        config=config,
        folder=out,
        offline=args.offline,
        init_from=args.init_from,
        freeze=args.freeze,
        dry_run=args.dry_run,
        wandb=args.wandb,
    )
    callbacks = _strip_writer(args.config)
    if is_rank():
        return run_rank(request, callbacks)
    if count == 1 or args.dry_run:
        return train(request, callbacks)
    return launch(argv, count, preempt_signal(config.runtime.preempt_signal))


def _strip_writer(config: Config) -> list["Callback"]:
    """What writes film strips during training, where they are asked for."""
    if not config.training.strips_every:
        return []
    from horizon_imagination.report.pictures import StripWriter

    return [StripWriter()]


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


def _default(flags: Named) -> Arguments:
    """What flags change: the preset that is named, or the config of the run that is there.

    With --offline the environment is the dataset's own.
    """
    from horizon_imagination.run.folder import read_config, read_launch

    if flags.out is None or not _resumes(flags):
        begin = from_preset(Arguments(), flags)
        if flags.offline is None:
            return begin
        from horizon_imagination.run.sources import dataset_env

        env = dataset_env(flags.offline, begin.config.env)
        return replace(begin, config=replace(begin.config, env=env))
    launch = read_launch(flags.out)
    return Arguments(
        preset=launch.preset,
        offline=Path(launch.offline) if launch.offline else None,
        init_from=Path(launch.init_from) if launch.init_from else None,
        freeze=",".join(launch.freeze),
        config=read_config(flags.out),
    )


def _resumes(flags: Named) -> bool:
    """Whether a run is named that is there, and no preset: then its own config counts."""
    from horizon_imagination.run.folder import is_run

    return flags.preset is None and flags.out is not None and is_run(flags.out)


@dataclass(frozen=True, kw_only=True)
class PresetsArguments:
    """List the presets, or print one in full."""

    show: str | None = None
    """Print every field of this preset as JSON."""


def presets_main(argv: list[str]) -> int | None:
    """Run `horizon presets`."""
    args = parse(PresetsArguments, argv, prog="horizon presets")
    if args.show is not None:
        print(json.dumps(to_json(preset(args.show)), indent=1))
        return 0
    width = max(map(len, PRESETS))
    for name, (summary, config) in PRESETS.items():
        print(f"{name:<{width}}  {config.env.id:<14} {summary}")
    return 0
