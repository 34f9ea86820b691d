"""Packages that register Gymnasium ids: when they are imported, or by a call of their own."""

import importlib
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import Any

import gymnasium

from horizon_imagination.envs.checked import first_line
from horizon_imagination.errors import BrokenWorldError, UsageError

PACKAGES = {
    "MiniGrid-": "minigrid",
    "BabyAI-": "minigrid",
    "MiniWorld-": "miniworld",
    "MinAtar/": "minatar",
    "Vizdoom": "vizdoom",
    "highway-": "highway_env",
}
"""How ids begin: the package that registers them."""
REGISTERING = {"minatar": "minatar.gym", "vizdoom": "vizdoom.gymnasium_wrapper"}
"""Packages whose import registers nothing: the module that does."""
CALL = "register_envs"
"""What a module calls the function that registers its ids (MinAtar's name for it)."""


def is_registered(name: str) -> bool:
    """Whether Gymnasium can build this id, after importing the package it is known to come from."""
    package = next((PACKAGES[start] for start in PACKAGES if name.startswith(start)), None)
    if package and name not in gymnasium.registry:
        try:
            importlib.import_module(package)
        except ImportError:
            raise UsageError(f"env.id {name} needs a package: pip install {package}") from None
        _register(package, name)
        if name not in gymnasium.registry:
            raise UsageError(f"env.id {name}: {package} registers no such id{_hint(name)}")
    return name in gymnasium.registry


def find(module_name: str, name: str, env_id: str) -> Any | None:
    """What `module:Name` names in its module; none if it is an id that the module registers."""
    found = getattr(_import(module_name, env_id), name, None)
    if found is not None:
        return found
    _register(module_name, name)
    if name in gymnasium.registry:
        return None
    raise UsageError(
        f"env.id {env_id}: module {module_name} has no {name} and registers no such id"
        f"{_hint(name, module_name)}; if its ids need a call, make it in a module of your own and "
        f"name that, --env MODULE:{name}"
    )


def _import(module_name: str, env_id: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(
            f"env.id {env_id}: cannot import {module_name} ({error}): is it installed, or in a "
            "folder on PYTHONPATH?"
        ) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and GeneratorExit too
        raise BrokenWorldError(
            f"env.id {env_id}: importing {module_name} failed: {first_line(error)}",
            traceback="".join(traceback.format_exception(error)),
        ) from error


def _register(package: str, name: str) -> None:
    """Let a package register its ids, where importing it alone has not registered this one."""
    if name in gymnasium.registry:
        return
    module = importlib.import_module(REGISTERING.get(package, package))
    call: Callable[[], Any] | None = getattr(module, CALL, None)
    if name not in gymnasium.registry and callable(call):
        _once(call)


@cache
def _once(call: Callable[[], Any]) -> None:
    """Ids that are registered a second time are warned about."""
    call()


def _hint(name: str, module_name: str = "") -> str:
    """A registered id that reads almost the same."""
    close = get_close_matches(name, list(gymnasium.registry), n=1, cutoff=0.75)
    start = f"{module_name}:" if module_name else ""
    return f" (did you mean {start}{close[0]}?)" if close else ""
