"""Command lines from dataclasses: tyro parses, one line tells what was wrong."""

import contextlib
import io
import re
from typing import TypeVar

import tyro

from horizon_imagination.errors import UsageError

T = TypeVar("T")


def parse(kind: type[T], argv: list[str], *, prog: str, default: T | None = None) -> T:
    """Parse `argv` into the dataclass `kind`; a mistake becomes a one-line `UsageError`."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            if default is None:
                return tyro.cli(kind, args=argv, prog=prog)
            return tyro.cli(kind, args=argv, prog=prog, default=default)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UsageError(_one_line(said.getvalue(), prog)) from None
    except ValueError as error:
        raise UsageError(str(error)) from error


def _one_line(message: str, prog: str) -> str:
    """What tyro said, without its box, the help of the argument and pointers to more."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", message)
    inside = [line for line in text.splitlines() if not line.lstrip().startswith(("╭", "╰"))]
    body = " ".join(re.sub(r"[│─]+", " ", line).strip() for line in inside)
    body = re.split(r"Argument helptext|For full helptext|─{3}", body)[0]
    body = re.sub(r"\s*Perhaps you meant: (\S+).*", r"; did you mean \1?", body)
    said = " ".join(body.split()).rstrip(".,; ") or "bad arguments"
    return f"{said}; see '{prog} --help'"
