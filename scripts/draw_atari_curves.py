"""Draws docs/results/atari-curves.png and whole-runs.png: training returns over the published ones.

python scripts/draw_atari_curves.py

Reads docs/results/atari-returns.csv, one line per episode: run, environment steps at its end,
return.
"""

import csv
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from horizon_imagination.figures import PALETTE, save_figure
from horizon_imagination.metrics.published import Curve, as_curve, published_curve
from horizon_imagination.metrics.statistics import smoothing_window
from horizon_imagination.report.curves import Chart, Line, draw_chart, mean_line

RESULTS = Path(__file__).parents[1] / "docs" / "results"
GAMES = {
    "gopher": "ALE/Gopher-v5",
    "crazy-climber": "ALE/CrazyClimber-v5",
    "kung-fu-master": "ALE/KungFuMaster-v5",
}
WHOLE = {
    "gopher-fast-whole": "ALE/Gopher-v5",
    "kung-fu-master-fast-whole": "ALE/KungFuMaster-v5",
}
"""Runs of `fast` of as many steps as the published ones, before `change_every`."""
HEEDING = {"gopher-fast-whole": "gopher-fast-changes"}
"""The same with it, as far as they have come."""
SETTING, STEPS = "hi-4-16", 100_000


def published(env: str, last: int, window: int) -> Line:
    """Mean and deviation of the five published runs up to a step."""
    past = []
    for curve in published_curve(env, SETTING).values():
        until = curve.steps <= last
        past.append(Curve(curve.steps[until], curve.returns[until]))
    return replace(mean_line(past, "published, 5 seeds", PALETTE[0], window), style=":")


def chart(env: str, ours: Curve, fast: Curve | None) -> Chart:
    """One run of each preset and the five published ones, as far as the first has come."""
    window, last = smoothing_window(len(ours.steps)), int(ours.steps[-1])
    lines = [published(env, last, window), mean_line([ours], "paper, seed 0", PALETTE[5], window)]
    if fast is not None:
        own = smoothing_window(len(fast.steps))
        lines.append(mean_line([fast], "fast, seed 0", PALETTE[2], own))
    return Chart(env, lines)


def curve_of(run: str, rows: list[dict[str, str]]) -> Curve | None:
    """The episodes of a run; none if there is no such run."""
    points = [(int(row["step"]), float(row["return"])) for row in rows if row["run"] == run]
    return as_curve(points) if points else None


def whole_chart(env: str, fast: Curve, heeding: Curve | None) -> Chart:
    """A whole run of `fast`, the five published ones, and one that heeds changed actions."""
    window = smoothing_window(len(fast.steps))
    ours = [mean_line([fast], "fast, seed 0", PALETTE[2], window)]
    if heeding is not None:
        own = smoothing_window(len(heeding.steps))
        ours.append(mean_line([heeding], "the same, change_every 2", PALETTE[5], own))
    return Chart(env, [published(env, STEPS, window), *ours])


def main() -> None:
    """Draw one panel per game, in one figure for the first steps and one for whole runs."""
    with (RESULTS / "atari-returns.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    figure = Figure(figsize=(11.6, 3.2), layout="constrained")
    for axes, (run, env) in zip(figure.subplots(1, len(GAMES)), GAMES.items(), strict=True):
        ours = curve_of(run, rows)
        assert ours is not None, run
        draw_chart(axes, chart(env, ours, curve_of(f"{run}-fast", rows)))
    save_figure(figure, RESULTS / "atari-curves.png")
    figure = Figure(figsize=(5.6 * len(WHOLE), 3.4), layout="constrained")
    panels = figure.subplots(1, len(WHOLE), squeeze=False)[0]
    for axes, (run, env) in zip(panels, WHOLE.items(), strict=True):
        fast = curve_of(run, rows)
        assert fast is not None, run
        heeding = curve_of(HEEDING[run], rows) if run in HEEDING else None
        draw_chart(axes, whole_chart(env, fast, heeding))
    save_figure(figure, RESULTS / "whole-runs.png")


if __name__ == "__main__":
    main()
