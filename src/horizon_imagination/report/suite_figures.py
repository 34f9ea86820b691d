"""The paper's comparison figures: mean and deviation over seeds, ours over the published."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from horizon_imagination.envs.make import EMBEDDED
from horizon_imagination.metrics.atari_scores import ATARI_SCORES
from horizon_imagination.metrics.statistics import (
    atari_name,
    moving_average,
    smoothing_window,
)
from horizon_imagination.report.curves import PALETTE, Chart, Line, draw_chart
from horizon_imagination.report.suite import Suite, SuiteRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 200


def suite_charts(suite: Suite, reference: Suite | None = None) -> list[Chart]:
    """A chart per world; the published runs of the same settings are dotted below ours."""
    colours = colours_of(suite)
    charts = []
    for env in suite.envs():
        lines = []
        for config in suite.configs(env):
            own = suite.of(env, config)
            theirs = reference.of(env, config) if reference else []
            reached = max((run.steps for run in own), default=0)
            window = smoothing_window(max((len(run.curve.steps) for run in own), default=0))
            if theirs:
                past = [run.until(reached) for run in theirs]
                label = f"{config}, published"
                published = mean_line(past, label, colours[config], window)
                lines.append(_dotted(published, band=len(own) < 2))
            lines.append(mean_line(own, config, colours[config], window))
        charts.append(Chart(env, lines, levels=levels_of(env), legend=False))
    return charts


def colours_of(suite: Suite) -> dict[str, str]:
    """The colour of every setting."""
    return {config: PALETTE[i % len(PALETTE)] for i, config in enumerate(suite.configs())}


def mean_line(runs: list[SuiteRun], label: str, colour: str, window: int) -> Line:
    """Mean and deviation over the seeds that have come as far, each smoothed first."""
    curves = [run.curve for run in runs if len(run.curve.steps)]
    if not curves:
        return Line(label, np.zeros(0), np.zeros(0), colour)
    first = max(int(curve.steps[0]) for curve in curves)
    last = max(int(curve.steps[-1]) for curve in curves)
    x = np.linspace(first, last, POINTS)
    rows = []
    for curve in curves:
        y = np.interp(x, curve.steps, moving_average(curve.returns, window))
        # A seed keeps its say for one more episode, then has none: means must not jump because
        # one seed's last episode ended a little later than another's.
        longest = np.diff(curve.steps).max(initial=0)
        rows.append(np.where(x <= curve.steps[-1] + longest, y, np.nan))
    seen = np.array(rows)
    kept = ~np.isnan(seen).all(axis=0)
    seen, x = seen[:, kept], x[kept]
    return Line(label, x, np.nanmean(seen, 0), colour, deviation=np.nanstd(seen, 0))


def levels_of(env: str) -> dict[str, float]:
    """Human level in Atari, the best return in embedded worlds."""
    if env in EMBEDDED:
        return {"best": EMBEDDED[env][0].BEST_RETURN}
    scores = ATARI_SCORES.get(atari_name(env))
    return {"human": scores[1]} if scores else {}


def suite_figure(charts: list[Chart]) -> "Figure":
    """All charts as one figure, as the paper prints them."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    columns = min(4, len(charts))
    lines = math.ceil(len(charts) / columns)
    figure = Figure(figsize=(4.1 * columns, 2.9 * lines), layout="constrained")
    grid = np.atleast_1d(figure.subplots(lines, columns, squeeze=False)).ravel()
    for axes, chart in zip(grid, charts, strict=False):
        draw_chart(axes, chart)
    for axes in grid[len(charts) :]:
        axes.set_axis_off()
    named = {line.label: line for chart in charts for line in chart.lines if len(line.x)}
    handles = [Line2D([], [], color=n.colour, linestyle=n.style, label=k) for k, n in named.items()]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=2 * columns, frameon=False, fontsize=9
    )
    return figure


def _dotted(line: Line, *, band: bool) -> Line:
    """Its band stays only where ours has none: the second would hide the first."""
    return replace(line, style=":", deviation=line.deviation if band else None)
