"""The command `horizon`: one table of commands, one way to choose, one way to fail."""

import errno
import importlib
import io
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from horizon_imagination.errors import (
    Failure,
    UsageError,
    did_you_mean,
    file_of,
    keep_traceback,
    one_line,
)
from horizon_imagination.version import __version__


class Command(NamedTuple):
    """What a word of the command line runs."""

    help: str
    """One line."""
    module: str
    """In this package; imported when the command is run."""
    main: str = "main"
    """The function that takes the rest of the command line and returns the exit status."""
    arguments: str = "Arguments"
    """The dataclass of its flags."""


class Group(NamedTuple):
    """Commands behind one word."""

    help: str
    commands: Mapping[str, Command]
    more: str = ""
    """Below the list of commands."""


Table = Mapping[str, Command | Group]

DATA = {
    "info": Command("print what a dataset holds", "data", "info_main", "InfoArguments"),
    "validate": Command(
        "check every episode and file of a dataset", "data", "validate_main", "ValidateArguments"
    ),
    "repair": Command(
        "set rewards that are not finite to 0", "data", "repair_main", "RepairArguments"
    ),
    "import": Command(
        "make a dataset of .npz files, or of videos with tables of actions",
        *("data", "import_main", "ImportArguments"),
    ),
}
STUDIES = {
    "actions": Command(
        "how often actions change, against the theoretical bound",
        *("studies", "actions_main", "ActionsArguments"),
    ),
    "controller": Command(
        "train a run's controller in the real environment",
        *("studies", "controller_main", "ControllerArguments"),
    ),
    "dreams": Command(
        "what a run's dreams pay against what the environment pays",
        *("studies", "dreams_main", "DreamsArguments"),
    ),
    "imagination": Command(
        "a film strip of imagination in a solved world",
        *("studies", "imagination_main", "ImaginationArguments"),
    ),
    "quality": Command(
        "FVD and MSE of generated videos by budget and decay horizon",
        *("studies", "quality_main", "QualityArguments"),
    ),
}
WEIGHTS = {
    "get": Command("get one network's weights", "weights", "get_main", "GetArguments"),
    "list": Command("list the networks and their sources", "weights", "list_main", "ListArguments"),
}
COMMANDS: Table = {
    "train": Command("train an agent; the same command again resumes the run", "train"),
    "play": Command("act in the world model and watch it imagine, in a browser", "play"),
    "sweep": Command("run a suite: skip finished runs, resume and retry the others", "sweep"),
    "evaluate": Command("play episodes with a stated protocol and store every one", "evaluate"),
    "export": Command("write a policy, or a page to play in, that runs alone", "export"),
    "record": Command(
        "write a dataset, played at random or by a trained agent",
        *("data", "record_main", "RecordArguments"),
    ),
    "data": Group(
        "datasets",
        DATA,
        "A dataset is a folder written by horizon record or horizon data import, or the\n"
        "replay folder of a run.",
    ),
    "report": Command("write a page about a run, several runs or a suite", "report"),
    "strip": Command(
        "draw film strips of imagined futures, by sampler or by schedule",
        *("report", "strip_main", "StripArguments"),
    ),
    "doctor": Command(
        "say what looks wrong with a run, and what to try",
        *("report", "doctor_main", "DoctorArguments"),
    ),
    "info": Command("parameters, memory and FLOPs of a config", "info"),
    "bench": Command("time the stages of training on this machine", "bench"),
    "presets": Command(
        "list the named configurations", "train", "presets_main", "PresetsArguments"
    ),
    "envs": Command(
        "list the environments that are known by name", "info", "envs_main", "EnvsArguments"
    ),
    "schedule": Command(
        "draw and print sampling schedules side by side",
        *("info", "schedule_main", "ScheduleArguments"),
    ),
    "weights": Group("weights of pretrained networks", WEIGHTS),
    "study": Group("studies", STUDIES),
    "completion": Command("print a completion script for bash, zsh or fish", "completion"),
}
FOOT = "horizon COMMAND --help lists its options; horizon --version prints the version."


def main(argv: list[str] | None = None) -> int:
    """Run a command. Whatever goes wrong is one line on stderr; the exit status says what it was.

    2 for bad input and files that cannot be read or written, 1 for other failures, 130 for an
    interrupt. The traceback of an unexpected failure is in a file that the line names.
    """
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names that it cannot write are no failure
            stream.reconfigure(errors="backslashreplace")
    try:
        for word in argv:
            if any("\ud800" <= letter <= "\udfff" for letter in word):
                raise UsageError(f"{word!a} is not UTF-8: rename the file or folder")
        if argv[:1] in (["-V"], ["--version"]):
            print(__version__)
            return 0
        return command_of(argv, COMMANDS, "horizon", FOOT)() or 0
    except BrokenPipeError:
        # The reader has left; nothing more can be said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (Exception, KeyboardInterrupt) as error:
        line, status = explain(error, argv)
        print(f"horizon: {one_line(line)}", file=sys.stderr)
        return status


def explain(error: BaseException, argv: list[str]) -> tuple[str, int]:
    """What to say about an error that ends a command, and the exit status."""
    kind = type(error).__name__  # of packages that are not imported for this
    if isinstance(error, UsageError):
        return str(error) + keep_traceback(error), 2
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, Failure):
        return str(error) + keep_traceback(error), 1
    if isinstance(error, OSError):
        where = f"{name}: " if (name := file_of(error)) else ""
        return f"{where}{error.strerror or error}; {_file_advice(error.errno)}", 2
    if kind == "SafetensorError":
        return f"weights cannot be read or written: {error}; {_file_advice(None)}", 2
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"this needs the package {error.name.split('.')[0]}, which is not installed", 2
    if isinstance(error, MemoryError) or kind == "OutOfMemoryError":
        return f"out of memory; use smaller batches or another --device: {str(error)[:160]}", 1
    return (
        f"unexpected {kind}: {str(error)[:160]}; "
        f"please report it with the traceback in {_write_traceback(error, argv)}"
    ), 1


def _file_advice(number: int | None) -> str:
    """What helps against an error of the file system; files are replaced whole or not at all."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        help = "make room"
    elif number in (errno.EROFS, errno.EACCES, errno.EPERM):
        help = "make it writable, or name another place with --out"
    else:
        help = "check the path and the disk"
    return f"files that were complete are unchanged: {help}, then repeat the command"


def _write_traceback(error: BaseException, argv: list[str]) -> str:
    """The file with all that a report of an unexpected error needs."""
    import platform
    import shlex
    import tempfile
    import traceback

    torch = sys.modules.get("torch")
    about = [
        f"horizon {shlex.join(argv)}",
        f"horizon_imagination {__version__}, Python {platform.python_version()}, "
        f"torch {torch.__version__ if torch else 'not imported'}, {platform.platform()}",
        "".join(traceback.format_exception(error)),
    ]
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="horizon-error-", suffix=".txt", delete=False
        ) as file:
            file.write("\n".join(about))
    except OSError:
        print(about[-1], file=sys.stderr)
        return "the lines above"
    return file.name


def command_of(
    argv: list[str], table: Table, prog: str, more: str = ""
) -> Callable[[], int | None]:
    """What the first word names, ready to be called; no word, or a request for help: the list."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        return partial(print, _help(table, prog, more))
    name, *rest = argv
    if name not in table:
        raise UsageError(
            f"unknown command '{prog} {name}': {did_you_mean(name, table)}; see '{prog} --help'"
        )
    found = table[name]
    if isinstance(found, Group):
        return command_of(rest, found.commands, f"{prog} {name}", found.more)
    module = importlib.import_module(f"horizon_imagination.cli.{found.module}")
    return partial(getattr(module, found.main), rest)


def _help(table: Table, prog: str, more: str) -> str:
    width = max(map(len, table))
    lines = [f"  {name:<{width}}  {_line(entry)}" for name, entry in table.items()]
    return "\n".join(
        [f"usage: {prog} COMMAND [OPTIONS]", "", *lines, *(["", more] if more else [])]
    )


def _line(entry: Command | Group) -> str:
    if isinstance(entry, Command):
        return entry.help
    return f"{entry.help}: {', '.join(entry.commands)}"
