"""`horizon study actions`: both experiments of the paper on stable action sampling."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from horizon_imagination.cli.parse import parse
from horizon_imagination.errors import as_usage_error
from horizon_imagination.studies.results import output_folder


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How often do actions change while a policy changes? JSONL, CSV, figure, and a text."""

    out: Path = Path("runs/studies/actions")
    """Folder for the results."""
    pairs: int = 10_000
    """Pairs of policies per number of actions."""
    path_pairs: int = 1_000
    """Pairs of source and target policies per entropy."""
    orders: int = 200
    """Orders drawn per pair; all of them where there are fewer."""
    monte_carlo: int = 0
    """Throw this many dice per pair instead of integrating omega out; 0 integrates."""
    smoke: bool = False
    """A hundredth of the pairs and fewer actions: a few seconds."""
    seed: int = 0
    """Seed of policies, orders and dice."""


def main(argv: list[str]) -> int | None:
    """Run the study; the last line of stdout holds the means as JSON."""
    args = parse(Arguments, argv, prog="horizon study actions")
    from horizon_imagination.studies import actions, actions_report

    with as_usage_error():
        study = actions.ActionStudy(
            sizes=(2, 4, 8) if args.smoke else (2, 4, 8, 16, 32, 64),
            pairs=max(1, args.pairs // 100) if args.smoke else args.pairs,
            path_pairs=max(1, args.path_pairs // 10) if args.smoke else args.path_pairs,
            orders=args.orders,
            monte_carlo=args.monte_carlo,
            seed=args.seed,
        )
    folder = output_folder(args.out)
    results = actions.run(study, lambda line: print(line, file=sys.stderr))
    print(actions_report.write(study, results, folder))
    print(f"written to {folder}")
    print(json.dumps(actions_report.means(results)))
    return 0
