"""`horizon schedule`: sampling schedules in numbers and side by side in a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from horizon_imagination.cli.parse import parse
from horizon_imagination.errors import UsageError, as_usage_error

Kind = Literal["pyramidal", "horizon", "autoregressive", "full"]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Print and draw sampling schedules: which frame is how clean at which denoising step."""

    horizon: int = 16
    """Frames imagined at once."""
    budgets: tuple[int, ...] = (16, 24, 32)
    """Denoising steps; one column of the picture each."""
    decay_horizon: float = 3.0
    """Frames in flight at a time, for the Horizon schedule; from 1 to the horizon."""
    kind: tuple[Kind, ...] = ("pyramidal", "horizon")
    """Schedules to compare; one line of the picture each."""
    context: int = 1
    """Clean frames before the first imagined one."""
    out: Path = Path("runs/schedules")
    """Folder for the picture."""


def main(argv: list[str]) -> int | None:
    """Print every matrix and what it costs, and draw them."""
    args = parse(Arguments, argv, prog="horizon schedule")
    from horizon_imagination.studies.results import output_folder
    from horizon_imagination.studies.schedules import KINDS, describe, draw

    if not args.budgets or not args.kind or args.context < 0:
        raise UsageError("give at least one budget, one kind and a context of at least 0")
    with as_usage_error():
        schedules = [
            [KINDS[kind](args.horizon, budget, args.decay_horizon) for budget in args.budgets]
            for kind in args.kind
        ]
    folder = output_folder(args.out)
    panels = []
    for kind, line in zip(args.kind, schedules, strict=True):
        for schedule in line:
            print(describe(kind, schedule, args.context))
        titles = [f"{kind}, budget {budget}" for budget in args.budgets]
        panels.append(list(zip(titles, line, strict=True)))
    draw(panels, folder / "schedules.png")
    print(f"picture: {folder / 'schedules.png'}")
    return 0
