"""Small charts as SVG, in the text colour of the page they stand in."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from horizon_imagination.errors import UsageError
from horizon_imagination.figures import INK, PALETTE, PAPER, style_axes
from horizon_imagination.metrics.published import Curve
from horizon_imagination.metrics.statistics import moving_average
from horizon_imagination.report.levels import draw_levels, name_levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TEXT = 9.5
"""Size of all letters, in points: 12 pixels or more in a column of a page."""
POINTS = 200
"""Points of a mean over seeds."""
RAW = 0.5
"""Opacity of the values below a moving average, which can be seen on white and on a dark page."""


@dataclass(frozen=True)
class Line:
    """One curve of a chart."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    colour: str = PALETTE[0]
    smooth: int = 1
    """Window of the moving average; above 1 the raw curve stays visible, thin."""
    marker: str = ""
    style: Literal["-", ":"] = "-"
    deviation: NDArray[np.float64] | None = None
    """Half the height of a band around the curve."""

    @property
    def smoothed(self) -> bool:
        """Whether it is drawn as a moving average."""
        return self.smooth > 1 and len(self.y) > self.smooth


@dataclass(frozen=True)
class Chart:
    """Curves over a common axis."""

    title: str
    lines: list[Line]
    x_label: str = "environment steps"
    y_label: str = ""
    logarithmic: bool = False
    levels: dict[str, float] = field(default_factory=dict)
    """Named horizontal lines."""
    legend: bool = True
    """Name the curves in the chart."""
    limits: tuple[float | None, float | None] = (None, None)
    """Where the vertical axis begins and ends; None where the curves decide."""
    span: tuple[float, float] | None = None
    """What the horizontal axis shows; None: what the curves need."""

    @property
    def drawable(self) -> bool:
        """Whether there is anything to draw yet."""
        return any(len(line.x) for line in self.lines)

    @property
    def named(self) -> list[Line]:
        """The curves that a legend names."""
        return [line for line in self.lines if line.label and len(line.x)] if self.legend else []

    @property
    def flat(self) -> bool:
        """Whether no curve has ever changed, so that a few words say as much."""
        values = [line.y for line in self.lines if len(line.y)]
        return not self.levels and all(len(y) > 1 and np.ptp(y) == 0 for y in values)


def over_one_span(charts: Sequence[Chart]) -> list[Chart]:
    """The same charts over a common horizontal axis, so that what is below one another was then."""
    drawn = [line.x for chart in charts for line in chart.lines if len(line.x)]
    if not drawn:
        return list(charts)
    first, last = min(float(x.min()) for x in drawn), max(float(x.max()) for x in drawn)
    return [replace(chart, span=(first, last)) for chart in charts]


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
    """The chart as a matplotlib figure without title and legend: the page writes them above it."""
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
    curves = list(axes.lines)
    if chart.levels:
        axes.margins(y=0.12)  # room for a name below the lowest curve
        draw_levels(axes, chart.levels)
    if chart.logarithmic and any((line.y > 0).any() for line in chart.lines if len(line.y)):
        _logarithmic(axes)
    if chart.span and chart.span[0] < chart.span[1]:
        margin = 0.03 * (chart.span[1] - chart.span[0])
        axes.set_xlim(chart.span[0] - margin, chart.span[1] + margin)
    if titled:
        axes.set_title(chart.title, fontsize=TEXT + 1, loc="left", color=INK, fontweight="bold")
    axes.set_xlabel(chart.x_label, fontsize=TEXT, color=INK)
    axes.set_ylabel(chart.y_label, fontsize=TEXT, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if not chart.logarithmic:
        axes.yaxis.set_major_formatter(tick)
    axes.tick_params(labelsize=TEXT)
    style_axes(axes)
    _limit(axes, chart.limits)
    name_levels(axes, chart.levels, curves, TEXT)
    if titled and chart.named:
        axes.legend(fontsize=TEXT, frameon=False, labelcolor=INK, loc="best", handlelength=1.2)


def legend_below(figure: "Figure", charts: Sequence[Chart], columns: int) -> None:
    """Name the curves of several charts below them, each once."""
    from matplotlib.lines import Line2D

    named = {line.label: line for chart in charts for line in chart.lines if len(line.x)}
    handles = [Line2D([], [], color=n.colour, linestyle=n.style, label=k) for k, n in named.items()]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=TEXT,
        labelcolor=INK,
    )  # fmt: skip


def _draw_line(axes: "Axes", line: Line) -> None:
    if len(line.x) == 0:
        return
    y = line.y
    if line.smoothed:
        axes.plot(line.x, y, color=line.colour, alpha=RAW, linewidth=0.9)
        y = moving_average(y, line.smooth)
    axes.plot(
        line.x, y, line.style, color=line.colour, label=line.label, linewidth=1.6,
        marker=line.marker or ("o" if len(y) == 1 else None), markersize=4,
    )  # fmt: skip
    if line.deviation is not None:
        low, high = y - line.deviation, y + line.deviation
        axes.fill_between(line.x, low, high, color=line.colour, alpha=0.16, linewidth=0)


def _limit(axes: "Axes", limits: tuple[float | None, float | None]) -> None:
    """Let the axis end where it is told, with room for a curve that lies on its end."""
    if limits == (None, None):
        return
    drawn = axes.get_ylim()
    low, high = (end if told is None else told for told, end in zip(limits, drawn, strict=True))
    room = 0.03 * (high - low)
    axes.set_ylim(low - room, high + room)


def tick(value: float, _: object = None) -> str:
    """A number beside an axis.

    >>> tick(0.25), tick(-2.0), tick(12_500)
    ('0.25', '-2', '12.5k')
    """
    return f"{value / 1000:.6g}k" if abs(value) >= 1000 else f"{value:.6g}"


def _logarithmic(axes: "Axes") -> None:
    """A scale with plain labels; between powers of ten only where there are too few of these."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    subs = (1.0,) if high / low > 100 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=5))
    axes.yaxis.set_major_formatter(tick)
    axes.yaxis.set_minor_formatter(NullFormatter())


def as_svg(drawn: "Figure") -> str:
    """The figure as SVG for a page: no background, and the page's own ink and paper."""
    from matplotlib import rc_context

    file = io.StringIO()
    # A fixed salt makes the same chart the same text.
    with rc_context({"svg.hashsalt": "horizon", "svg.fonttype": "none"}):
        drawn.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    return text.replace(PAPER, "var(--card)")
