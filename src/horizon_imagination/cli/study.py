"""`horizon study`: the paper's studies, one word each."""

import difflib
import importlib

from horizon_imagination.errors import UsageError

STUDIES: dict[str, tuple[str, str]] = {
    "actions": ("study_actions", "how often actions change, against the theoretical bound"),
    "controller": ("study_controller", "a run's controller with the game itself as its dream"),
    "imagination": ("study_imagination", "a film strip of imagination in a solved world"),
    "quality": ("study_quality", "FVD and MSE of generated videos by budget and decay horizon"),
}
"""Study -> (module in this package, one line of help)."""


def main(argv: list[str]) -> int | None:
    """Run the study that the first word names."""
    if not argv or argv[0] in ("-h", "--help"):
        width = max(map(len, STUDIES))
        lines = [f"  {name:<{width}}  {text}" for name, (_, text) in STUDIES.items()]
        print("\n".join(["usage: horizon study STUDY [OPTIONS]", "", *lines]))
        return 0
    name, *rest = argv
    if name not in STUDIES:
        close = difflib.get_close_matches(name, STUDIES, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(STUDIES)}"
        raise UsageError(f"unknown study '{name}'; {hint}")
    module = importlib.import_module(f"horizon_imagination.cli.{STUDIES[name][0]}")
    return module.main(rest)
