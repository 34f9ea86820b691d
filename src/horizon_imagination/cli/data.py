"""`horizon data`: look at, check and import datasets."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse
from horizon_imagination.data import import_npz, import_videos, info, validate
from horizon_imagination.data.video import VIDEO_SUFFIXES
from horizon_imagination.errors import UsageError

USAGE = """usage: horizon data info FOLDER [--json]
       horizon data validate FOLDER
       horizon data import FOLDER OUT [--size N] [--num-actions N] [--env-id ID]

A dataset is a folder written by horizon record or horizon data import, or the replay folder of a
run. Imports read one .npz per episode, or name.mp4 with name.csv per episode (its first line is
action, or action,reward, or action,reward,terminated)."""


@dataclass(frozen=True)
class InfoArgs:
    """Print what a dataset holds."""

    folder: Positional[Path]
    """The dataset."""
    json: bool = False
    """Print one JSON object instead of a table."""


@dataclass(frozen=True)
class ValidateArgs:
    """Check every episode and file of a dataset; exit status 1 if anything is wrong."""

    folder: Positional[Path]
    """The dataset."""


@dataclass(frozen=True)
class ImportArgs:
    """Make a dataset of a folder of .npz episodes, or of videos with tables of actions."""

    folder: Positional[Path]
    """The folder with one file, or one video and one table, per episode."""
    out: Positional[Path]
    """The dataset to write; must not exist."""
    size: int | None = None
    """Resize frames to this height and width (by default videos to 64, .npz not at all)."""
    num_actions: int | None = None
    """Number of actions, where not all of them occur in the data."""
    env_id: str = "imported"
    """The world the data comes from."""


def main(argv: list[str]) -> int:
    """Run `horizon data`."""
    commands: dict[str, Callable[[list[str]], int]] = {
        "info": _info,
        "validate": _validate,
        "import": _import,
    }
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if argv[0] not in commands:
        raise UsageError(
            f"unknown command 'data {argv[0]}'; expected info, validate or import, "
            "see 'horizon data --help'"
        )
    return commands[argv[0]](argv[1:])


def _info(argv: list[str]) -> int:
    args = parse(InfoArgs, argv, prog="horizon data info")
    figures = info(args.folder)
    if args.json:
        print(json.dumps(figures))
        return 0
    for name, value in figures.items():
        if isinstance(value, dict):
            value = ", ".join(f"{count} {key}" for key, count in value.items())
        elif isinstance(value, list):
            value = " ".join(map(str, value))
        elif isinstance(value, float):
            value = f"{value:.4g}"
        print(f"{name.replace('_', ' '):<18} {'-' if value is None else value}")
    return 0


def _validate(argv: list[str]) -> int:
    args = parse(ValidateArgs, argv, prog="horizon data validate")
    if not args.folder.is_dir():
        raise UsageError(f"{args.folder} is no folder; name the folder of a dataset")
    problems = validate(args.folder)
    for problem in problems:
        print(problem)
    if problems:
        print(f"{args.folder}: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
        return 1
    figures = info(args.folder)
    print(f"{args.folder}: good, {figures['episodes']} episodes, {figures['steps']} steps")
    return 0


def _import(argv: list[str]) -> int:
    args = parse(ImportArgs, argv, prog="horizon data import")
    if not args.folder.is_dir():
        raise UsageError(f"{args.folder} is no folder; name the folder that holds the episodes")
    suffixes = {path.suffix.lower() for path in args.folder.iterdir()}
    arrays, videos = ".npz" in suffixes, bool(VIDEO_SUFFIXES & suffixes)
    if arrays and videos:
        raise UsageError(f"{args.folder} has .npz files and videos; import them one after another")
    if not arrays and not videos:
        raise UsageError(f"{args.folder} has neither .npz files nor videos (.mp4 with .csv)")
    if arrays:
        import_npz(args.folder, args.out, args.size, args.num_actions, args.env_id)
    else:
        size = 64 if args.size is None else args.size
        import_videos(args.folder, args.out, size, args.num_actions, args.env_id)
    figures = info(args.out)
    print(f"{args.out}: {figures['episodes']} episodes, {figures['steps']} steps imported")
    return 0
