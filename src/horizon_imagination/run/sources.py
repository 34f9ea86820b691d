"""What a run may begin with besides an environment: stored experience, another run's networks."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from horizon_imagination.agent import Agent, build_networks
from horizon_imagination.config import Config, EnvConfig
from horizon_imagination.data import Store, validate
from horizon_imagination.envs import make_env
from horizon_imagination.errors import UsageError

GENERAL = ("tokenizer", "denoiser")
"""The networks that know how the world looks and moves, and nothing of a task."""


def offline_config(config: Config, data: Path, *, keep_env: bool = False) -> Config:
    """The config of training on a dataset: frames as they are there, three phases, no collection.

    The tokenizer learns first, then the world model, then the controller; `keep_env` evaluates in
    the config's environment instead of the one that the dataset names.
    """
    problems = validate(data)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise UsageError(f"{data} cannot be trained on: {problems[0]}{more}; see horizon data")
    store = Store.open(data)
    channels, height, width = store.frame_shape
    env_id, frames = store.env_id, store.num_frames
    store.close()
    if not frames:
        raise UsageError(f"{data} holds no episode; record or import some")
    if height != width or channels not in (1, 3):
        raise UsageError(
            f"{data} has frames of {channels} x {height} x {width}; expected square ones of 1 or 3 "
            "channels: import them again with --size"
        )
    env = dataclasses.replace(
        config.env,
        id=config.env.id if keep_env else env_id,
        size=height,
        grey=channels == 1,
    )
    return _phases(dataclasses.replace(config, env=env))


def _phases(config: Config) -> Config:
    plan = config.offline
    second = plan.tokenizer_epochs
    third = second + plan.world_model_epochs
    return dataclasses.replace(
        config,
        tokenizer=_learner(
            config.tokenizer, first_epoch=0, last_epoch=second - 1, steps=plan.tokenizer_steps
        ),
        world_model=_learner(
            config.world_model, first_epoch=second, last_epoch=third - 1,
            steps=plan.world_model_steps,
        ),
        controller=_learner(
            config.controller, first_epoch=third, last_epoch=None, steps=plan.controller_steps
        ),
        training=dataclasses.replace(
            config.training, epochs=third + plan.controller_epochs, collect_steps=0, initial_steps=0
        ),
    )  # fmt: skip


def _learner(section: Any, *, steps: int, **fields: int | None) -> Any:
    learner = dataclasses.replace(section.learner, steps_per_epoch=steps, **fields)
    return dataclasses.replace(section, learner=learner)


def evaluation_env(
    config: Config, num_actions: int, note: Callable[[str], None]
) -> EnvConfig | None:
    """The environment of a dataset if it can be made here, else none."""
    try:
        env = make_env(config.env, 0)
    except UsageError as error:
        note(f"no evaluation in the real world: {error}")
        return None
    found = int(env.action_space.n)  # type: ignore[attr-defined]
    env.close()
    if found != num_actions:
        note(f"no evaluation: {config.env.id} has {found} actions, the dataset {num_actions}")
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
    last = None if own.last_epoch is None else max(0, own.last_epoch - epochs)
    first = max(0, own.first_epoch - epochs)
    return _learner(section, steps=own.steps_per_epoch, first_epoch=first, last_epoch=last)


def parse_freeze(text: str) -> tuple[str, ...]:
    """`tokenizer,denoiser` as a tuple, checked."""
    names = tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))
    for name in names:
        if name not in GENERAL:
            raise UsageError(f"--freeze {name}: expected {' or '.join(GENERAL)}, or both")
    return names


def check_source(config: Config, num_actions: int, run: Path) -> None:
    """Refuse a run whose tokenizer or denoiser does not fit a config."""
    source = Agent.load(run, device="cpu")
    if source.num_actions != num_actions:
        raise UsageError(
            f"--init-from {run}: its denoiser knows {source.num_actions} actions, {config.env.id} "
            f"has {num_actions}; dynamics carry over only between equal sets of actions"
        )
    with torch.device("meta"):
        mine = build_networks(config, num_actions)._asdict()
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
    check_source(agent.config, agent.num_actions, run)
    source = Agent.load(run, device=str(agent.device))
    agent.tokenizer.load_state_dict(source.tokenizer.state_dict())
    for denoiser in (agent.denoiser, agent.denoiser_average):
        if denoiser is not None:
            denoiser.load_state_dict(source.dreamer.state_dict())
