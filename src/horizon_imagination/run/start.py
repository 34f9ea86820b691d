"""From a request on the command line to a trained run."""

import dataclasses
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from horizon_imagination.config import Config
from horizon_imagination.data import Store
from horizon_imagination.device import resolve_device
from horizon_imagination.envs import EnvFailure, actor_bias, make_env
from horizon_imagination.learn.guard import NotFiniteError
from horizon_imagination.models.weights import is_installed, load_weights
from horizon_imagination.run.display import Display
from horizon_imagination.run.folder import Launch, claimed, prepare
from horizon_imagination.run.logs import make_logs
from horizon_imagination.run.needs import describe_needs
from horizon_imagination.run.sources import check_source, offline_config, parse_freeze, resting
from horizon_imagination.run.trainer import Trainer
from horizon_imagination.run.watch import Watcher, Watchers
from horizon_imagination.snapshots import snapshots


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody asked to train."""

    preset: str
    config: Config
    folder: Path
    offline: Path | None = None
    keep_env: bool = False
    """Whether an environment was named besides the dataset."""
    init_from: Path | None = None
    freeze: str = ""
    dry_run: bool = False
    wandb: str | None = None


def complete(request: Request) -> tuple[Config, Launch]:
    """The config that is trained: with phases for stored data, priors, and no idle waiting."""
    config, frozen = request.config, parse_freeze(request.freeze)
    launch = Launch(
        preset=request.preset,
        offline=str(request.offline.resolve()) if request.offline else None,
        init_from=str(request.init_from.resolve()) if request.init_from else None,
        freeze=frozen,
    )
    if request.offline is not None:
        if "tokenizer" in frozen:
            nothing = dataclasses.replace(config.offline, tokenizer_epochs=0)
            config = dataclasses.replace(config, offline=nothing)
        config = offline_config(config, request.offline, keep_env=request.keep_env)
    config = resting(config, frozenset(frozen))
    if not config.controller.actor_bias:
        controller = dataclasses.replace(config.controller, actor_bias=actor_bias(config.env.id))
        config = dataclasses.replace(config, controller=controller)
    return config, launch


def num_actions(config: Config, offline: Path | None) -> int:
    """How many actions there are; makes the environment once, so that a wrong one is told early."""
    if offline is not None:
        store = Store.open(offline)
        store.close()
        return store.num_actions
    env = make_env(config.env, 0)
    env.close()
    return int(env.action_space.n)  # type: ignore[attr-defined]


def train(request: Request) -> int:
    """Train or resume; the exit status."""
    config, launch = complete(request)
    resolve_device(config.runtime.device)
    needs = ""
    if request.dry_run or not snapshots(request.folder):
        actions = num_actions(config, request.offline)
        if request.init_from is not None:
            check_source(config, actions, request.init_from)
        needs = describe_needs(config, actions, request.offline) + _warning(request, config)
        if not request.dry_run:
            _check_features(config)
    if request.dry_run:
        print(needs)
        return 0
    with claimed(request.folder):
        prepare(request.folder, config, launch)
        display = Display()
        if needs:
            display.note(needs)
        return _train(request, config, launch, display)


def _train(request: Request, config: Config, launch: Launch, display: Display) -> int:
    folder, watchers = request.folder, Watchers([display])
    logs, warnings = make_logs(folder, config, request.wandb)
    for warning in warnings:
        display.note(f"warning: {warning}")
    trainer = Trainer(
        config,
        folder,
        watchers,
        offline=request.offline,
        init_from=request.init_from,
        frozen=frozenset(launch.freeze),
    )
    try:
        watchers.watchers = [display, *logs, *_pictures(trainer)]
        if trainer.resume():
            if trainer.finished:
                display.note(_finished(trainer))
                return 0
            display.note(f"resuming after epoch {trainer.progress.epoch}")
        trainer.run()
        return 0
    except KeyboardInterrupt:
        display.close()
        print(f"horizon: interrupted; {_how_to_resume(folder)}", file=sys.stderr)
        return 130
    except (NotFiniteError, EnvFailure, torch.OutOfMemoryError, OSError) as error:
        display.close()
        print(f"horizon: {_one_line(error)}; {_how_to_resume(folder)}", file=sys.stderr)
        return 1
    finally:
        display.close()
        trainer.close()


def _pictures(trainer: Trainer) -> list[Watcher]:
    """Film strips now and then, where they are asked for."""
    if not trainer.config.training.strips_every:
        return []
    from horizon_imagination.report.live import StripWriter

    return [StripWriter(trainer)]


def _warning(request: Request, config: Config) -> str:
    slow = resolve_device(config.runtime.device).type == "cpu"
    if not slow or request.preset != "paper":
        return ""
    return (
        "\nwarning: the paper preset is made for a GPU and takes very long without one; "
        "horizon train --preset demo learns in minutes here"
    )


def _check_features(config: Config) -> None:
    """The perceptual loss needs weights that are fetched apart: say so before anything is made."""
    name, learner = config.tokenizer.perceptual, config.tokenizer.learner
    if name != "none" and learner.steps_per_epoch and not is_installed(name):
        load_weights(name)


def _finished(trainer: Trainer) -> str:
    done, reached = trainer.progress.epoch, trainer.progress.reached
    early = done < trainer.config.training.epochs and reached is not None
    how = f", stopped at an evaluation of {reached:.3g}" if early else ""
    further = "--training.target-return" if early else "--training.epochs"
    return (
        f"{trainer.folder} is finished: {done} epochs{how}; horizon evaluate {trainer.folder} "
        f"tells how good it is, a larger {further} goes on"
    )


def _how_to_resume(folder: Path) -> str:
    kept = snapshots(folder)
    state = f"the snapshot {kept[-1].name} is good" if kept else "there is no snapshot yet"
    return f"{state}; resume with: horizon train --out {shlex.quote(str(folder))}"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, torch.OutOfMemoryError):
        return (
            "the device is out of memory; raise the micro_batches of a learner "
            f"(--world-model.learner.micro-batches 2): {text[:160]}"
        )
    return text
