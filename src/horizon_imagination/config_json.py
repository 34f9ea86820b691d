"""Configs as JSON and back: an unknown field is refused, a missing one has its default.

So a run outlives the fields that later versions add, and never one they took away.
"""

import dataclasses
from typing import Any, TypeVar

from horizon_imagination.config import Config
from horizon_imagination.schema import checked

T = TypeVar("T")


def to_json(config: Any) -> dict[str, Any]:
    """A dataclass as nested dictionaries of plain values."""
    return dataclasses.asdict(config)


def from_json(data: Any, kind: type[T] = Config, where: str = "config") -> T:
    """The dataclass that `to_json` came from; the id of an environment is untrusted from here on.

    >>> from_json(to_json(Config())) == Config()
    True
    """
    return checked(data, kind, where)


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
