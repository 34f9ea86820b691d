"""Environments that are given as Python objects: a class, or a function that returns one.

They get an id in Gymnasium's registry, which holds as long as the process does. A run stores the
id alone, so whoever resumes or loads it gives the environment again.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium

from horizon_imagination.config import EnvConfig
from horizon_imagination.errors import UsageError

GIVEN = "given/"
"""What the ids of given environments begin with."""

EnvLike = str | EnvConfig | Callable[..., Any]
"""An id, a config, a class of environments, or a function that returns one."""


def env_config(env: EnvLike | None, cfg: EnvConfig) -> EnvConfig:
    """The config with an environment in the place of its own; none leaves it as it is."""
    if env is None:
        return cfg
    if isinstance(env, EnvConfig):
        return env
    return replace(cfg, id=env if isinstance(env, str) else register(env))


def register(env: Any) -> str:
    """An id for a class of environments or a function that returns one; the latest of a name
    counts."""
    if isinstance(env, gymnasium.Env) or not callable(env):
        raise UsageError(
            f"env is a {type(env).__name__}: expected an id, a class of environments, or a "
            "function that returns one, since evaluation plays several concurrently"
        )
    if isinstance(env, type) and not issubclass(env, gymnasium.Env):
        raise UsageError(f"env is the class {env.__name__}, which is no gymnasium.Env")
    name = getattr(env, "__name__", None) or getattr(getattr(env, "func", None), "__name__", "env")
    identity = f"{GIVEN}{re.sub(r'[^A-Za-z0-9_]', '', name) or 'env'}-v0"
    gymnasium.registry.pop(identity, None)
    gymnasium.register(identity, entry_point=env)  # type: ignore[arg-type]
    return identity


def not_given(identity: str) -> str:
    """What to say of an id that nobody has given in this process."""
    return (
        f"the environment {identity} was a Python object, which no file holds: give it again, as "
        "in hi.train(config, env=MyEnv) or hi.load_run(folder, env=MyEnv)"
    )
