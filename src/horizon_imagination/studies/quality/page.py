"""The results of a quality study: a table and the paper's claims one by one, beside its figures."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from horizon_imagination.errors import UsageError
from horizon_imagination.files import write_text
from horizon_imagination.metrics.i3d import MIN_FRAMES
from horizon_imagination.studies.quality.drawing import draw_figures, measures_of
from horizon_imagination.studies.quality.grid import BASELINES, REFERENCES, GridPoint
from horizon_imagination.studies.quality.records import finished, read_lines, write_merged
from horizon_imagination.studies.quality.results import (
    ResampledEstimate,
    Results,
    claims,
    resampled_distances,
)


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
            measure: best_point(results, measure, reference).name
            for measure in measures_of(results)
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
        for measure in measures_of(results):
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
        **{f"best by {m.upper()}": best_point(results, m, reference) for m in measures_of(results)},
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


def _interval(estimate: ResampledEstimate) -> str:
    found = estimate.interval()
    if found.low == found.high:
        return f"{found.estimate:.4g}"
    return f"{found.estimate:.4g} [{max(found.low, 0):.4g}, {found.high:.4g}]"
