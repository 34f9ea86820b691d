"""The results of the action study: records, a table, a figure, the paper's claims."""

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horizon_imagination.figures import PALETTE, save_figure
from horizon_imagination.files import write_jsonl, write_text
from horizon_imagination.provenance import provenance
from horizon_imagination.studies.actions import (
    DIMENSIONS,
    ENTROPIES,
    SAMPLERS,
    ActionStudy,
    ChangeCounts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write(study: ActionStudy, results: list[ChangeCounts], folder: Path) -> str:
    """Write every output into the folder; returns the text."""
    text = compare(study, results)
    header = {"study": "actions", **provenance(), "settings": asdict(study)}
    write_jsonl(folder / "actions.jsonl", [header, *map(record, results)])
    write_text(folder / "actions.csv", table(results))
    write_text(folder / "actions.txt", text)
    draw_figure(results, folder)
    return text


def means(results: list[ChangeCounts]) -> dict[str, Any]:
    """The means alone: the machine-readable last line of the command."""
    ratio = {
        str(r.setting["num_actions"]): round(r.mean, 6) for r in results if r.experiment == "ratio"
    }
    changes: dict[str, dict[str, float]] = {}
    for result in results:
        if result.experiment == "changes":
            group = changes.setdefault(str(result.setting["entropy"]), {})
            group[str(result.setting["sampler"])] = round(result.mean, 6)
    return {"ratio": ratio, "changes": changes} | _movement_means(results)


def _movement_means(results: list[ChangeCounts]) -> dict[str, Any]:
    """The same of continuous actions, by measure, dimension and sampler."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for result in results:
        if "dimension" in result.setting:
            group = found.setdefault(result.experiment.replace(" ", "_"), {})
            by_sampler = group.setdefault(str(result.setting["dimension"]), {})
            by_sampler[str(result.setting["sampler"])] = round(result.mean, 6)
    return found


def record(result: ChangeCounts) -> dict[str, Any]:
    """One result with the values of all pairs, as plain data."""
    values = [round(value, 6) for value in result.values.tolist()]
    return {**statistics(result), "values": values}


def statistics(result: ChangeCounts) -> dict[str, Any]:
    """Summary statistics of one result."""
    return {
        "experiment": result.experiment,
        **result.setting,
        "pairs": len(result.values),
        "mean": result.mean,
        "deviation": result.values.std().item() if len(result.values) > 1 else 0.0,
        "minimum": result.values.min().item(),
        "maximum": result.values.max().item(),
        "standard_error": result.standard_error,
    }


def table(results: list[ChangeCounts]) -> str:
    """The statistics as CSV."""
    rows = [statistics(result) for result in results]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def compare(study: ActionStudy, results: list[ChangeCounts]) -> str:
    """The paper's four claims in its words, and how far each holds here."""
    how = f"{study.monte_carlo} dice" if study.monte_carlo else f"up to {study.orders} orders"
    head = (
        f"Action study: {study.pairs} pairs per number of actions, {study.path_pairs} per "
        f"entropy, {how} per pair."
    )
    changes = [r for r in results if r.experiment == "changes"]
    lines = [head, *_on_the_bound([r for r in results if r.experiment == "ratio"])]
    lines += [*_on_changes(changes), *_on_entropy(changes), *_on_movement(results)]
    return "\n".join(lines) + "\n"


def _on_the_bound(ratio: list[ChangeCounts]) -> list[str]:
    farthest = max(result.mean for result in ratio) - 1
    holds = "holds" if farthest < 0.05 else f"holds only to within {farthest:.0%}"
    by_size = ", ".join(f"{r.setting['num_actions']}: {r.mean:.3f}" for r in ratio)
    largest = max(float(result.values.max()) for result in ratio)
    return [
        "",
        f'"very close to the tight theoretical lower bound": {holds}.',
        f"  Mean P(change) in total variations, by number of actions: {by_size}.",
        f"  Only two actions reach the bound; the farthest pair stands at {largest:.2f}.",
    ]


def _on_changes(changes: list[ChangeCounts]) -> list[str]:
    stable = [r for r in changes if r.setting["sampler"] == "stable"]
    worst = max(stable, key=lambda result: result.mean)
    error = statistics(worst)["deviation"] / len(worst.values) ** 0.5
    verdict = "holds"
    if worst.mean > 1:
        close = worst.mean <= 1.05
        verdict = f"holds to within {worst.mean - 1:.1%}" if close else "does not hold"
    naive = {r.setting["entropy"]: r.mean / 15 for r in changes if r.setting["sampler"] == "naive"}
    half = "holds" if min(naive.values()) > 0.5 else "does not hold"
    shares = ", ".join(f"{entropy} {share:.0%}" for entropy, share in naive.items())
    return [
        f'"at most one action change on average across all 16 steps": {verdict}.',
        f"  The largest mean is {worst.mean:.3f} (standard error over pairs {error:.3f}), "
        f"at {worst.setting['entropy']} entropy.",
        f'"changes in most steps, altering more than half overall": {half}.',
        f"  Naive sampling changes the action in this share of the 15 transitions: {shares}.",
    ]


def _on_entropy(changes: list[ChangeCounts]) -> list[str]:
    found = means(changes)["changes"]
    low, middle, high = (found[entropy] for entropy in ENTROPIES)
    falls = low["stable"] > middle["stable"] > high["stable"]
    rises = low["naive"] < middle["naive"] < high["naive"]
    excess = [f"{g['stable'] / g['coupled'] - 1:.0%} ({name})" for name, g in found.items()]
    numbers = [f"{n}: stable {g['stable']:.2f}, naive {g['naive']:.2f}" for n, g in found.items()]
    return [
        '"for high-entropy distributions, the number decreases under our method but increases '
        f'with naive sampling": {"holds" if falls and rises else "does not hold"}.',
        f"  {'; '.join(numbers)}.",
        "Beyond the paper: the maximal coupling changes as rarely as any scheme can; the stable "
        f"one changes more often by {', '.join(excess)}.",
    ]


def _on_movement(results: list[ChangeCounts]) -> list[str]:
    found = _movement_means(results)
    if not found:
        return []
    lines = ["Continuous actions (the paper's appendix), along the same path of 16 steps:"]
    for dimension, squared in found["squared_movement"].items():
        length = found["length"][dimension]
        lines.append(
            f"  {dimension} dimensions: expected squared movement {squared['stable']:.2f} with "
            "fixed noise, which no coupling can undercut, and "
            f"{squared['naive']:.2f} with fresh noise; way after the tanh {length['stable']:.2f} "
            f"and {length['naive']:.2f}."
        )
    return lines


def draw_figure(results: list[ChangeCounts], folder: Path) -> None:
    """The figure as PNG and SVG."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "actions", "font.size": 10, "axes.titlesize": 11}):
        figure = action_figure(results)
        for suffix in ("png", "svg"):
            save_figure(figure, folder / f"actions.{suffix}")


def action_figure(results: list[ChangeCounts]) -> "Figure":
    """Both panels of the paper's figure and one of continuous actions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.5, 4.2), layout="constrained")
    left, right, last = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 1))
    _violins(left, [r for r in results if r.experiment == "ratio"])
    _points(right, [r for r in results if r.experiment == "changes"], list(ENTROPIES))
    _bars(last, _movement_means(results))
    return figure


def _violins(axes: "Axes", results: list[ChangeCounts]) -> None:
    places = list(range(len(results)))
    values = [result.values.numpy().round(9) for result in results]
    parts: Any = axes.violinplot(values, places, widths=0.55, showmeans=True)
    for body in parts["bodies"]:
        body.set(facecolor=PALETTE[0], alpha=0.35)
    for name, colour in [("cmeans", PALETTE[5]), ("cmins", "0.3"), ("cmaxes", "0.3")]:
        parts[name].set(color=colour, linewidth=1.6)
    parts["cbars"].set(color="0.3", linewidth=0.8)
    for place, result in zip(places, results, strict=True):
        axes.annotate(
            f"{result.mean:.2f}", (place + 0.3, result.mean), (0, 2), textcoords="offset points",
            color=PALETTE[5], fontweight="bold", fontsize=9, ha="left",
        )  # fmt: skip
    axes.axhline(1, color="0.5", linestyle="--", linewidth=1, zorder=0)
    axes.set_xticks(places, [str(result.setting["num_actions"]) for result in results])
    axes.set_xlim(-0.5, len(results) - 0.3)
    axes.set(
        xlabel="number of actions",
        ylabel="P(change) / total variation",
        title="Stable sampling: how close to the bound\n(min, mean, max over pairs; dashed: bound)",
    )
    axes.spines[["top", "right"]].set_visible(False)


def _points(axes: "Axes", results: list[ChangeCounts], entropies: list[str]) -> None:
    for index, sampler in enumerate(SAMPLERS):
        chosen = [r for r in results if r.setting["sampler"] == sampler]
        places = [place + (index - 1) * 0.24 for place in range(len(chosen))]
        heights = [result.mean for result in chosen]
        spread = [statistics(result)["deviation"] for result in chosen]
        axes.errorbar(
            places, heights, spread, fmt="osD"[index], color=PALETTE[index], label=sampler,
            capsize=4, markersize=7,
        )  # fmt: skip
        for place, height in zip(places, heights, strict=True):
            axes.annotate(
                f"{height:.2f}", (place, height), (7, 2), textcoords="offset points", va="bottom",
                fontsize=9,
            )  # fmt: skip
    axes.axhline(1, color="0.5", linestyle="--", linewidth=1, zorder=0)
    axes.set_yscale("log")
    axes.set_yticks([0.2, 0.5, 1, 2, 5, 10, 15], ["0.2", "0.5", "1", "2", "5", "10", "15"])
    axes.minorticks_off()
    axes.set_xticks(range(len(entropies)), entropies)
    axes.set_xlim(-0.5, len(entropies) - 0.3)
    axes.set(
        xlabel="entropy of source and target policy",
        ylabel="changes in 16 steps (log scale)",
        title="Expected changes while the policy moves\n(mean, deviation over pairs; dashed: one)",
    )
    axes.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.62))
    axes.spines[["top", "right"]].set_visible(False)


def _bars(axes: "Axes", found: dict[str, Any]) -> None:
    for index, (sampler, label) in enumerate((("stable", "fixed noise"), ("naive", "fresh noise"))):
        heights = [found.get("length", {}).get(str(d), {}).get(sampler, 0.0) for d in DIMENSIONS]
        places = [place + (index - 0.5) * 0.36 for place in range(len(DIMENSIONS))]
        bars = axes.bar(places, heights, 0.34, color=PALETTE[2 * index], label=label)
        axes.bar_label(bars, fmt="%.2f", fontsize=9)
    axes.set_xticks(range(len(DIMENSIONS)), [str(d) for d in DIMENSIONS])
    axes.set(
        xlabel="dimensions of an action",
        ylabel="length of the way in 16 steps",
        title="Continuous actions while it moves\n(squashed Gaussians, mean over pairs)",
    )
    axes.legend(frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
