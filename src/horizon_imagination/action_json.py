"""Action spaces in files: `num_actions` of a discrete one, `actions` of any other."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from horizon_imagination.actions import ActionSpace

MOST_ACTIONS = 2**31 - 1
MOST_ENTRIES = 64
"""Numbers in one action."""


@dataclass(frozen=True)
class WrittenActions:
    """The field `actions`: a box by its bounds, several numbers by how many values each has."""

    kind: Literal["box", "multi_discrete"]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    factors: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        entries = self.low if self.kind == "box" else self.factors
        if not 1 <= len(entries) <= MOST_ENTRIES:
            raise ValueError(f"actions must have 1 to {MOST_ENTRIES} numbers")
        if self.kind == "multi_discrete" and not all(1 <= n <= MOST_ACTIONS for n in self.factors):
            raise ValueError(f"actions.factors must lie between 1 and {MOST_ACTIONS}")
        if self.kind == "box" and not _is_box(self.low, self.high):
            raise ValueError("actions.low and actions.high must be finite bounds, low below high")


def _is_box(low: tuple[float, ...], high: tuple[float, ...]) -> bool:
    finite = all(math.isfinite(x) for x in (*low, *high))
    return finite and len(low) == len(high) and all(a < b for a, b in zip(low, high, strict=True))


def check_written(num_actions: int | None, actions: WrittenActions | None) -> None:
    """Raise ValueError where the two fields do not name one space."""
    if (num_actions is None) == (actions is None):
        raise ValueError("num_actions or actions must be given, and not both")
    if num_actions is not None and not 1 <= num_actions <= MOST_ACTIONS:
        raise ValueError(f"num_actions must lie between 1 and {MOST_ACTIONS}")


def space_to_json(space: "ActionSpace") -> dict[str, Any]:
    """The space as a field of a description; a discrete one has the field of all versions."""
    from horizon_imagination.actions import Discrete, MultiDiscrete  # torch waits for its use

    if isinstance(space, Discrete):
        return {"num_actions": space.n}
    if isinstance(space, MultiDiscrete):
        return {"actions": {"kind": "multi_discrete", "factors": list(space.factors)}}
    return {"actions": {"kind": "box", "low": list(space.low), "high": list(space.high)}}


def space_from_json(num_actions: int | None, actions: WrittenActions | None) -> "ActionSpace":
    """The space that the two fields name, once they are checked."""
    from horizon_imagination.actions import Box, Discrete, MultiDiscrete

    if actions is None:
        return Discrete(num_actions or 1)
    if actions.kind == "box":
        return Box(actions.low, actions.high)
    return MultiDiscrete(actions.factors)
