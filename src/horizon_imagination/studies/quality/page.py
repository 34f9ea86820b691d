"""The results of a quality study: a table, figures, and the paper's claims one by one."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from horizon_imagination.errors import UsageError
from horizon_imagination.figures import PALETTE, save_figure
from horizon_imagination.files import write_text
from horizon_imagination.metrics.i3d import MIN_FRAMES
from horizon_imagination.studies.quality.grid import BASELINES, REFERENCES, SCHEDULES, GridPoint
from horizon_imagination.studies.quality.records import finished, read_lines, write_merged
from horizon_imagination.studies.quality.results import (
    ResampledEstimate,
    Results,
    claims,
    resampled_distances,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write(
    folder: Path, study: str | None, resamples: int, say: Callable[[str], None]
) -> tuple[str, dict[str, Any]]:
    """Write table, figures and text of a study (the newest by default) into its folder.

    Returns the text and the numbers that matter most.
    """

    lines = read_lines(folder)
    if not lines:
        raise UsageError(f"{folder} holds no finished point of a quality study yet")
    chosen = study or str(lines[-1]["study"])
    found = finished(folder, chosen)
    if not any(point.budget for point in found):
        raise UsageError(f"{folder} holds no finished schedule of study {chosen} yet")
    distances = resampled_distances(folder, found, resamples, say)
    results = Results(found, distances, resamples)
    write_merged(folder, results.lines.values())
    write_text(folder / "quality.csv", table(results))
    text = describe(results)
    write_text(folder / "quality.txt", text)
    draw_figures(results, folder)
    return text, summary(results)


def describe(results: Results) -> str:
    """What was measured, the baselines, the best points, and the claims for both references."""
    settings = results.settings
    head = [
        f"Generation quality: {settings['env']}, {settings['segments']} segments of "
        f"{settings['context']} context and {results.horizon} generated frames, recorded actions, "
        f"the same contexts and noise for all {len(results.lines)} points.",
        f"Batch {settings['batch']} on {settings['device']}, precision {settings['precision']}, "
        f"engine {settings['engine']}, weights {settings['weights']}, data {settings['data']}.",
    ]
    if not results.has_fvd:
        head.append("No features were extracted: MSE only, and claims about FVD are not judged.")
    elif results.horizon < MIN_FRAMES and settings["features"].startswith("i3d"):
        head.append(
            f"I3D needs {MIN_FRAMES} frames: the last of {results.horizon} is held, in both sets. "
            "Compare these distances only with such."
        )
    broken = [f"{p.name} ({x['broken']})" for p, x in results.lines.items() if x["broken"]]
    if broken:
        head.append(f"Videos with numbers that are not finite: {', '.join(broken)}.")
    for reference in REFERENCES:
        against = "the real frames" if reference == "truth" else "their reconstruction"
        head += ["", f"Against {against}", *_levels(results, reference)]
        for claim in claims(results, reference):
            head += [f'  "{claim.text}": {claim.verdict}.', *(f"    {n}" for n in claim.numbers)]
    return "\n".join(head) + "\n"


def summary(results: Results) -> dict[str, Any]:
    """The machine-readable last line of the command: verdicts and best points."""
    best = {
        reference: {
            measure: best_point(results, measure, reference).name for measure in _measures(results)
        }
        for reference in REFERENCES
    }
    verdicts = {
        reference: {c.text: c.verdict for c in claims(results, reference)}
        for reference in REFERENCES
    }
    return {"points": len(results.lines), "best": best, "verdicts": verdicts}


def best_point(results: Results, measure: str, reference: str) -> GridPoint:
    """The schedule with the smallest distance or error."""
    points = [point for point in results.lines if point.kind not in BASELINES]
    return min(points, key=lambda point: getattr(results, measure)(point, reference).value)


def table(results: Results) -> str:
    """One row per point, as CSV."""
    rows = [row(results, point) for point in sorted(results.lines)]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def row(results: Results, point: GridPoint) -> dict[str, Any]:
    """The numbers of a point, intervals included."""
    line = results.lines[point]
    names = ("latency", "batch", "frame_evaluations", "frame_evaluations_plain", "broken")
    cells: dict[str, Any] = {**point._asdict(), **{name: line[name] for name in names}}
    for reference in REFERENCES:
        for measure in _measures(results):
            interval = getattr(results, measure)(point, reference).interval()
            name = f"{reference}_{measure}"
            cells |= {name: interval.estimate, f"{name}_low": interval.low}
            cells |= {f"{name}_high": interval.high}
        if results.has_fvd:
            cells[f"{reference}_fvd_extrapolated"] = results.extrapolated(point, reference)
        for name in ("psnr", "ssim", "lpips"):
            cells[f"{reference}_{name}"] = line[reference][name]
    return cells


def _levels(results: Results, reference: str) -> list[str]:
    """Baselines and best points."""
    named = {
        "reconstruction": GridPoint("reconstruction"),
        "context frame held": GridPoint("frozen"),
        **{f"best by {m.upper()}": best_point(results, m, reference) for m in _measures(results)},
    }
    lines = []
    for name, point in named.items():
        if point not in results.lines or (point.kind == reference):
            continue
        mse = results.mse(point, reference)
        fvd = f"FVD {_interval(results.fvd(point, reference))}, " if results.has_fvd else ""
        which = f" ({point.name})" if point.budget else ""
        lines.append(f"  {name}{which}: {fvd}MSE {_interval(mse)}")
    return lines


def _measures(results: Results) -> list[str]:
    return ["fvd", "mse"] if results.has_fvd else ["mse"]


def _interval(estimate: ResampledEstimate) -> str:
    found = estimate.interval()
    if found.low == found.high:
        return f"{found.estimate:.4g}"
    return f"{found.estimate:.4g} [{max(found.low, 0):.4g}, {found.high:.4g}]"


TITLES = {"horizon": "Horizon", "pyramidal": "Pyramidal", "full": "Full sequence"}
MARKERS = "osD^vPX*"
MEASURES = {"fvd": "FVD", "mse": "MSE"}


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
    measures = _measures(results)
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
            row[0].set_yscale("log")
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

    measures = _measures(results)
    figure = Figure(figsize=(5.4 * len(measures) + 1.4, 4.4), layout="constrained")
    row = figure.subplots(1, len(measures), squeeze=False)[0]
    for axes, measure in zip(row, measures, strict=True):
        spots = []
        for name, colour, marker, points in _groups(results):
            x = [1e3 * results.lines[p]["latency"] for p in points]
            y = [_value(results, p, measure, reference).value for p in points]
            axes.scatter(x, y, s=26, color=colour, marker=marker, label=name, zorder=3)
            spots += zip(x, y, points, strict=True)
        front = pareto([(x, y) for x, y, _ in spots])
        axes.plot(*zip(*front, strict=True), color="0.4", linewidth=1, zorder=1)
        for x, y, point in spots:
            if (x, y) in front:
                axes.annotate(
                    f"B {point.budget}", (x, y), (3, -9), textcoords="offset points", fontsize=7
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
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
                    errors = results.lines[point][reference]["mse_by_frame"]
                    axes.plot(frames, errors, color=colour, label=name, linewidth=1.4)
        held = results.lines.get(GridPoint("frozen"))
        if held:
            axes.plot(
                frames, held[reference]["mse_by_frame"], color="0.6", linestyle=":",
                label="context held",
            )  # fmt: skip
        axes.set(title=f"budget {budget}", xlabel="generated frame")
        axes.spines[["top", "right"]].set_visible(False)
    row[0].set_ylabel("MSE")
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
    for name, colour, marker, points in _groups(results):
        if points[0].kind != kind:
            continue
        found = [_value(results, point, measure, reference) for point in points]
        x, y = [point.budget for point in points], [f.value for f in found]
        if faint:
            axes.plot(x, y, color="0.85", linewidth=1, zorder=0)
            continue
        axes.plot(x, y, color=colour, marker=marker, markersize=5, linewidth=1.5, label=name)
        if found[0].resampled.size:
            intervals = [f.interval() for f in found]
            axes.fill_between(
                x, [max(i.low, i.estimate / 10) for i in intervals],
                [i.high for i in intervals], color=colour,
                alpha=0.12, linewidth=0,
            )  # fmt: skip


def _baseline(axes: "Axes", results: Results, measure: str, reference: str) -> None:
    """The level of the reconstruction, where it is not the reference itself."""
    point = GridPoint("reconstruction")
    if reference == "truth" and point in results.lines:
        level = _value(results, point, measure, reference).value
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


def _labelled(axes: "Axes") -> list[tuple[Any, str]]:
    return list(zip(*axes.get_legend_handles_labels(), strict=True))


def _latency_label(results: Results) -> str:
    line = next(line for line in results.lines.values() if line["latency"])
    return f"ms to generate {line['batch']} videos ({results.settings['device']})"
