"""Any Gymnasium environment, by id or by `package.module:Name`."""

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from horizon_imagination.actions import Box, Discrete, MultiDiscrete
from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.checked import Checked, first_line
from horizon_imagination.envs.frames import ToFrames
from horizon_imagination.envs.packages import find
from horizon_imagination.envs.spaces import action_space
from horizon_imagination.envs.wrappers import RepeatAction
from horizon_imagination.errors import BrokenWorldError, UsageError
from horizon_imagination.schema import checked, parse


def make_gym(cfg: EnvConfig) -> gymnasium.Env:
    """The environment `cfg.id` names, with frames and actions the agent can use."""
    arguments = env_options(cfg)
    if cfg.pixels:
        arguments.setdefault("render_mode", "rgb_array")
    env = Checked(_build(cfg, arguments), cfg.id)
    try:
        plain = with_plain_actions(env)
        if cfg.frame_skip > 1:  # below the frames: what is skipped is not drawn
            plain = RepeatAction(plain, cfg.frame_skip)
        return ToFrames(plain, cfg)
    except UsageError:
        env.close()
        raise


def env_options(cfg: EnvConfig) -> dict[str, Any]:
    """The keyword arguments in `env.options`."""
    try:
        return checked(parse(cfg.options or "{}", "env.options"), dict, "env.options")
    except UsageError as error:
        raise UsageError(
            f"{error}: expected a JSON object of arguments, e.g. '{{\"size\": 8}}'"
        ) from None


def with_plain_actions(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with whole numbers from 0 on, or with one vector, or an error that says what
    to do."""
    space: Any = env.action_space
    read = action_space(env)
    if isinstance(read, Discrete) and space.start != 0:
        start = int(space.start)
        return gymnasium.wrappers.TransformAction(
            env, lambda action: int(action) + start, spaces.Discrete(int(space.n))
        )
    if isinstance(read, MultiDiscrete) and np.any(space.start):
        return gymnasium.wrappers.TransformAction(
            env, lambda action: np.asarray(action) + space.start, spaces.MultiDiscrete(space.nvec)
        )
    if isinstance(read, Box) and (len(space.shape) != 1 or space.dtype != np.float32):
        shape, dtype = space.shape, space.dtype
        flat = spaces.Box(np.float32(space.low).reshape(-1), np.float32(space.high).reshape(-1))
        return gymnasium.wrappers.TransformAction(
            env, lambda action: np.asarray(action, dtype).reshape(shape), flat
        )
    return env


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
        result = self.env.step(int(action) if np.ndim(action) == 0 else action)
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
    maker = _maker(cfg.id, cfg.old_api)
    if cfg.old_api:
        arguments.pop("render_mode", None)
    try:
        env = maker(**arguments)
        if cfg.old_api:
            return OldInterface(env)
    except (UsageError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit and GeneratorExit too
        raise BrokenWorldError(
            f"env.id {cfg.id} could not be built: {first_line(error)}",
            traceback="".join(traceback.format_exception(error)),
        ) from error
    if not isinstance(env, gymnasium.Env):
        raise UsageError(
            f"env.id {cfg.id} gives a {type(env).__name__}, which is no gymnasium.Env: if its step "
            "returns 4 values, add --env.old-api"
        )
    return env


def _checked_maker(found: Any, name: str, old_api: bool) -> Callable[..., Any]:
    """A class of environments or a function that returns one; anything else is not called."""
    if isinstance(found, type):
        methods = all(callable(getattr(found, x, None)) for x in ("reset", "step"))
        if issubclass(found, gymnasium.Env) or (old_api and methods):
            return found
        hint = ": if its step returns 4 values, add --env.old-api" if methods else ""
        raise UsageError(f"env.id {name} is a class that is no gymnasium.Env{hint}")
    if inspect.isroutine(found) and not inspect.isbuiltin(found):
        return found
    raise UsageError(
        f"env.id {name} is a {type(found).__name__}: expected a class of environments, or a "
        "function that returns one"
    )


def _maker(name: str, old_api: bool) -> Callable[..., Any]:
    """What builds the environment: a registered id, or a class or function of a module."""
    if ":" in name:
        module_name, _, attribute = name.partition(":")
        found = find(module_name, attribute, name)
        if found is not None:
            return _checked_maker(found, name, old_api)
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
