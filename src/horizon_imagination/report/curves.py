"""Small charts as SVG, in the text colour of the page they stand in."""

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from horizon_imagination.errors import UsageError
from horizon_imagination.figures import INK, PALETTE, style_axes
from horizon_imagination.metrics.published import Curve
from horizon_imagination.metrics.statistics import moving_average

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TEXT = 9.5
"""Size of all letters, in points: 12 pixels or more in a column of a page."""
POINTS = 200
"""Points of a mean over seeds."""


@dataclass(frozen=True)
class Line:
    """One curve of a chart."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    colour: str = PALETTE[0]
    smooth: int = 1
    """Window of the moving average; above 1 the raw curve stays visible, pale."""
    marker: str = ""
    style: Literal["-", ":"] = "-"
    deviation: NDArray[np.float64] | None = None
    """Half the height of a band around the curve."""


@dataclass(frozen=True)
class Chart:
    """Curves over a common axis."""

    title: str
    lines: list[Line]
    x_label: str = "environment steps"
    logarithmic: bool = False
    levels: dict[str, float] = field(default_factory=dict)
    """Named horizontal lines."""
    legend: bool = True
    """Name the curves in the chart."""

    @property
    def drawable(self) -> bool:
        """Whether there is anything to draw yet."""
        return any(len(line.x) for line in self.lines)


def mean_line(runs: list[Curve], label: str, colour: str, window: int) -> Line:
    """Mean and sample deviation over the seeds that have come as far, each smoothed first."""
    curves = [run for run in runs if len(run.steps)]
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
    several = (~np.isnan(seen)).sum(axis=0) > 1
    if not several.any():
        return Line(label, x, np.nanmean(seen, 0), colour)
    deviation = np.zeros(len(x))
    deviation[several] = np.nanstd(seen[:, several], 0, ddof=1)
    return Line(label, x, np.nanmean(seen, 0), colour, deviation=deviation)


def figure(chart: Chart, size: tuple[float, float] = (3.4, 2.2)) -> "Figure":
    """The chart as a matplotlib figure without its title, which the page writes above it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("reports need matplotlib; install it: pip install matplotlib") from error
    drawn = Figure(figsize=size, layout="constrained")
    axes = drawn.subplots()
    draw_chart(axes, chart, titled=False)
    return drawn


def draw_chart(axes: "Axes", chart: Chart, *, titled: bool = True) -> None:
    """Draw into axes of any figure."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    for line in chart.lines:
        _draw_line(axes, line)
    for name, level in chart.levels.items():
        axes.axhline(level, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), alpha=0.6)
        axes.annotate(
            name, (1, level), xycoords=("axes fraction", "data"), ha="right", va="bottom",
            fontsize=TEXT, color=INK, alpha=0.75,
        )  # fmt: skip
    if chart.logarithmic and any((line.y > 0).any() for line in chart.lines if len(line.y)):
        _logarithmic(axes)
    if titled:
        axes.set_title(chart.title, fontsize=TEXT + 1, loc="left", color=INK, fontweight="bold")
    axes.set_xlabel(chart.x_label, fontsize=TEXT, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(labelsize=TEXT)
    style_axes(axes)
    named = [line for line in chart.lines if line.label and len(line.x)]
    if named and chart.legend:
        axes.legend(fontsize=TEXT, frameon=False, labelcolor=INK, loc="best", handlelength=1.2)


def _draw_line(axes: "Axes", line: Line) -> None:
    if len(line.x) == 0:
        return
    y = line.y
    if line.smooth > 1 and len(y) > line.smooth:
        axes.plot(line.x, y, color=line.colour, alpha=0.22, linewidth=0.8)
        y = moving_average(y, line.smooth)
    axes.plot(
        line.x, y, line.style, color=line.colour, label=line.label, linewidth=1.6,
        marker=line.marker or ("o" if len(y) == 1 else None), markersize=4,
    )  # fmt: skip
    if line.deviation is not None:
        low, high = y - line.deviation, y + line.deviation
        axes.fill_between(line.x, low, high, color=line.colour, alpha=0.16, linewidth=0)


def _logarithmic(axes: "Axes") -> None:
    """A scale with plain labels; between powers of ten only where there are too few of these."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    subs = (1.0,) if high / low > 100 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=5))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def as_svg(drawn: "Figure") -> str:
    """The figure as SVG for a page: no background, and the page's own ink."""
    from matplotlib import rc_context

    file = io.StringIO()
    # A fixed salt makes the same chart the same text.
    with rc_context({"svg.hashsalt": "horizon", "svg.fonttype": "none"}):
        drawn.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")
