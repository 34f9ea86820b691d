"""`horizon report`: a page about one run or several, finished or not."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse
from horizon_imagination.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Write a self-contained report.html: curves, reconstructions, imagined futures."""

    runs: Positional[tuple[Path, ...]]
    """Folders of runs; several are drawn over one another."""
    out: Path | None = None
    """The page to write; by default report.html in the run, or beside several runs."""
    examples: int = 2
    """Moments from which futures are imagined."""
    seed: int = 0
    """Chooses these moments and the noise."""
    device: str = "auto"
    """cuda, mps, cpu, or auto for the best there is."""


def main(argv: list[str]) -> int | None:
    """Read the runs, draw, write the page."""
    args = parse(Arguments, argv, prog="horizon report")
    from horizon_imagination.report.html import comparison_report, run_report, write_page
    from horizon_imagination.report.records import read_record

    if not args.runs:
        raise UsageError("name at least one run: horizon report RUN [RUN …]")
    if args.examples < 1:
        raise UsageError(f"--examples is {args.examples}: expected at least 1")
    records = [read_record(folder) for folder in args.runs]
    if len(records) == 1:
        out = args.out or args.runs[0] / "report.html"
        content = run_report(records[0], examples=args.examples, seed=args.seed, device=args.device)
    else:
        out = args.out or args.runs[0].parent / "report.html"
        content = comparison_report(records, device=args.device, seed=args.seed)
    write_page(out, content)
    print(f"report: {out}")
    return 0
