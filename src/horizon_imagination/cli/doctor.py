"""`horizon doctor`: what looks wrong with a run, in words."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Say what looks wrong with a run: its folder, its replay, its metrics, its speed.

    One finding a line: the figures, what they usually mean, what to try. Exit status 0 if there
    is none, 1 if there are some, 2 if the folder cannot be read as a run.
    """

    run: Positional[Path]
    """Folder of a run, finished or not."""
    json: bool = False
    """Print one JSON object instead."""


def main(argv: list[str]) -> int:
    """Examine a run."""
    args = parse(Arguments, argv, prog="horizon doctor")
    from horizon_imagination.run.diagnosis import diagnose
    from horizon_imagination.run.integrity import inspect
    from horizon_imagination.run.needs import read_estimate
    from horizon_imagination.run.read import load_run

    run = load_run(args.run, "cpu")
    estimate = read_estimate(args.run)
    found = inspect(run, estimate.disk_bytes) + diagnose(run, estimate.epoch_seconds)
    if args.json:
        about = {"run": str(args.run), "epochs": run.epochs, "healthy": not found}
        print(json.dumps(about | {"findings": [asdict(finding) for finding in found]}, indent=1))
        return 1 if found else 0
    for finding in found:
        print(finding.line())
    if not found:
        print(f"{args.run}: nothing looks wrong ({run.epochs} epochs, {run.env_steps:,} steps)")
    return 1 if found else 0
