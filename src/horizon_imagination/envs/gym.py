"""Any Gymnasium environment with discrete actions, by id or by `package.module:Name`."""

import importlib
import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.frames import ToFrames
from horizon_imagination.errors import UsageError

PROVIDERS = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid", "MiniWorld-": "miniworld"}
"""Packages that register their environments only once they are imported."""


def is_registered(name: str) -> bool:
    """Whether Gymnasium can build this id, after importing the package it is known to come from."""
    provider = next((PROVIDERS[start] for start in PROVIDERS if name.startswith(start)), None)
    if provider and name not in gymnasium.registry:
        try:
            importlib.import_module(provider)
        except ImportError:
            raise UsageError(f"env.id {name} needs a package: pip install {provider}") from None
    return name in gymnasium.registry


def make_gym(cfg: EnvConfig) -> gymnasium.Env:
    """The environment `cfg.id` names, with frames and actions the agent can use."""
    arguments = env_options(cfg)
    if cfg.pixels:
        arguments.setdefault("render_mode", "rgb_array")
    env = _build(cfg, arguments)
    try:
        return ToFrames(with_discrete_actions(env), cfg.size, cfg.grey, cfg.pixels)
    except UsageError:
        env.close()
        raise


def env_options(cfg: EnvConfig) -> dict[str, Any]:
    """The keyword arguments in `env.options`."""
    try:
        options = json.loads(cfg.options or "{}")
    except json.JSONDecodeError as error:
        raise UsageError(
            f"env.options is no JSON ({error}): expected e.g. '{{\"size\": 8}}'"
        ) from None
    if not isinstance(options, dict):
        raise UsageError(f"env.options is {cfg.options}: expected a JSON object of arguments")
    return options


def with_discrete_actions(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with actions 0 to n - 1, or an error that says what to do."""
    space = env.action_space
    if not isinstance(space, spaces.Discrete):
        kind = "continuous" if isinstance(space, spaces.Box) else "composite"
        raise UsageError(
            f"the environment has {kind} actions ({space}); expected Discrete: wrap it in one that "
            "offers a fixed set of actions and name that as module:Name"
        )
    if space.start == 0:
        return env
    start = int(space.start)
    return gymnasium.wrappers.TransformAction(
        env, lambda action: int(action) + start, spaces.Discrete(int(space.n))
    )


class OldInterface(gymnasium.Env):
    """Presents an environment of the old interface as one of today's.

    Old: `reset() -> obs`, `step(action) -> (obs, reward, done, info)`, `seed(n)` if at all. A done
    with `info["TimeLimit.truncated"]` is a truncation, any other a termination.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.render_mode = "rgb_array"
        self.observation_space = _space(env.observation_space)
        self.action_space = _space(env.action_space)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None and hasattr(self.env, "seed"):
            self.env.seed(seed)
        observation = self.env.reset()
        if isinstance(observation, tuple):
            raise UsageError("env.old_api: reset() gave a tuple, so it is not the old interface")
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        result = self.env.step(int(action))
        if len(result) != 4:
            raise UsageError(
                f"env.old_api: step() gave {len(result)} values, the old interface gives 4"
            )
        observation, reward, done, info = result
        truncated = bool(done) and bool(info.get("TimeLimit.truncated", False))
        return observation, float(reward), bool(done) and not truncated, truncated, dict(info)

    def render(self) -> Any:
        """The picture, from either way of asking that old environments had."""
        try:
            return self.env.render(mode="rgb_array")
        except TypeError:
            return self.env.render()

    def close(self) -> None:
        if hasattr(self.env, "close"):
            self.env.close()


def _build(cfg: EnvConfig, arguments: dict[str, Any]) -> gymnasium.Env:
    maker = _maker(cfg.id)
    if cfg.old_api:
        arguments.pop("render_mode", None)
    try:
        env = maker(**arguments)
    except (gymnasium.error.Error, TypeError, ValueError) as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(f"env.id {cfg.id} could not be built: {text[0]}") from error
    if cfg.old_api:
        return OldInterface(env)
    if not isinstance(env, gymnasium.Env):
        raise UsageError(
            f"env.id {cfg.id} gives a {type(env).__name__}, which is no gymnasium.Env: if its step "
            "returns 4 values, add --env.old_api"
        )
    return env


def _maker(name: str) -> Callable[..., Any]:
    """What builds the environment: a registered id, or a class or function of a module."""
    if ":" in name:
        module_name, _, attribute = name.partition(":")
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise UsageError(
                f"env.id {name}: cannot import {module_name} ({error}): is it installed, or in a "
                "folder on PYTHONPATH?"
            ) from error
        if hasattr(module, attribute):
            return getattr(module, attribute)
        if attribute not in gymnasium.registry:
            raise UsageError(f"env.id {name}: module {module_name} has no {attribute}")
        name = attribute
    return lambda **arguments: gymnasium.make(name, disable_env_checker=True, **arguments)


def _space(space: Any) -> spaces.Space:
    """Spaces of other packages, told by what they have."""
    if isinstance(space, spaces.Space):
        return space
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    if hasattr(space, "spaces"):
        return spaces.Dict({key: _space(entry) for key, entry in space.spaces.items()})
    if hasattr(space, "shape") and hasattr(space, "dtype"):
        low, high = np.min(getattr(space, "low", 0)), np.max(getattr(space, "high", 255))
        return spaces.Box(low, high, tuple(space.shape), np.dtype(space.dtype).type)
    raise UsageError(f"env.old_api: the space {space} is neither discrete, nor a box, nor a dict")
