"""The figures of a quality study: against the budget, against latency, and along the frames."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from horizon_imagination.figures import PALETTE, save_figure
from horizon_imagination.studies.quality.grid import SCHEDULES, GridPoint
from horizon_imagination.studies.quality.results import ResampledEstimate, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"horizon": "Horizon", "pyramidal": "Pyramidal", "full": "Full sequence"}
MARKERS = "osD^vPX*"
MEASURES = {"fvd": "FVD", "mse": "MSE (x 10⁻⁴)"}
UNITS = {"fvd": 1.0, "mse": 1e-4}
"""What one is on the axis of a measure."""
PLAIN = ((4.0, (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)), (40.0, (1, 1.5, 2, 3, 5, 7)), (np.inf, (1, 3)))
"""Numbers beside a logarithmic axis in every power of ten, by its end over its start."""


def measures_of(results: Results) -> list[str]:
    """FVD if features were extracted, and MSE."""
    return ["fvd", "mse"] if results.has_fvd else ["mse"]


def draw_figures(results: Results, folder: Path) -> list[Path]:
    """All figures, as PNG and SVG; returns the PNG files."""
    from matplotlib import rc_context

    written = []
    with rc_context({"svg.hashsalt": "quality", "font.size": 10}):
        figures = {
            "quality": against_budget(results, "truth"),
            "quality-reconstruction": against_budget(results, "reconstruction"),
            "pareto": against_latency(results, "truth"),
            "frames": by_frame(results, "truth"),
        }
        for name, figure in figures.items():
            for suffix in ("svg", "png"):
                save_figure(figure, folder / f"{name}.{suffix}")
            written.append(folder / f"{name}.png")
    return written


def against_budget(results: Results, reference: str) -> "Figure":
    """The paper's figure: one line per decay horizon, one column per kind of schedule."""
    from matplotlib.figure import Figure

    kinds = [kind for kind in SCHEDULES if results.points(kind)]
    measures = measures_of(results)
    size = (4.2 * len(kinds) + 0.6, 3.1 * len(measures) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(measures), len(kinds), squeeze=False, sharex=True, sharey="row")
    for row, measure in zip(grid, measures, strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            if kind != "horizon":
                _lines(axes, results, measure, "horizon", reference, faint=True)
            _lines(axes, results, measure, kind, reference)
            _baseline(axes, results, measure, reference)
            _budget_axis(axes, results)
            if measure == measures[0]:
                axes.set_title(TITLES[kind])
        row[0].set_ylabel(MEASURES[measure])
        if _spans_magnitudes(results, measure, reference):
            _logarithmic(row[0], "y")
    for axes in grid[-1]:
        axes.set_xlabel("budget (denoising steps)")
    handles = {label: h for row in grid for a in row for h, label in _labelled(a)}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False)
    whom = "the real frames" if reference == "truth" else "their reconstruction"
    figure.suptitle(
        f"{results.settings['env']}: {results.settings['segments']} videos of {results.horizon} "
        f"generated frames against {whom}"
    )
    return figure


def against_latency(results: Results, reference: str) -> "Figure":
    """Every schedule by what it costs; the line joins those that none beats in both."""
    from matplotlib.figure import Figure

    measures = measures_of(results)
    figure = Figure(figsize=(5.4 * len(measures) + 1.4, 4.4), layout="constrained")
    row = figure.subplots(1, len(measures), squeeze=False)[0]
    for axes, measure in zip(row, measures, strict=True):
        spots = []
        for name, colour, marker, points in _groups(results):
            x = [1e3 * results.lines[p]["latency"] for p in points]
            y = [_shown(results, p, measure, reference).value for p in points]
            axes.scatter(x, y, s=26, color=colour, marker=marker, label=name, zorder=3)
            spots += zip(x, y, points, strict=True)
        front = pareto([(x, y) for x, y, _ in spots])
        axes.plot(*zip(*front, strict=True), color="0.4", linewidth=1, zorder=1)
        for (x, y), above in {front[-1]: False, front[0]: True}.items():
            budget = next(point.budget for *spot, point in spots if (x, y) == tuple(spot))
            axes.annotate(
                f"budget {budget}", (x, y), (0, 7 if above else -7), textcoords="offset points",
                fontsize=9, ha="center", va="bottom" if above else "top",
            )  # fmt: skip
        axes.margins(0.1)
        _logarithmic(axes, "x")
        _logarithmic(axes, "y")
        axes.set(xlabel=_latency_label(results), ylabel=MEASURES[measure])
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.suptitle("Quality against latency; the line joins what nothing beats in both")
    return figure


def by_frame(results: Results, reference: str) -> "Figure":
    """How the error grows along the generated frames, at the smallest and the largest budget."""
    from matplotlib.figure import Figure

    points = results.points("horizon") or results.points("full") or results.points("pyramidal")
    budgets = sorted({point.budget for point in points})
    shown = list(dict.fromkeys([budgets[0], budgets[-1]]))
    figure = Figure(figsize=(4.6 * len(shown) + 1.4, 3.6), layout="constrained")
    row = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    frames = np.arange(1, results.horizon + 1)
    for axes, budget in zip(row, shown, strict=True):
        for name, colour, _, group in _groups(results):
            for point in group:
                if point.budget == budget:
                    errors = _in_units(results.lines[point][reference]["mse_by_frame"])
                    axes.plot(frames, errors, color=colour, label=name, linewidth=1.4)
        held = results.lines.get(GridPoint("frozen"))
        if held:
            axes.plot(
                frames, _in_units(held[reference]["mse_by_frame"]), color="0.6", linestyle=":",
                label="context held",
            )  # fmt: skip
        axes.set(title=f"budget {budget}", xlabel="generated frame")
        axes.spines[["top", "right"]].set_visible(False)
    row[0].set_ylabel(MEASURES["mse"])
    handles = {label: h for axes in row for h, label in _labelled(axes)}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False)
    return figure


def pareto(spots: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spots that no other beats in both coordinates, from left to right.

    >>> pareto([(1, 5), (2, 6), (3, 2), (4, 2)])
    [(1, 5), (3, 2)]
    """
    front: list[tuple[float, float]] = []
    for spot in sorted(spots):
        if not front or spot[1] < front[-1][1]:
            front.append(spot)
    return front


def _groups(results: Results) -> list[tuple[str, object, str, list[GridPoint]]]:
    """Name, colour, marker and points of every line."""
    from matplotlib import colormaps

    horizon = results.points("horizon")
    decays = sorted({point.decay_horizon for point in horizon})
    colours = colormaps["viridis"](np.linspace(0.0, 0.9, max(len(decays), 1)))
    groups: list[tuple[str, object, str, list[GridPoint]]] = [
        (f"decay {d:g}", colours[i], MARKERS[i % 8], [p for p in horizon if p.decay_horizon == d])
        for i, d in enumerate(decays)
    ]
    for kind, colour, marker in (("pyramidal", PALETTE[5], "X"), ("full", PALETTE[3], "*")):
        if results.points(kind):
            groups.append((TITLES[kind], colour, marker, results.points(kind)))
    return groups


def _lines(
    axes: "Axes", results: Results, measure: str, kind: str, reference: str, faint: bool = False
) -> None:
    outer = _outer(results)
    for name, colour, marker, points in _groups(results):
        if points[0].kind != kind:
            continue
        found = [_shown(results, point, measure, reference) for point in points]
        x, y = [point.budget for point in points], [f.value for f in found]
        if faint:
            axes.plot(x, y, color="0.85", linewidth=1, zorder=0)
            continue
        axes.plot(x, y, color=colour, marker=marker, markersize=5, linewidth=1.5, label=name)
        if found[0].resampled.size and points[0].decay_horizon in outer:
            _error_bars(axes, x, found, colour)


def _error_bars(axes: "Axes", x: list[int], found: list[ResampledEstimate], colour: Any) -> None:
    """Intervals, cut where a logarithmic axis would have to show nothing."""
    ends = [
        (max(i.low, i.estimate / 10), i.estimate, i.high) for i in (f.interval() for f in found)
    ]
    below = [max(middle - low, 0.0) for low, middle, _ in ends]
    above = [max(high - middle, 0.0) for _, middle, high in ends]
    middles = [middle for _, middle, _ in ends]
    axes.errorbar(
        x, middles, [below, above], fmt="none", ecolor=colour, elinewidth=1.2, capsize=3, alpha=0.6
    )


def _outer(results: Results) -> set[float]:
    """The smallest and the largest decay horizon: those of other lines lie between."""
    decays = [point.decay_horizon for point in results.points("horizon")]
    return {0.0, min(decays, default=0.0), max(decays, default=0.0)}


def _baseline(axes: "Axes", results: Results, measure: str, reference: str) -> None:
    """The level of the reconstruction, where it is not the reference itself."""
    point = GridPoint("reconstruction")
    if reference == "truth" and point in results.lines:
        level = _shown(results, point, measure, reference).value
        axes.axhline(level, color="0.5", linestyle=":", linewidth=1.2, label="reconstruction")


def _budget_axis(axes: "Axes", results: Results) -> None:
    budgets = sorted({p.budget for p in results.lines if p.budget})
    axes.set_xscale("log", base=2)
    axes.set_xticks(budgets, [str(budget) for budget in budgets])
    axes.minorticks_off()
    axes.axvline(
        results.horizon, color="0.35", linestyle="--", linewidth=1, zorder=0,
        label="one step a frame",
    )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)


def _spans_magnitudes(results: Results, measure: str, reference: str) -> bool:
    """Whether a straight axis would squeeze most lines into its lowest part."""
    points = [point for point in results.lines if point.budget]
    values = [_value(results, point, measure, reference).value for point in points]
    return min(values) > 0 and max(values) > 6 * min(values)


def _value(results: Results, point: GridPoint, measure: str, reference: str) -> ResampledEstimate:
    return (results.fvd if measure == "fvd" else results.mse)(point, reference)


def _shown(results: Results, point: GridPoint, measure: str, reference: str) -> ResampledEstimate:
    """A value in the unit of its axis."""
    return _value(results, point, measure, reference) * (1 / UNITS[measure])


def _in_units(errors: list[float]) -> list[float]:
    """Squared errors in the unit of their axis."""
    return [error / UNITS["mse"] for error in errors]


def _logarithmic(axes: "Axes", which: Literal["x", "y"]) -> None:
    """A logarithmic axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    subs = next(numbers for most, numbers in PLAIN if high / low < most)
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_locator(NullLocator())


def _labelled(axes: "Axes") -> list[tuple[Any, str]]:
    return list(zip(*axes.get_legend_handles_labels(), strict=True))


def _latency_label(results: Results) -> str:
    line = next(line for line in results.lines.values() if line["latency"])
    return f"ms to generate {line['batch']} videos ({results.settings['device']})"
