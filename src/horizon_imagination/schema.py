"""The one reader of JSON files, against a schema: what does not fit is refused in one line.

The schema is a dataclass, or any type made of dataclasses, tuples, lists, mappings and plain
values. A field that is missing has its default; numbers are finite and of 64 bits; texts are
UTF-8; values of type `Any` may be nested 64 deep. Everything else is a `UsageError` that names
the file, the field and what was expected.
"""

import collections.abc
import dataclasses
import functools
import json
import math
import os
import stat
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from horizon_imagination.config import EnvConfig, UntrustedId
from horizon_imagination.errors import UsageError, one_line

T = TypeVar("T")

LARGEST = 64 * 2**20
"""Bytes that a small file may have."""
DEEPEST = 64
"""Levels of objects and lists in a value whose type is not known."""
NUMBERS = 2**63
"""Whole numbers are smaller than this."""
PLAIN = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
"""The plain types, and what they are called."""


def read_json(path: Path, kind: type[T], *, largest: int = LARGEST, extra: bool = False) -> T:
    """The content of a JSON file; `extra` allows (and drops) fields that the schema has not."""
    return checked(parse(read_bytes(path, largest), str(path)), kind, f"{path}: ", extra=extra)


def read_lines(
    path: Path,
    kind: Any,
    *,
    tail: int | None = None,
    largest: int = LARGEST,
    extra: bool = False,
) -> list[Any]:
    """The content of a file with one JSON object a line, or of its last `tail` bytes.

    Half a line, which a running or killed program leaves, is skipped.
    """
    with opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        start = 0 if tail is None else max(0, size - tail)
        if size - start > largest:
            raise UsageError(f"{path} has {size} bytes; expected at most {largest}")
        file.seek(start)
        lines = file.read().split(b"\n")
    found = []
    for number, line in enumerate(lines[1 if start else 0 :], 1):
        try:
            value = parse(line, str(path))
        except UsageError:
            continue
        at = f"{path}: " if start else f"{path}, line {number}: "
        found.append(checked(value, kind, at, extra=extra))
    return found


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """The content of a file that is not too large."""
    with opened(path) as file:
        # Room is taken for what is asked for, so ask for what is there.
        content = file.read(min(largest, os.fstat(file.fileno()).st_size) + 1)
    if len(content) > largest:
        raise UsageError(f"{path} is too large; expected at most {largest} bytes")
    return content


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read; a FIFO, a device or a folder in its place is refused, not waited for."""
    try:
        check_regular(path)
        with open(path, "rb", opener=_open) as file:
            yield file
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} cannot be read: {reason}") from error


def check_regular(path: Path) -> None:
    """Refuse what is no file: reading it could block, or never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise UsageError(f"{path} is no regular file; restore it from a copy")


def parse(text: str | bytes, where: str) -> Any:
    """The value that a JSON text is, whatever its type."""
    try:
        return json.loads(text)
    except RecursionError:
        raise UsageError(f"{where} is damaged: nested too deep") from None
    except ValueError as error:  # no JSON, no UTF-8, thousands of digits
        raise UsageError(f"{where} is damaged, no JSON: {_short(error)}") from error


def checked(value: Any, kind: Any, where: str = "", *, extra: bool = False) -> Any:
    """A parsed value as `kind`; `where` begins the message, and names the value if it is a word.

    >>> checked([1, 2], tuple[float, float])
    (1.0, 2.0)
    """
    if dataclasses.is_dataclass(kind):
        return _built(value, kind, where, extra)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _one_of(value, arguments, where, extra)
    if origin is typing.Literal:
        return _literal(value, arguments, where)
    if origin in (tuple, list):
        return origin(_entries(value, arguments, where, extra))
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            raise _unfit(where, "an object of named fields", value)
        _check_text_of_keys(value, where)
        return {k: checked(v, arguments[1], _at(where, k), extra=extra) for k, v in value.items()}
    if kind in (Any, dict, list):
        if kind in (dict, list) and not isinstance(value, kind):
            raise _unfit(where, "an object" if kind is dict else "a list", value)
        _check_depth(value, where)
        return value
    return _plain(value, kind, where)


def _built(value: Any, kind: Any, where: str, extra: bool) -> Any:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if not isinstance(value, dict):
        raise _unfit(where, "an object of named fields", value)
    keys = {field.metadata.get("key", name): name for name, field in fields.items()}
    if not extra and (odd := sorted(set(value) - set(keys))):
        unknown = _short(", ".join(odd), quote=False)
        raise UsageError(f"{_of(where)}unknown {unknown}; made by another version?")
    for key, name in keys.items():
        if key not in value and _is_required(fields[name]):
            raise UsageError(f"{_at(where, key)} is missing; restore the file from a copy")
    hints = _hints(kind)
    filled = {
        keys[key]: checked(entry, hints[keys[key]], _at(where, key), extra=extra)
        for key, entry in value.items()
        if key in keys
    }
    try:
        built = kind(**filled)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{_of(where)}{one_line(str(error))}") from error
    if isinstance(built, EnvConfig):  # what a file names is never imported
        return dataclasses.replace(built, id=UntrustedId(built.id))
    return built


def _is_required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _one_of(value: Any, kinds: tuple[Any, ...], where: str, extra: bool) -> Any:
    """The value as the first kind that it fits."""
    if value is None and type(None) in kinds:
        return None
    some = [kind for kind in kinds if kind is not type(None)]
    if len(some) == 1:
        return checked(value, some[0], where, extra=extra)
    for kind in some:
        try:
            return checked(value, kind, where, extra=extra)
        except UsageError:
            continue
    raise _unfit(where, " or ".join(PLAIN.get(kind, str(kind)) for kind in some), value)


def _literal(value: Any, known: tuple[Any, ...], where: str) -> Any:
    if isinstance(value, bool) and {"on", "off"} <= set(known):
        return "on" if value else "off"  # a switch that was a flag in earlier versions
    if not isinstance(value, str | int) or value not in known:
        raise UsageError(f"{_name(where)} must be one of {known}, got {_short(value)}")
    return value


def _entries(value: Any, kinds: tuple[Any, ...], where: str, extra: bool) -> Iterator[Any]:
    """The entries of a list; one kind for all of them, or a kind for each."""
    if not isinstance(value, list | tuple):
        raise _unfit(where, "a list", value)
    if len(kinds) > 1 and kinds[-1] is not Ellipsis:
        if len(value) != len(kinds):
            raise _unfit(where, f"a list of {len(kinds)} entries", value)
    else:
        kinds = kinds[:1] * len(value)
    pairs = zip(value, kinds, strict=True)
    return (checked(x, k, f"{_name(where)}[{i}]", extra=extra) for i, (x, k) in enumerate(pairs))


def _plain(value: Any, kind: Any, where: str) -> Any:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and kind in (int, float) and not -NUMBERS < value < NUMBERS:
        raise _unfit(where, f"{PLAIN[kind]} below 2^63", value)
    if kind is float and is_whole:
        return float(value)
    if kind not in PLAIN or type(value) is not kind:
        raise _unfit(where, PLAIN.get(kind, str(kind)), value)
    if kind is float and not math.isfinite(value):
        raise _unfit(where, "a finite number", value)
    if isinstance(value, str) and not is_text(value):
        raise _unfit(where, "a text in UTF-8", value)
    return value


def is_text(value: str) -> bool:
    """Whether a text can be written as UTF-8 and be the name of a file."""
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def _check_text_of_keys(value: dict[str, Any], where: str) -> None:
    for key in value:
        if not is_text(key):
            raise _unfit(where, "names of fields in UTF-8", key)


def _check_depth(value: Any, where: str) -> None:
    """Refuse what recursive functions could not walk through."""
    level = [value]
    for _ in range(DEEPEST):
        inner = [x for x in level if isinstance(x, dict | list)]
        level = [y for x in inner for y in (x.values() if isinstance(x, dict) else x)]
        if not level:
            return
    raise UsageError(f"{_name(where)} is nested too deep; expected at most {DEEPEST} levels")


def _unfit(where: str, expected: str, value: Any) -> UsageError:
    return UsageError(f"{_name(where)} must be {expected}, got {_short(value)}")


def _at(where: str, name: str) -> str:
    """The name of a field: `run/config.json: env.id`."""
    name = _short(name, quote=False)
    return f"{where}{name}" if not where or where.endswith(": ") else f"{where}.{name}"


def _name(where: str) -> str:
    """What a value is called: its place, or the file that it is the whole content of."""
    return where.removesuffix(": ") or "the value"


def _of(where: str) -> str:
    """The beginning of a message about a part of the value."""
    return where if not where or where.endswith(": ") else f"{where}: "


def _short(value: Any, quote: bool = True) -> str:
    """A value in a line, however large it is."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)} entries"
    if isinstance(value, int) and abs(value) >= NUMBERS:
        return "a larger one"
    text = ascii(value) if quote and isinstance(value, str) else one_line(str(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def _open(path: str, flags: int) -> int:
    """Without waiting, should a FIFO have taken the place of the file that was checked."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
