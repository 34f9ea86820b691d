"""`horizon report`: a page about a run, several runs, or a suite, finished or not."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse
from horizon_imagination.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Write a self-contained report.html: curves, reconstructions, imagined futures."""

    runs: Positional[tuple[Path, ...]] = ()
    """Folders of runs (several are drawn over one another), or the folder of one suite."""
    published: bool = False
    """Report on the runs published with the paper, without any of one's own."""
    out: Path | None = None
    """The page to write; by default report.html in the run or suite, or beside several runs."""
    examples: int = 2
    """Moments from which futures are imagined."""
    seed: int = 0
    """Chooses these moments and the noise."""
    device: str = "auto"
    """cuda, mps, cpu, or auto for the best there is."""


def main(argv: list[str]) -> int | None:
    """Read the runs, draw, write the page."""
    args = parse(Arguments, argv, prog="horizon report")
    if bool(args.runs) == args.published:
        raise UsageError("name at least one run or suite (horizon report RUN …), or --published")
    if args.examples < 1:
        raise UsageError(f"--examples is {args.examples}: expected at least 1")
    from horizon_imagination.report.suite import is_suite

    if args.published or any(is_suite(folder) for folder in args.runs):
        return _suite(args)
    return _runs(args)


def _runs(args: Arguments) -> int:
    from horizon_imagination.report.html import comparison_report, run_report, write_page
    from horizon_imagination.report.records import read_record

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


def _suite(args: Arguments) -> int:
    from horizon_imagination.report.suite import published_suite, read_suite
    from horizon_imagination.report.suite_page import write_suite_report

    if len(args.runs) > 1:
        raise UsageError("a suite is reported alone: name one folder")
    own = next(iter(args.runs), None)
    suite = published_suite() if own is None else read_suite(own)
    folder = args.out or own or Path("runs/published")
    if folder.suffix:
        raise UsageError(f"--out is {folder}: the report of a suite is a folder, name one")
    for path in write_suite_report(suite, folder):
        print(path)
    return 0
