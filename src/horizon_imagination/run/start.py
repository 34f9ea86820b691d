"""From a request on the command line to a trained run."""

import dataclasses
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError

from horizon_imagination.actions import ActionSpace
from horizon_imagination.config import Config
from horizon_imagination.data import Store
from horizon_imagination.device import resolve_device
from horizon_imagination.envs import actor_bias
from horizon_imagination.envs.look import look
from horizon_imagination.errors import EnvFailure, Failure, UsageError, file_of, keep_traceback
from horizon_imagination.kernels import wanted
from horizon_imagination.learn.ranks import current_ranks
from horizon_imagination.pretrained import is_installed, load_weights
from horizon_imagination.run.callbacks import Callback, Callbacks
from horizon_imagination.run.display import Display
from horizon_imagination.run.folder import (
    Launch,
    abandon,
    claimed,
    has_begun,
    is_run,
    prepare,
    read_config,
)
from horizon_imagination.run.logs import make_logs
from horizon_imagination.run.needs import (
    DiskWatch,
    Needs,
    describe_needs,
    free_bytes,
    room_warning,
    write_estimate,
)
from horizon_imagination.run.signals import (
    RESUME,
    Paused,
    StopRequest,
    heeding,
    preempt_signal,
)
from horizon_imagination.run.sources import check_source, offline_config, parse_freeze, resting
from horizon_imagination.run.trainer import Trainer
from horizon_imagination.snapshots import read_state, snapshots
from horizon_imagination.timing import cores
from horizon_imagination.types import Schedule
from horizon_imagination.world_model import WorldModel

COMPILERS = ("g++", "clang++", "c++")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody asked to train."""

    preset: str
    config: Config
    folder: Path
    offline: Path | None = None
    init_from: Path | None = None
    freeze: str = ""
    dry_run: bool = False
    wandb: str | None = None
    world_model: WorldModel | None = None
    """Given from Python."""
    schedule: Schedule | None = None
    """The same."""


def complete(request: Request) -> tuple[Config, Launch]:
    """The config that is trained: with phases for stored data, priors, and no idle waiting."""
    config, frozen = request.config, parse_freeze(request.freeze)
    launch = Launch(
        preset=request.preset,
        offline=str(request.offline.resolve()) if request.offline else None,
        init_from=str(request.init_from.resolve()) if request.init_from else None,
        freeze=frozen,
        given=tuple(x for x in ("world_model", "schedule") if getattr(request, x) is not None),
    )
    if request.offline is not None:
        if "tokenizer" in frozen:
            nothing = dataclasses.replace(config.offline, tokenizer_epochs=0)
            config = dataclasses.replace(config, offline=nothing)
        config = offline_config(config, request.offline)
    elif config.env.channels == "stack" and not config.env.stack_channels:
        config = dataclasses.replace(config, env=look(config.env).env)
    config = resting(config, frozenset(frozen))
    if not config.controller.actor_bias:
        controller = dataclasses.replace(config.controller, actor_bias=actor_bias(config.env.id))
        config = dataclasses.replace(config, controller=controller)
    return with_threads(config, config.runtime.threads or _settled_threads(request)), launch


def with_threads(config: Config, threads: int) -> Config:
    """The config with this number of threads."""
    return dataclasses.replace(config, runtime=dataclasses.replace(config.runtime, threads=threads))


def _settled_threads(request: Request) -> int:
    """The number of threads that needs no trial: of the run that goes on, since other numbers give
    other bits, or a share of the cores for each of several processes; 0 if there is none."""
    if is_run(request.folder):
        return read_config(request.folder).runtime.threads
    world = current_ranks().world
    return max(1, cores() // world) if world > 1 else 0


def actions_of(config: Config, offline: Path | None) -> tuple[ActionSpace, str]:
    """Which actions there are, and how pictures are read.

    Makes the environment once, so that a wrong one is told early.
    """
    if offline is not None:
        store = Store.open(offline)
        store.close()
        return store.action_space, ""
    seen = look(config.env)
    return seen.action_space, f"\nthe agent sees {seen.line}"


def train(request: Request, callbacks: Sequence[Callback] = ()) -> int:
    """Train or resume, with callbacks besides the display and the logs; the exit status."""
    config, launch = complete(request)
    preempt = preempt_signal(config.runtime.preempt_signal)
    if request.dry_run:
        print(_checked(request, config)[1].text)
        return 0
    folder, display = request.folder, Display()
    with heeding(preempt) as stop:
        config, needs = _checked(request, config)
        with claimed(folder), closing(display):
            described = is_run(folder)
            prepare(folder, config, launch)
            try:
                if needs.text:
                    write_estimate(folder, needs.estimated)
                logs, warnings = make_logs(folder, config, request.wandb)
                for line in (*filter(None, [needs.text]), *(f"warning: {x}" for x in warnings)):
                    display.on_note(line)
                everyone = Callbacks([display, DiskWatch(), *callbacks, *logs])
                with _closing(make_trainer(request, config, launch, everyone, stop)) as trainer:
                    if trainer.resume():
                        if trainer.finished:
                            display.on_note(_finished(trainer))
                            return 0
                        display.on_note(_resuming(trainer))
                    trainer.run()
                    return 0
            except Paused:
                who = stop.name or "a signal to another rank"
                return _stopped(display, folder, f"stopped by {who}", RESUME)
            except KeyboardInterrupt:
                return _stopped(display, folder, "interrupted", 130)
            except (UsageError, EnvFailure) as error:
                if not has_begun(folder):
                    abandon(folder, described)
                    kept = f"; no epoch was finished, and nothing is kept in {folder}"
                    raise _with(error, kept) from error
                if isinstance(error, UsageError):
                    raise
                return _stopped(display, folder, str(error) + keep_traceback(error, folder), 1)
            except (Failure, torch.OutOfMemoryError, OSError, SafetensorError) as error:
                return _stopped(display, folder, _one_line(error), 1)


def _with(error: UsageError | EnvFailure, words: str) -> Exception:
    """The same error, saying more."""
    if isinstance(error, EnvFailure):
        return EnvFailure(f"{error}{words}", traceback=error.traceback)
    return UsageError(f"{error}{words}")


@contextmanager
def _closing(trainer: Trainer) -> Iterator[Trainer]:
    """Close the trainer; after a failure, what closing complains about is not the news."""
    try:
        yield trainer
    except BaseException:
        with suppress(OSError):
            trainer.close()
        raise
    trainer.close()


def make_trainer(
    request: Request, config: Config, launch: Launch, callback: Callback, stop: StopRequest | None
) -> Trainer:
    """The trainer of a request that was completed."""
    return Trainer(
        config,
        request.folder,
        callback,
        offline=request.offline,
        init_from=request.init_from,
        frozen=frozenset(launch.freeze),
        stop=stop,
        world_model=request.world_model,
        schedule=request.schedule,
    )


def _checked(request: Request, config: Config) -> tuple[Config, Needs]:
    """Find out early what cannot work; the config with its number of threads, and what a run that
    has no snapshot yet will need."""
    resolve_device(config.runtime.device)
    _check_compiler(config)
    if not request.dry_run and snapshots(request.folder):
        return config, Needs("", config.runtime.threads)
    actions, reading = actions_of(config, request.offline)
    if request.init_from is not None:
        check_source(config, actions, request.init_from)
    needs = describe_needs(config, actions, request.offline)
    said = [*_warnings(request, config), *_missing_features(config, request.dry_run)]
    room = room_warning(needs.estimated.disk_bytes, free_bytes(request.folder))
    warnings = "".join(f"\nwarning: {line}" for line in (*said, room) if line)
    text = needs.text + reading + warnings
    return with_threads(config, needs.threads), dataclasses.replace(needs, text=text)


def _stopped(display: Display, folder: Path, reason: str, status: int) -> int:
    """Say in one line why the run ends here and how it goes on."""
    with suppress(OSError):  # after SIGHUP there is no terminal any more
        display.close()
        print(f"horizon: {reason}; {_how_to_resume(folder)}", file=sys.stderr)
    return status


def _warnings(request: Request, config: Config) -> list[str]:
    """What works, and not as well as one may think."""
    said, device = [], resolve_device(config.runtime.device)
    if device.type == "cpu" and request.preset in ("paper", "fast"):
        said.append(
            f"the {request.preset} preset is made for a GPU and takes very long without one; "
            "horizon train --preset demo learns in minutes here"
        )
    if config.training.overlap and (current_ranks().world > 1 or request.world_model is not None):
        said.append(
            "training.overlap needs one process and a world model of the agent's own: here the "
            "stages of every epoch run one after the other"
        )
    imagined = config.imagination.context + config.imagination.horizon
    if config.world_model.segment_length < imagined:
        said.append(
            f"world_model.segment_length {config.world_model.segment_length} is shorter than "
            f"imagination.context + imagination.horizon ({imagined}): the world model never learns "
            "on sequences as long as it imagines, and fresh/imagined_reward is not measured"
        )
    if config.imagination.context > 1 and wanted(config.runtime.fused, device):
        said.append(
            f"imagination.context {config.imagination.context}: contexts may be padded, so "
            "imagination runs without the fused denoiser, which is slower"
        )
    return said


def _check_compiler(config: Config) -> None:
    """On CUDA, where the denoiser is compiled."""
    on_cuda = resolve_device(config.runtime.device).type == "cuda"
    if config.runtime.compile and on_cuda and not any(map(shutil.which, COMPILERS)):
        raise UsageError(
            f"runtime.compile needs a C++ compiler and found none of {', '.join(COMPILERS)}: "
            "install one, or add --runtime.no-compile"
        )


def _missing_features(config: Config, dry_run: bool) -> list[str]:
    """The perceptual loss needs weights that are fetched apart: refuse a run without them before
    anything is made; a dry run is told."""
    name, learner = config.tokenizer.perceptual, config.tokenizer.learner
    if name != "none" and learner.steps_per_epoch and not is_installed(name):
        try:
            load_weights(name)
        except UsageError as error:
            if not dry_run:
                raise
            return [str(error)]
    return []


def _resuming(trainer: Trainer) -> str:
    done, now = trainer.progress.epoch, trainer.epoch
    if not now.begun:
        return f"resuming after epoch {done}"
    return f"resuming after epoch {done}, in the middle of the next ({now.stage or 'evaluate'})"


def _finished(trainer: Trainer) -> str:
    done, reached = trainer.progress.epoch, trainer.progress.reached
    early = done < trainer.config.training.epochs and reached is not None
    how = f", stopped at an evaluation of {reached:.3g}" if early else ""
    further = "--offline.controller-epochs" if trainer.offline else "--training.epochs"
    further = "--training.target-return" if early else further
    return (
        f"{trainer.folder} is finished: {done} epochs{how}; horizon evaluate {trainer.folder} "
        f"tells how good it is, a larger {further} goes on"
    )


def _how_to_resume(folder: Path) -> str:
    kept = snapshots(folder)
    state = f"{_described(kept[-1])} is good" if kept else "there is no snapshot yet"
    env = read_config(folder).env.id
    named = f" --env {shlex.quote(env)}" if ":" in env else ""  # code is named, not read
    return f"{state}; resume with: horizon train --out {shlex.quote(str(folder))}{named}"


def _described(snapshot: Path) -> str:
    """A snapshot by its name, which does not say whether it is one of the middle of an epoch."""
    where = ""
    with suppress(UsageError):  # one that is damaged is told when the run goes on
        state = read_state(snapshot)
        where = f" (in the middle of epoch {state.epoch + 1})" if state.unfinished else ""
    return f"the snapshot {snapshot.name}{where}"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and (name := file_of(error)):
        return f"{name}: {error.strerror}"
    if isinstance(error, torch.OutOfMemoryError):
        return (
            "the device is out of memory; raise the micro_batches of a learner "
            f"(--world-model.learner.micro-batches 2): {text[:160]}"
        )
    return text
