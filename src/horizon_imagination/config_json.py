"""Configs as JSON and back: an unknown field is refused, a missing one has its default.

So a run outlives the fields that later versions add, and never one they took away.
"""

import dataclasses
import types
import typing
from typing import Any, TypeVar

from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError

T = TypeVar("T")


def to_json(config: Any) -> dict[str, Any]:
    """A dataclass as nested dictionaries of plain values."""
    return dataclasses.asdict(config)


def from_json(data: dict[str, Any], kind: type[T] = Config, where: str = "config") -> T:
    """The dataclass that `to_json` came from.

    >>> from_json(to_json(Config())) == Config()
    True
    """
    hints = typing.get_type_hints(kind)
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if not isinstance(data, dict):
        raise UsageError(f"{where} must be an object of named fields, got {data!r}")
    if odd := sorted(set(data) - names):
        raise UsageError(f"{where}: unknown {', '.join(odd)}; made by another version?")
    try:
        return kind(**{k: _value(v, hints[k], f"{where}.{k}") for k, v in data.items()})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """The fields in which two configs of one kind differ, as `name: a -> b`."""
    found = []
    for field in dataclasses.fields(a):
        x, y, name = getattr(a, field.name), getattr(b, field.name), f"{where}{field.name}"
        if dataclasses.is_dataclass(x):
            found += differences(x, y, f"{name}.")
        elif x != y:
            found.append(f"{name}: {x} -> {y}")
    return found


def _value(value: Any, hint: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_json(value, hint, where)  # type: ignore[arg-type]
    if typing.get_origin(hint) is tuple:
        return tuple(value)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return None if value is None else _value(value, kinds[0], where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (int, float, str, bool) and type(value) is not hint:
        raise UsageError(f"{where} must be of type {hint.__name__}, got {value!r}")
    if typing.get_origin(hint) is typing.Literal and value not in typing.get_args(hint):
        raise UsageError(f"{where} must be one of {typing.get_args(hint)}, got {value!r}")
    return value
