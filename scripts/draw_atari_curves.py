"""Draws docs/results/atari-curves.png and whole-runs.png: training returns over the published ones.

python scripts/draw_atari_curves.py

Reads docs/results/atari-returns.csv, one line per episode: run, environment steps at its end,
return.
"""

import csv
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from horizon_imagination.envs.known import reference_scores
from horizon_imagination.figures import PALETTE, save_figure
from horizon_imagination.metrics.published import Curve, as_curve, published_curve
from horizon_imagination.metrics.statistics import smoothing_window
from horizon_imagination.report.curves import Chart, Line, draw_chart, legend_below, mean_line

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
HEEDING = {"gopher-fast-whole": "gopher-fast-early-steps"}
"""The same with it, and with more steps of the learners in the first 100 epochs."""
SETTING, STEPS = "hi-4-16", 100_000
PUBLISHED, PAPER, FIRST, BEFORE, NOW = (PALETTE[i] for i in (0, 1, 3, 2, 5))
"""Colours: one for each configuration, in both figures."""


def published(env: str, last: int, window: int) -> Line:
    """Mean and deviation of the five published runs up to a step."""
    past = []
    for curve in published_curve(env, SETTING).values():
        until = curve.steps <= last
        past.append(Curve(curve.steps[until], curve.returns[until]))
    return replace(mean_line(past, "published, 5 seeds", PUBLISHED, window), style=":")


def own(curve: Curve | None, label: str, colour: str) -> list[Line]:
    """The line of one run, if there is one."""
    if curve is None:
        return []
    return [mean_line([curve], label, colour, smoothing_window(len(curve.steps)))]


def panel(env: str, last: int, ours: list[Line], window: int) -> Chart:
    """Runs over the five published ones, random play and a human."""
    name = env.removeprefix("ALE/").removesuffix("-v5")
    lines, levels = [published(env, last, window), *ours], reference_scores(env)
    return Chart(name, lines, levels=levels, legend=False)


def chart(env: str, ours: Curve, fast: Curve | None) -> Chart:
    """One run of each preset and the five published ones, as far as the first has come."""
    lines = [*own(ours, "paper", PAPER), *own(fast, "fast, first runs", FIRST)]
    return panel(env, int(ours.steps[-1]), lines, smoothing_window(len(ours.steps)))


def whole_chart(env: str, fast: Curve, heeding: Curve | None) -> Chart:
    """A whole run of `fast`, the five published ones, and one that heeds changed actions."""
    now = own(heeding, "fast, early_steps", NOW)
    lines = [*own(fast, "fast, before change_every", BEFORE), *now]
    return panel(env, STEPS, lines, smoothing_window(len(fast.steps)))


def curve_of(run: str, rows: list[dict[str, str]]) -> Curve | None:
    """The episodes of a run; none if there is no such run."""
    points = [(int(row["step"]), float(row["return"])) for row in rows if row["run"] == run]
    return as_curve(points) if points else None


def draw(charts: list[Chart], size: tuple[float, float], name: str) -> None:
    """Charts side by side, with one legend below them."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(charts))
    for place, (axes, chart) in enumerate(zip(panels, charts, strict=True)):
        draw_chart(axes, replace(chart, y_label="" if place else "training return"))
    legend_below(figure, charts, 4)
    save_figure(figure, RESULTS / name)


def main() -> None:
    """Draw one panel per game, in one figure for the first steps and one for whole runs."""
    with (RESULTS / "atari-returns.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    begun = []
    for run, env in GAMES.items():
        ours = curve_of(run, rows)
        assert ours is not None, run
        begun.append(chart(env, ours, curve_of(f"{run}-fast", rows)))
    draw(begun, (10.8, 3.4), "atari-curves.png")
    whole = []
    for run, env in WHOLE.items():
        fast = curve_of(run, rows)
        assert fast is not None, run
        heeding = curve_of(HEEDING[run], rows) if run in HEEDING else None
        whole.append(whole_chart(env, fast, heeding))
    draw(whole, (8.2, 3.4), "whole-runs.png")


if __name__ == "__main__":
    main()
