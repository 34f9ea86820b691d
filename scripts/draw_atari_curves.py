"""Draws docs/results/atari-curves.png: training returns over those of the published runs.

python scripts/draw_atari_curves.py

Reads docs/results/atari-returns.csv, one line per episode: run, environment steps at its end,
return.
"""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from horizon_imagination.figures import PALETTE, save_figure
from horizon_imagination.metrics.published import Curve, published_curve
from horizon_imagination.metrics.statistics import smoothing_window
from horizon_imagination.report.curves import Chart, draw_chart, mean_line

RESULTS = Path(__file__).parents[1] / "docs" / "results"
GAMES = {
    "gopher": "ALE/Gopher-v5",
    "crazy-climber": "ALE/CrazyClimber-v5",
    "kung-fu-master": "ALE/KungFuMaster-v5",
}
SETTING = "hi-4-16"


def chart(env: str, episodes: list[tuple[int, float]]) -> Chart:
    """One run and the five published ones, as far as it has come."""
    steps, returns = (np.array(column) for column in zip(*episodes, strict=True))
    window, last = smoothing_window(len(steps)), int(steps[-1])
    past = []
    for curve in published_curve(env, SETTING).values():
        until = curve.steps <= last
        past.append(Curve(curve.steps[until], curve.returns[until]))
    published = replace(mean_line(past, "published, 5 seeds", PALETTE[0], window), style=":")
    ours = mean_line([Curve(steps, returns)], "here, seed 0", PALETTE[5], window)
    return Chart(env, [published, ours])


def main() -> None:
    """Draw one panel per game."""
    with (RESULTS / "atari-returns.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    figure = Figure(figsize=(11.6, 3.2), layout="constrained")
    for axes, (run, env) in zip(figure.subplots(1, len(GAMES)), GAMES.items(), strict=True):
        episodes = [(int(row["step"]), float(row["return"])) for row in rows if row["run"] == run]
        draw_chart(axes, chart(env, episodes))
    save_figure(figure, RESULTS / "atari-curves.png")


if __name__ == "__main__":
    main()
