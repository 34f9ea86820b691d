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
    options = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, args=argv, prog=prog, **options)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UsageError(_one_line(said.getvalue(), prog)) from None
    except ValueError as error:
        raise UsageError(str(error)) from error


def _one_line(message: str, prog: str) -> str:
    """What tyro said, without its box, rules and pointers to the help."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", message)
    lines = [re.sub(r"^[│╭╰─\s]+|[│╮╯─\s]+$", "", line) for line in text.splitlines()]
    kept = [line for line in lines if line and line != "Parsing error"]
    body = " ".join(kept).split("For full helptext")[0].strip() or "bad arguments"
    return f"{body.rstrip('.')}; see '{prog} --help'"
