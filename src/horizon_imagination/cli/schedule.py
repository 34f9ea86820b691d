"""`horizon schedule`: print and draw sampling schedules."""

from dataclasses import dataclass
from pathlib import Path

from horizon_imagination.cli.parse import parse
from horizon_imagination.config import ScheduleKind
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.files import output_folder


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Print and draw sampling schedules: which frame is how clean at which denoising step."""

    horizon: int = 16
    """Frames to imagine."""
    budgets: tuple[int, ...] = (16, 24, 32)
    """Denoising steps; one column of the picture each."""
    decay_horizon: float = 3.0
    """Frames denoised concurrently by the Horizon schedule; from 1 to the horizon."""
    kinds: tuple[ScheduleKind, ...] = ("pyramidal", "horizon")
    """Schedules to compare; one line of the picture each."""
    context: int = 1
    """Clean frames before the first imagined one."""
    out: Path = Path("runs/schedules")
    """Folder for the picture."""


def main(argv: list[str]) -> int | None:
    """Print every matrix and what it costs, and draw them."""
    args = parse(Arguments, argv, prog="horizon schedule")
    from horizon_imagination.schedules import schedule_of_kind
    from horizon_imagination.studies.schedules import describe, draw_schedules

    if not args.budgets or not args.kinds or args.context < 0:
        raise UsageError("give at least one budget, one kind and a context of at least 0")
    with as_usage_error():
        schedules = [
            [
                schedule_of_kind(kind, args.horizon, budget, args.decay_horizon)
                for budget in args.budgets
            ]
            for kind in args.kinds
        ]
    folder = output_folder(args.out)
    panels = []
    for kind, line in zip(args.kinds, schedules, strict=True):
        for schedule in line:
            print(describe(kind, schedule, args.context))
        titles = [f"{kind}, budget {budget}" for budget in args.budgets]
        panels.append(list(zip(titles, line, strict=True)))
    draw_schedules(panels, folder / "schedules.png")
    print(f"picture: {folder / 'schedules.png'}")
    return 0
