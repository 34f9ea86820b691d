"""What a run may begin with besides an environment: stored experience, another run's networks."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from horizon_imagination.actions import ActionSpace
from horizon_imagination.agent import Agent
from horizon_imagination.config import Config, EnvConfig
from horizon_imagination.data import Store, validate
from horizon_imagination.data.layout import DESCRIPTION, read_description
from horizon_imagination.data.validate import step_problems
from horizon_imagination.envs import known, make_env, spaces
from horizon_imagination.errors import UsageError
from horizon_imagination.networks import build_networks

GENERAL = ("tokenizer", "denoiser")
"""The networks that know how the world looks and moves, and nothing of a task."""


def dataset_env(data: Path, default: EnvConfig) -> EnvConfig:
    """The environment that a dataset was played in; `default` in what the dataset does not know."""
    return read_description(data).env_config(default)


def offline_config(config: Config, data: Path) -> Config:
    """The config of training on a dataset: frames as they are there, three phases, no collection.

    The tokenizer learns first, then the world model, then the controller.
    """
    problems = validate(data)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise UsageError(f"{data} cannot be trained on: {problems[0]}{more}; see horizon data")
    store = Store.open(data)
    channels, height, width = store.frame_shape
    frames = store.num_frames
    store.close()
    if not frames:
        raise UsageError(f"{data} holds no episode; record or import some")
    if height != width:
        raise UsageError(
            f"{data} has frames of {channels} x {height} x {width}; expected square ones: import "
            "them again with --size"
        )
    stack = channels not in (1, 3) or config.env.channels == "stack"
    env = dataclasses.replace(
        config.env,
        size=height,
        grey=channels == 1 and not stack,
        channels="stack" if stack else config.env.channels,
        stack_channels=channels if stack else 0,
    )
    return in_phases(dataclasses.replace(config, env=env))


def own_store(folder: Path, env: gymnasium.Env, config: Config, run: str) -> Store:
    """The replay of a run, to write: the one that is there, or a new one."""
    if (folder / DESCRIPTION).exists():
        return Store.open(folder, "a")
    shutil.rmtree(folder, ignore_errors=True)  # of a process killed while it made the folder
    shape, actions = known.frame_shape(env), spaces.action_space(env)
    who = {"policy": "training", "run": run}
    return Store.create(folder, shape, actions, config.env.id, env=config.env, played_by=who)


def check_trainable(store: Store, run: Path) -> None:
    """Refuse the replay of a run that no learner can use, or only with wrong results."""
    if not np.isfinite(store.reward).all():
        raise UsageError(
            f"{run} has rewards that are not finite, which no learner can use; set them to 0 with: "
            f"horizon data repair {run}"
        )
    if problems := step_problems(store):
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise UsageError(
            f"{store.folder} is damaged: {problems[0]}{more}; restore the replay from a copy"
        )


def in_phases(config: Config) -> Config:
    """Offline training: tokenizer, then world model, then controller, as `offline` plans them."""
    plan = config.offline
    second = plan.tokenizer_epochs
    third = second + plan.world_model_epochs
    same = {"early_until": 0, "rest_from": None}  # every epoch of a phase is like the others
    return dataclasses.replace(
        config,
        tokenizer=_learner(
            config.tokenizer, first_epoch=0, last_epoch=second - 1, steps=plan.tokenizer_steps,
            **same,
        ),
        world_model=_learner(
            config.world_model, first_epoch=second, last_epoch=third - 1,
            steps=plan.world_model_steps, **same,
        ),
        controller=_learner(
            config.controller, first_epoch=third, last_epoch=None, steps=plan.controller_steps,
            **same,
        ),
        training=dataclasses.replace(
            config.training, epochs=third + plan.controller_epochs, collect_steps=0, initial_steps=0
        ),
    )  # fmt: skip


def _learner(section: Any, *, steps: int, **fields: int | None) -> Any:
    learner = dataclasses.replace(section.learner, steps_per_epoch=steps, **fields)
    return dataclasses.replace(section, learner=learner)


def evaluation_env(
    config: Config, action_space: ActionSpace, note: Callable[[str], None]
) -> EnvConfig | None:
    """The environment of a dataset if it can be made here, else none."""
    try:
        env = make_env(config.env, 0)
    except UsageError as error:
        note(f"no evaluation in the real world: {error}")
        return None
    found = spaces.action_space(env)
    env.close()
    if found != action_space:
        note(
            f"no evaluation: {config.env.id} has {found.words()}, the dataset "
            f"{action_space.words()}"
        )
        return None
    return config.env


def resting(config: Config, frozen: frozenset[str]) -> Config:
    """A frozen tokenizer takes no steps, and nobody waits for it."""
    if "tokenizer" not in frozen:
        return config
    wait = max(0, config.world_model.learner.first_epoch - config.tokenizer.learner.first_epoch)
    return dataclasses.replace(
        config,
        tokenizer=_learner(config.tokenizer, steps=0),
        world_model=_earlier(config.world_model, wait),
        controller=_earlier(config.controller, wait),
    )


def _earlier(section: Any, epochs: int) -> Any:
    own = section.learner
    return _learner(
        section,
        steps=own.steps_per_epoch,
        first_epoch=max(0, own.first_epoch - epochs),
        last_epoch=None if own.last_epoch is None else max(0, own.last_epoch - epochs),
        early_until=max(0, own.early_until - epochs),
        rest_from=None if own.rest_from is None else own.rest_from - epochs,
    )


def parse_freeze(text: str) -> tuple[str, ...]:
    """`tokenizer,denoiser` as a tuple, checked."""
    names = tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))
    for name in names:
        if name not in GENERAL:
            raise UsageError(f"--freeze {name}: expected {' or '.join(GENERAL)}, or both")
    return names


def check_source(config: Config, action_space: ActionSpace, run: Path) -> None:
    """Refuse a run whose tokenizer or denoiser does not fit a config."""
    source = Agent.load(run, device="cpu")
    if source.action_space != action_space:
        raise UsageError(
            f"--init-from {run}: its denoiser knows {source.action_space.words()}, {config.env.id} "
            f"has {action_space.words()}; dynamics carry over only between equal sets of actions"
        )
    with torch.device("meta"):
        mine = build_networks(config, action_space)._asdict()
    for name in GENERAL:
        theirs, here = source.networks()[name].state_dict(), mine[name].state_dict()
        for key in sorted(theirs.keys() | here.keys()):
            shapes = [tuple(x[key].shape) if key in x else "missing" for x in (theirs, here)]
            if shapes[0] != shapes[1]:
                raise UsageError(
                    f"--init-from {run}: its {name} does not fit ({key} is {shapes[0]} there, "
                    f"{shapes[1]} here); use the preset and the sizes of that run"
                )


@torch.no_grad()
def take_over(agent: Agent, run: Path) -> None:
    """Give the agent the tokenizer and the denoiser (the one that dreams) of another run."""
    check_source(agent.config, agent.action_space, run)
    source = Agent.load(run, device=str(agent.device))
    agent.tokenizer.load_state_dict(source.tokenizer.state_dict())
    for denoiser in (agent.denoiser, agent.denoiser_average):
        if denoiser is not None:
            denoiser.load_state_dict(source.imagination_denoiser.state_dict())
