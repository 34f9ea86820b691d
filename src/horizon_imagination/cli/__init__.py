"""The command `horizon`: one word chooses the module that does the work."""

import difflib
import importlib
import os
import sys

from horizon_imagination.errors import UsageError
from horizon_imagination.version import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("train", "train an agent; the same command again resumes the run"),
    "sweep": ("sweep", "the runs of a suite: skips finished ones, resumes and retries others"),
    "evaluate": ("evaluate", "play episodes with a stated protocol and store every one"),
    "record": ("record", "write a dataset, played at random or by a trained agent"),
    "data": ("data", "look at, check and import datasets: info, validate, import"),
    "report": ("report", "a self-contained page about a run, several runs or a suite"),
    "strip": ("strip", "film strips of imagined futures, by sampler or by schedule"),
    "info": ("info", "parameters, memory and FLOPs of a config beside the paper's"),
    "bench": ("bench", "time the stages of learning on this machine, beside the paper's figures"),
    "presets": ("presets", "list the named configurations"),
    "envs": ("envs", "list the worlds that are known by name"),
    "schedule": ("schedule", "draw and print sampling schedules side by side"),
    "weights": ("weights", "get and list the weights of pretrained networks"),
    "study": ("study", "the paper's studies: actions, imagination, quality"),
}
"""Command -> (module in this package, one line of help)."""


def main(argv: list[str] | None = None) -> int:
    """Run a command; bad input is one line on stderr and exit status 2."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(argv)
    except UsageError as error:
        print(f"horizon: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("horizon: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has left; nothing more can be said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if argv[0] in ("-V", "--version"):
        print(__version__)
        return 0
    name, *rest = argv
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "see 'horizon --help'"
        raise UsageError(f"unknown command '{name}'; {hint}")
    module = importlib.import_module(f"horizon_imagination.cli.{COMMANDS[name][0]}")
    return module.main(rest) or 0


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: horizon COMMAND [OPTIONS]",
            "",
            "Act in many future frames while they are being denoised.",
            "",
            *lines,
            "",
            "horizon COMMAND --help lists its options; horizon --version prints the version.",
        ]
    )
