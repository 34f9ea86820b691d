"""Small charts as SVG that takes on the colours of the page it stands in."""

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from horizon_imagination.errors import UsageError
from horizon_imagination.metrics.statistics import moving_average

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#2a78c8", "#d9770c", "#12936a", "#b0559a", "#8a6d3b", "#c9403a", "#5b6fd6", "#4f8f8b")
INK = "#123457"
"""Stands for the page's own text colour, see `as_svg`."""


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


def figure(chart: Chart, size: tuple[float, float] = (4.6, 2.9)) -> "Figure":
    """The chart as a matplotlib figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("reports need matplotlib; install it: pip install matplotlib") from error
    drawn = Figure(figsize=size, layout="constrained")
    axes = drawn.subplots()
    draw_chart(axes, chart)
    return drawn


def draw_chart(axes: "Axes", chart: Chart) -> None:
    """Draw into axes of any figure."""
    from matplotlib.ticker import EngFormatter

    for line in chart.lines:
        if len(line.x) == 0:
            continue
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
    for name, level in chart.levels.items():
        axes.axhline(level, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), alpha=0.6)
        axes.annotate(
            name, (1, level), xycoords=("axes fraction", "data"), ha="right", va="bottom",
            fontsize=8, color=INK, alpha=0.75,
        )  # fmt: skip
    if chart.logarithmic and any((line.y > 0).any() for line in chart.lines if len(line.y)):
        axes.set_yscale("log")
    axes.set_title(chart.title, fontsize=10.5, loc="left", color=INK, fontweight="bold")
    axes.set_xlabel(chart.x_label, fontsize=8.5, color=INK)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(labelsize=8, colors=INK, length=3, which="both")
    axes.grid(alpha=0.18, color=INK, linewidth=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
    named = [line for line in chart.lines if line.label and len(line.x)]
    if named and chart.legend:
        axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="best")


def as_svg(drawn: "Figure") -> str:
    """The figure as SVG for a page: no background, and the page's own ink."""
    from matplotlib import rc_context

    file = io.StringIO()
    # A fixed salt makes the same chart the same text.
    with rc_context({"svg.hashsalt": "horizon", "svg.fonttype": "none"}):
        drawn.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def write_figure(drawn: "Figure", path: Path) -> None:
    """Write the figure in the format of its name, on white, at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.stem}.tmp{path.suffix}")
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    drawn.savefig(draft, format=path.suffix[1:], dpi=140, metadata=metadata)
    os.replace(draft, path)
