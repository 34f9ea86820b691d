"""Training from Python: `hi.train`."""

import dataclasses
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path

from horizon_imagination.config import Config
from horizon_imagination.envs.given import EnvLike, env_config
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.callbacks import Callback, Callbacks
from horizon_imagination.run.display import Display, notebook_console
from horizon_imagination.run.folder import claimed, default_folder, prepare
from horizon_imagination.run.logs import make_logs
from horizon_imagination.run.read import Run, load_run
from horizon_imagination.run.start import Request, complete, make_trainer
from horizon_imagination.types import Schedule
from horizon_imagination.world_model import WorldModel


def train(
    config: Config | str = "demo",
    *,
    env: EnvLike | None = None,
    out: Path | str | None = None,
    callbacks: Sequence[Callback] = (),
    world_model: WorldModel | None = None,
    schedule: Schedule | None = None,
    offline: Path | str | None = None,
    init_from: Path | str | None = None,
    freeze: str = "",
    progress: bool = True,
) -> Run:
    """Train, or go on with the run in the folder `out`; returns it as `load_run` reads it.

    `config` is a `Config` or the name of a preset. `env` takes the place of the config's: an id, a
    `gymnasium.Env` class, or a function that returns an environment. Callbacks are told what
    happens, in order, before the display and the logs. In a `world_model` that is given, actor and
    critic are all that learns, from the first epoch on. `schedule` replaces the Horizon schedule of
    the config. `offline`, `init_from` and `freeze` are those of `horizon train`. What is given as a
    Python object is not stored in the folder: to resume, give it again.
    """
    name, config = (config, _preset(config)) if isinstance(config, str) else ("python", config)
    config = dataclasses.replace(config, env=env_config(env, config.env))
    if world_model is not None:
        config = in_given_world(config)
    request = Request(
        preset=name,
        config=config,
        folder=Path(out) if out is not None else default_folder(name, config),
        offline=Path(offline) if offline is not None else None,
        init_from=Path(init_from) if init_from is not None else None,
        freeze=freeze,
        world_model=world_model,
        schedule=schedule,
    )
    display = Display(notebook_console()) if progress else None
    with closing(display) if display else nullcontext():
        _run(request, [*callbacks, *([display] if display else [])])
    return load_run(request.folder, config.runtime.device, world_model=world_model)


def _run(request: Request, callbacks: list[Callback]) -> None:
    config, launch = complete(request)
    with claimed(request.folder):
        prepare(request.folder, config, launch)
        logs, warnings = make_logs(request.folder, config, None)
        everyone = Callbacks([*callbacks, *logs])
        for line in warnings:
            everyone.on_note(f"warning: {line}")
        with closing(make_trainer(request, config, launch, everyone, None)) as trainer:
            if trainer.resume() and not trainer.finished:
                everyone.on_note(f"resuming after epoch {trainer.progress.epoch}")
            if not trainer.finished:
                trainer.run()


def in_given_world(config: Config) -> Config:
    """The config with nothing to wait for: neither tokenizer nor world model learns."""

    def at_once(section):
        return dataclasses.replace(
            section, learner=dataclasses.replace(section.learner, first_epoch=0)
        )

    return dataclasses.replace(
        config,
        world_model=at_once(config.world_model),
        controller=at_once(config.controller),
    )


def _preset(name: str) -> Config:
    if name not in PRESETS:
        raise UsageError(f"config is {name!r}: expected a Config, or one of {', '.join(PRESETS)}")
    return PRESETS[name][1]
