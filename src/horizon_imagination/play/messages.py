"""What a browser may say, and how it is answered.

A message from the network is a JSON object whose `type` names it. Every field is checked before
anything is done with it: type, range, and that nothing is missing or left over. No field is a path.
Answers are JSON, or a binary frame: the length of the JSON, the JSON, then what it lists under
`blobs`, one after the other.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from einops import rearrange
from jaxtyping import UInt8

from horizon_imagination.action_json import MOST_ENTRIES

MAX_BYTES = 4096
"""Longest message a browser may send."""
MAX_EPISODES, MAX_FRAMES = 10_000_000, 1_000_000_000


class Malformed(ValueError):  # noqa: N818  (what it is, not what was wrong)
    """A message that no page of ours sends; its text is the reason."""


Check = Callable[[Any], Any]


@dataclass(frozen=True)
class Place:
    """A recorded frame: the source by number, the episode, and the frame within it."""

    source: int
    episode: int
    frame: int


Action = int | tuple[float, ...]
"""The number of an action, or one number per entry of a vector."""


@dataclass(frozen=True)
class Act:
    """Take an action: immediately if the world waits, else with the next step."""

    action: Action


@dataclass(frozen=True)
class Hold:
    """The action of every step from now on, while the world runs; none lets go."""

    action: Action | None


@dataclass(frozen=True)
class Step:
    """One step by the policy, or by the idle action if a person plays."""


@dataclass(frozen=True)
class Run:
    """Let the world run, or wait for every action."""

    on: bool


@dataclass(frozen=True)
class Reset:
    """Begin another episode; from a recorded frame, in the world model."""

    place: Place | None


@dataclass(frozen=True)
class Choose:
    """Which world is shown, who acts, how fast, how finely a frame is denoised."""

    world: str | None = None
    player: str | None = None
    speed: float | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Record:
    """Start or stop to write down what is played."""

    on: bool


@dataclass(frozen=True)
class Control:
    """Ask for the controls, or hand them back."""

    want: bool


@dataclass(frozen=True)
class Imagine:
    """Imagine the whole horizon, from the present or from a recorded frame."""

    kind: str
    budget: int
    decay_horizon: float
    samplers: tuple[str, ...]
    seed: int
    place: Place | None


@dataclass(frozen=True)
class Load:
    """Another agent, or another snapshot of the run."""

    agent: str
    snapshot: str


@dataclass(frozen=True)
class Sources:
    """What there is to browse."""


@dataclass(frozen=True)
class Episodes:
    """Some episodes of a source."""

    source: int
    offset: int


@dataclass(frozen=True)
class Look:
    """Some frames of an episode, and their reconstruction."""

    place: Place


@dataclass(frozen=True)
class Curves:
    """The curves of the run."""


Message = (
    Act | Hold | Step | Run | Reset | Choose | Record | Control | Imagine | Load | Sources
    | Episodes | Look | Curves
)  # fmt: skip


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Malformed("expected true or false")
    return value


def _whole(least: int, most: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Malformed(f"expected a whole number in [{least}, {most}]")
        return value

    return check


def _number(least: float, most: float) -> Check:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Malformed("expected a number")
        if not least <= value <= most:
            raise Malformed(f"expected a number in [{least:g}, {most:g}]")
        return float(value)

    return check


def _one_of(*words: str) -> Check:
    def check(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            raise Malformed(f"expected one of {', '.join(words)}")
        return value

    return check


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _name(value: Any) -> str:
    """A key that is looked up in a table of ours and nowhere else."""
    if not isinstance(value, str) or not 1 <= len(value) <= 64:
        raise Malformed("expected a name of at most 64 letters")
    return value


def _samplers(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= 3:
        raise Malformed("expected one to three samplers")
    check = _one_of("stable", "coupled", "naive")
    return tuple(dict.fromkeys(check(x) for x in value))


def _place(value: Any) -> Place:
    if not isinstance(value, dict):
        raise Malformed("expected a recorded frame")
    return _filled(Place, PLACE, value)


PLACE: dict[str, Check] = {
    "source": _whole(0, 255),
    "episode": _whole(0, MAX_EPISODES),
    "frame": _whole(0, MAX_FRAMES),
}
_WHICH, _ENTRY = _whole(0, 1023), _number(-1e9, 1e9)


def _action(value: Any) -> Action:
    """Whether the world has such an action, the game checks."""
    if not isinstance(value, list):
        return _WHICH(value)
    if not 1 <= len(value) <= MOST_ENTRIES:
        raise Malformed(f"expected 1 to {MOST_ENTRIES} numbers")
    return tuple(_ENTRY(x) for x in value)


MESSAGES: dict[str, tuple[type, dict[str, Check]]] = {
    "act": (Act, {"action": _action}),
    "hold": (Hold, {"action": _optional(_action)}),
    "step": (Step, {}),
    "run": (Run, {"on": _flag}),
    "reset": (Reset, {"place": _optional(_place)}),
    "choose": (
        Choose,
        {
            "world": _optional(_one_of("model", "real", "both")),
            "player": _optional(_one_of("person", "policy")),
            "speed": _optional(_number(0.5, 60)),
            "steps": _optional(_whole(1, 16)),
        },
    ),
    "record": (Record, {"on": _flag}),
    "control": (Control, {"want": _flag}),
    "imagine": (
        Imagine,
        {
            "kind": _one_of("horizon", "pyramidal", "autoregressive", "full"),
            "budget": _whole(1, 1024),
            "decay_horizon": _number(1, 1024),
            "samplers": _samplers,
            "seed": _whole(0, 2**31 - 1),
            "place": _optional(_place),
        },
    ),
    "load": (Load, {"agent": _name, "snapshot": _one_of("best", "newest")}),
    "sources": (Sources, {}),
    "episodes": (Episodes, {"source": _whole(0, 255), "offset": _whole(0, MAX_EPISODES)}),
    "look": (Look, {"place": _place}),
    "curves": (Curves, {}),
}


def parse(text: str) -> Message:
    """The message that a text is; `Malformed` says why it is none."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Malformed("not JSON") from None
    if not isinstance(value, dict):
        raise Malformed("expected a JSON object")
    name = value.pop("type", None)
    if not isinstance(name, str) or name not in MESSAGES:
        raise Malformed("unknown type of message")
    return _filled(*MESSAGES[name], value)


def _filled(kind: type, checks: dict[str, Check], value: dict[str, Any]) -> Any:
    if set(value) - set(checks):
        raise Malformed("unknown field")
    filled = {}
    for name, check in checks.items():
        try:
            filled[name] = check(value.get(name))
        except Malformed as reason:
            raise Malformed(f"{name}: {reason}") from None
    return kind(**filled)


def _refuse_constant(_: str) -> None:
    raise ValueError("NaN and Infinity are no numbers")


def packed(head: dict[str, Any], blobs: Sequence[bytes] = ()) -> str | bytes:
    """An answer as it travels."""
    if not blobs:
        return json.dumps(head, separators=(",", ":"))
    text = json.dumps(head | {"blobs": [len(b) for b in blobs]}, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *blobs])


def png(picture: UInt8[np.ndarray, "height width channel"]) -> bytes:
    """A picture, without loss."""
    return _encoded(picture, "PNG", compress_level=1)


def sheet(pictures: UInt8[np.ndarray, "row time height width channel"]) -> bytes:
    """Many small pictures as one; with some loss if they are very many, since noise is large."""
    flat = rearrange(pictures, "row t h w c -> (row h) (t w) c")
    if flat.size < 4_000_000:
        return _encoded(flat, "WEBP", lossless=True, quality=20, method=0)
    return _encoded(flat, "WEBP", quality=90, method=1)


def _encoded(picture: UInt8[np.ndarray, "height width channel"], kind: str, **how: Any) -> bytes:
    from PIL import Image

    grey = picture.shape[2] == 1
    file = BytesIO()
    Image.fromarray(picture[:, :, 0] if grey else picture).save(file, kind, **how)
    return file.getvalue()
