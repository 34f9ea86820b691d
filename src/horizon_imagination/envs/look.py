"""A first look at a world before anything is made for it: what it shows, and what is wrong."""

from dataclasses import dataclass, replace

import gymnasium
import numpy as np

from horizon_imagination.actions import ActionSpace
from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.checked import Checked
from horizon_imagination.envs.frames import view_of
from horizon_imagination.envs.known import frame_shape
from horizon_imagination.envs.make import make_env
from horizon_imagination.envs.spaces import action_space, random_action
from horizon_imagination.errors import BrokenWorldError, EnvFailure


@dataclass(frozen=True)
class EnvLook:
    """What a world is like."""

    env: EnvConfig
    """The config, with the channels of a stack filled in."""
    action_space: ActionSpace
    frame_shape: tuple[int, int, int]
    """Height, width and channels."""
    line: str
    """How its pictures are read, for people."""


def look(cfg: EnvConfig) -> EnvLook:
    """Build the world; take a step where somebody else's code runs in this process.

    What such a world does wrong is then told before a folder is made or a step is counted.
    """
    env = make_env(cfg, 0)
    try:
        if any(isinstance(layer, Checked) for layer in _layers(env)):
            env.reset(seed=0)
            env.step(random_action(action_space(env), np.random.default_rng(0)))
        return _looked(env, cfg)
    except EnvFailure as error:
        raise BrokenWorldError(str(error), traceback=error.traceback) from error
    finally:
        env.close()


def _looked(env: gymnasium.Env, cfg: EnvConfig) -> EnvLook:
    channels, height, width = frame_shape(env)
    if cfg.channels == "stack":
        cfg = replace(cfg, stack_channels=channels)
    view = view_of(env)
    drawn = f"frames of {height} x {width} x {channels} bytes, as {cfg.id} draws them"
    return EnvLook(
        cfg, action_space(env), (height, width, channels), view.line() if view else drawn
    )


def _layers(env: gymnasium.Env) -> list[gymnasium.Env]:
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return layers
