"""Imagination's time against horizon, budget, decay horizon and batch, as one figure."""

from pathlib import Path
from typing import TYPE_CHECKING

from horizon_imagination.bench.document import Document
from horizon_imagination.bench.plan import SWEEPS
from horizon_imagination.bench.sheets import fitted_ms
from horizon_imagination.figures import INK, PALETTE, save_figure, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "horizon": "Horizon (budget in proportion)",
    "budget": "Budget",
    "decay_horizon": "Decay horizon",
    "batch": "Batch",
}


def draw_figure(document: Document, path: Path) -> None:
    """Four panels, both axes logarithmic; frames evaluated as a dashed line through one point."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    for axes, sweep in zip(figure.subplots(2, 2).flat, SWEEPS, strict=True):
        _panel(axes, document, sweep)
    growth = document["growth"]
    figure.suptitle(
        f"Imagination with policy: {document['preset']}, {document['machine']}, {growth['mode']}",
        fontsize=11, color=INK,
    )  # fmt: skip
    save_figure(figure, path)


def _panel(axes: "Axes", document: Document, sweep: str) -> None:
    from matplotlib.ticker import LogLocator

    growth = document["growth"]
    points = sorted((x for x in growth["points"] if sweep in x["sweeps"]), key=lambda x: x[sweep])
    if not points:
        axes.set_visible(False)
        return
    place = [x[sweep] for x in points]
    middle = len(points) // 2
    price = points[middle]["ms"] / points[middle]["frames"]
    axes.plot(place, [x["ms"] for x in points], "o-", color=PALETTE[0], label="measured")
    axes.plot(
        place, [price * x["frames"] for x in points],
        "--", color=PALETTE[1], label="in proportion to frames evaluated",
    )  # fmt: skip
    fit = growth.get("fit")
    if sweep == "horizon" and fit:
        fitted = [fitted_ms(fit, x) for x in points]
        label = f"fit of frames and pairs (slope of the time {fit['slope']:.2f})"
        axes.plot(place, fitted, ":", color=PALETTE[2], label=label, linewidth=2)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(place, [f"{x:g}" for x in place])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.3, high * 1.3)  # so that a flat panel has a labelled tick, too
    axes.minorticks_off()
    axes.set_title(TITLES[sweep], fontsize=10.5, loc="left", color=INK, fontweight="bold")
    axes.set_ylabel("milliseconds", fontsize=8.5, color=INK)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.tick_params(labelsize=8)
    style_axes(axes)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)
