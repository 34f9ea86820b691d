"""What went wrong, said in one line."""

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class UsageError(ValueError):
    """Bad input: the command line prints the message alone and exits with status 2.

    The message says what was wrong, what was expected and what to do.
    """


class Failure(RuntimeError):  # noqa: N818  (nobody made an error)
    """What stops a command though no input was wrong: the message alone and status 1."""


class EnvFailure(Failure):
    """The environment failed at run time, or too often in a row: save everything and stop.

    `traceback` is that of the environment's own code, for a file; the message is one line.
    """

    def __init__(self, message: str, *, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


class BrokenWorldError(UsageError):
    """An environment whose code fails while it is built; `traceback` is that of its code."""

    def __init__(self, message: str, *, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


def one_line(text: str) -> str:
    """A text in one line, in which what a terminal would not print but obey is escaped.

    >>> print(one_line("a\\n b \\x1b[2J"))
    a b \\x1b[2J
    """
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def keep_traceback(error: BaseException, folder: Path | None = None) -> str:
    """Write the traceback that an environment left to a file, and say where; else nothing."""
    text = getattr(error, "traceback", "")
    if not text:
        return ""
    import tempfile  # slow, and seldom needed

    with suppress(OSError):
        where = None if folder is None else str(folder)
        number, name = tempfile.mkstemp(".txt", "traceback-", where, text=True)
        with open(number, "w") as file:
            file.write(text)
        return f"; the traceback is in {name}"
    return ""


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Turn the `ValueError` of a function that was handed a user's values into a `UsageError`."""
    try:
        yield
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error


@contextmanager
def unusable(what: object) -> Iterator[None]:
    """Turn what goes wrong with content whose every field cannot be checked before use into one
    line: `what` lacks something, or has it of a wrong type."""
    try:
        yield
    except UsageError:
        raise
    except Failure:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        kind = type(error).__name__
        raise UsageError(
            f"{what} is damaged, or of another version ({kind}: {str(error)[:80]}); restore it "
            "from a copy, or make it anew"
        ) from error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known word, or all of them.

    >>> did_you_mean("catsh", ["catch", "fog"]), did_you_mean("xy", ["catch", "fog"])
    ("did you mean 'catch'?", 'there are catch, fog')
    """
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}"


def file_of(error: OSError) -> str:
    """The file that an error names, as text; empty if it names none.

    >>> file_of(OSError(5, "Input/output error", b"/runs/x/events")), file_of(OSError("odd"))
    ('/runs/x/events', '')
    """
    name = error.filename
    return os.fsdecode(name) if isinstance(name, bytes) else str(name or "")
