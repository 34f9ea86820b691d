"""The tables of a document (times beside published ones, share of the peak, throughput, growth) and
the figure of how imagination's time grows.

Everything is read from the document, so that both can be made anew on another machine.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from horizon_imagination.bench.document import Document
from horizon_imagination.bench.plan import SWEEPS
from horizon_imagination.config import Config
from horizon_imagination.figures import INK, PALETTE, save_figure, style_axes
from horizon_imagination.wording import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

PAPER_SOURCE = "the paper's runtime tables (appendix), RTX 4090"
RELEASE_SOURCE = "authors' release, measured on an H200 (torch 2.11, TF32, medians of 5 to 8)"

Key = tuple[str, float, int]
"""Stage, decay horizon, budget."""

SHARED = {"tokenizer": (72.5, 48.0), "world_model": (133.2, 88.0)}
"""Milliseconds of stages that no schedule changes: paper, release."""

PAPER: dict[tuple[str, int], float] = {
    ("controller", 16): 1071.0,
    ("controller", 32): 1871.0,
    ("imagination", 16): 673.0,
    ("imagination", 32): 1326.5,
    ("denoiser", 16): 16 * 34.3,
    ("denoiser", 32): 32 * 34.3,
    ("actions", 16): 16 * 6.5,
    ("actions", 32): 32 * 6.5,
    ("rewards", 16): 5.18,
    ("rewards", 32): 5.18,
    ("update", 16): 1071.0 - 673.0,
    ("update", 32): 1871.0 - 1326.5,
    ("epoch", 16): 1e3 * (21.75 + 39.96 + 53.55),
    ("epoch", 32): 1e3 * (21.75 + 39.96 + 93.55),
}
"""Milliseconds by stage and budget: it evaluates every frame at every step, whatever the decay
horizon. Its imagination includes the reward prediction."""

RELEASE: dict[Key, float] = {
    ("imagination", 4.0, 16): 497.0,
    ("imagination", 4.0, 32): 997.0,
    ("imagination", 1.0, 32): 999.0,
    ("controller", 4.0, 16): 790.0,
    ("controller", 4.0, 32): 1534.0,
    ("epoch", 4.0, 16): 300 * 48.0 + 300 * 88.0 + 50 * 790.0,
    ("epoch", 4.0, 32): 300 * 48.0 + 300 * 88.0 + 50 * 1534.0,
}
"""Milliseconds; an epoch has 300, 300 and 50 steps, and encoding is part of the world model's."""

RELEASE_GIB: dict[Key, float] = {
    ("imagination", 4.0, 16): 9.6,
    ("imagination", 4.0, 32): 17.7,
    ("imagination", 1.0, 32): 17.7,
    ("controller", 4.0, 16): 10.7,
    ("controller", 4.0, 32): 18.8,
}
SHARED_GIB = {"tokenizer": 3.6, "world_model": 3.6}

PAPER_THROUGHPUT = {16: (23529.4, 1470.6, 46.0), 32: (23529.4, 735.3, 23.0)}
"""Frame denoisings, frames and 32-frame segments per second, by budget."""


def comparable(config: Config, paper: Config) -> bool:
    """Whether a config has the published networks, batches, lengths and losses."""
    mine, theirs = config.imagination, paper.imagination
    same = ("tokenizer", "denoiser", "reward", "world_model", "controller")
    return (
        all(getattr(config, name) == getattr(paper, name) for name in same)
        and (config.env.size, config.env.grey) == (paper.env.size, paper.env.grey)
        and (mine.horizon, mine.context) == (theirs.horizon, theirs.context)
    )


def paper_ms(stage: str, budget: int | None) -> float | None:
    """The paper's figure for a stage, if it has one."""
    if budget is None:
        return SHARED[stage][0] if stage in SHARED else None
    return PAPER.get((stage, budget))


def release_ms(stage: str, decay_horizon: float | None, budget: int | None) -> float | None:
    """The release's figure for a stage, if it was measured."""
    if decay_horizon is None or budget is None:
        return SHARED[stage][1] if stage in SHARED else None
    return RELEASE.get((stage, decay_horizon, budget))


def release_gib(stage: str, decay_horizon: float | None, budget: int | None) -> float | None:
    """The release's peak memory in a stage, if it was measured."""
    if decay_horizon is None or budget is None:
        return SHARED_GIB.get(stage)
    return RELEASE_GIB.get((stage, decay_horizon, budget))


STAGES = {
    "tokenizer": "tokenizer step",
    "world_model": "world-model step",
    "controller": "controller step",
    "imagination": "  imagination with policy",
    "denoiser": "    denoiser alone",
    "actions": "    actions (difference)",
    "rewards": "  rewards and ends",
    "update": "  update (difference)",
    "encoding": "encoding the replay",
    "epoch": "one epoch of learning",
}
"""Rows in the order of the table."""


@dataclass(frozen=True)
class Sheet:
    """A table: the first column is text, the others are numbers."""

    title: str
    header: list[str]
    lines: list[list[str]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """For a page."""
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        cells = [self.header, rule, *self.lines]
        table = "\n".join("| " + " | ".join(x.strip() for x in line) + " |" for line in cells)
        return "\n\n".join([f"## {self.title}", table, *self.notes])

    def rich(self) -> "Table":
        """For a terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(title=self.title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
        for place, name in enumerate(self.header):
            table.add_column(name, justify="right" if place else "left", no_wrap=True)
        for line in self.lines:
            table.add_row(*line)
        return table


def sheets(document: Document) -> list[Sheet]:
    """All that the document has rows for."""
    made = [times(document), remaining(document), throughput(document)]
    if document.get("growth", {}).get("points"):
        made.append(growth(document))
    return [sheet for sheet in made if sheet.lines]


def times(document: Document) -> Sheet:
    """Milliseconds of every stage in every mode, beside the paper's and the release's."""
    modes, beside = document["modes"], document["comparable"]
    ratio = [f"{modes[1]} / {modes[0]}"] if len(modes) == 2 else []
    others = ["paper, 4090", "release, H200", f"release / {modes[0]}"] if beside else []
    memory = ["peak GiB", *(["release GiB"] if beside else [])] if _has_memory(document) else []
    lines = []
    for stage, schedule, rows in _grouped(document):
        line = [_label(stage, schedule, rows[0]), *(_ms(rows[m]) for m in range(len(modes)))]
        ms = [row["ms"] if row else None for row in rows]
        line += [digits(_over(ms[1], ms[0]))] if ratio else []
        decay, budget = schedule or (None, None)
        if beside:
            release = release_ms(stage, decay, budget)
            line += [digits(paper_ms(stage, budget)), digits(release)]
            line += [digits(_over(release, ms[0]))]
        if memory:
            line.append(digits((rows[0] or {}).get("peak_gib")))
            line += [digits(release_gib(stage, decay, budget))] if beside else []
        lines.append(line)
    header = ["stage (schedule: decay horizon, budget)", *(f"{m} ms" for m in modes)]
    sources = f"Paper: {PAPER_SOURCE}. Release: {RELEASE_SOURCE}."
    return Sheet(
        f"{document['machine']}: milliseconds, medians",
        [*header, *ratio, *others, *memory],
        lines,
        [
            f"An epoch is {_steps(document)} and one encoding of {document['replay_frames']:,} "
            "frames, scaled up linearly from a sample; collecting is left out.",
            *([sources] if beside else []),
        ],
    )


def remaining(document: Document) -> Sheet:
    """Share of the measured peaks that each stage reaches, in the first mode."""
    peak = document.get("ceilings")
    if peak is None:
        return Sheet("What is left", [], [])
    large, lines = peak["flops"] >= 1e13, []
    unit, scale = ("TFLOP", 1e12) if large else ("GFLOP", 1e9)
    size, bytes_scale = ("GB", 1e9) if large else ("MB", 1e6)
    for stage, schedule, rows in _grouped(document):
        row = rows[0]
        if not row or "flops" not in row:
            continue
        speed, flow = 1e3 * row["flops"] / row["ms"], 1e3 * row["bytes"] / row["ms"]
        lines.append(
            [
                _label(stage, schedule, row),
                digits(row["ms"]),
                digits(row["flops"] / scale),
                digits(speed / scale),
                f"{speed / peak['flops']:.1%}",
                digits(row["bytes"] / bytes_scale),
                digits(flow / 1e9),
                f"{flow / peak['bandwidth']:.1%}",
                digits(row["floor_ms"]),
            ]
        )
    return Sheet(
        f"What is left ({document['modes'][0]}): peak {digits(peak['flops'] / scale)} {unit}/s in "
        f"{peak['precision']}, copy {digits(peak['bandwidth'] / 1e9)} GB/s",
        ["stage", "ms", unit, f"{unit}/s", "of peak", size, "GB/s", "of copy", "floor ms"],
        lines,
        [
            "Bytes are the fewest that must move (see docs/benchmarks.md); the floor is the larger "
            "of operations at the measured peak and bytes at the speed of a copy."
        ],
    )


def throughput(document: Document) -> Sheet:
    """Frame denoisings, frames and 32-frame segments per second of imagination with policy."""
    lines, batch, horizon = [], document["batch"], document["horizon"]
    for stage, schedule, rows in _grouped(document):
        if stage != "imagination" or schedule is None:
            continue
        for mode, row in zip(document["modes"], rows, strict=True):
            if row is None:
                continue
            frames = 1e3 * batch * horizon / row["ms"]
            evaluated = 1e3 * row["frames"] / row["ms"]
            figures = (frames * schedule[1], evaluated, frames, frames / 32)
            name = f"({schedule[0]:g}, {schedule[1]}), {mode}"
            lines.append([name, *(digits(x) for x in figures)])
        if document["comparable"] and schedule[1] in PAPER_THROUGHPUT:
            per_step, frames, segments = PAPER_THROUGHPUT[schedule[1]]
            paper = (per_step, per_step, frames, segments)
            lines.append([f"budget {schedule[1]}, paper, RTX 4090", *(digits(x) for x in paper)])
    header = ["imagination with policy", "frame denoisings/s", "evaluated/s", "frames/s"]
    note = "A frame denoising is one frame at one step of the budget, as the paper counts; "
    note += "evaluated are those for which the denoiser really ran."
    return Sheet("Throughput", [*header, "32-frame segments/s"], lines, [note])


def growth(document: Document) -> Sheet:
    """The points of the sweeps, and the fit of the growth."""
    grown = document["growth"]
    fit, lines = grown.get("fit"), []
    for x in grown["points"]:
        ratio = "-"
        if fit and "horizon" in x["sweeps"]:
            ratio = f"{x['ms'] / fitted_ms(fit, x):.2f}"
        where = f"H {x['horizon']}, B {x['budget']}, nu {x['decay_horizon']:g}, batch {x['batch']}"
        counts = (f"{x['frames']:,}", f"{x['token_pairs']:,}")
        per_frame = digits(1e3 * x["ms"] / x["frames"])
        lines.append([where, digits(x["ms"]), *counts, per_frame, ratio])
    header = ["imagination", "ms", "frames", "token pairs", "us a frame", "measured / fitted"]
    notes = [verdict(fit)] if fit else []
    return Sheet(f"Growth ({grown['mode']})", header, lines, notes)


def fitted_ms(fit: Document, point: Document) -> float:
    """The fitted time of a point."""
    return fit["frame_ms"] * point["frames"] + fit["pair_ms"] * point["frame_pairs"]


def verdict(fit: Document) -> str:
    """How the time grows along the horizon, in a sentence."""
    return (
        f"Along the horizon, time = {digits(1e3 * fit['frame_ms'])} us x frames + "
        f"{digits(1e6 * fit['pair_ms'])} ns x pairs of frames; log-log slope of the time over the "
        f"horizon {fit['slope']:.2f}, of the time per evaluated frame {fit['frame_slope']:.2f}; "
        f"measured over fitted at the longest horizon {fit['ratios'][-1]:.2f}: growth is "
        + ("no faster" if fit["explained"] else "FASTER")
        + " than linear in frames plus the attention over the cache."
    )


def _grouped(document: Document):
    """Stage, schedule and the rows of every mode, in the order of the table."""
    found: dict[tuple, dict[str, Document]] = {}
    for row in document["rows"]:
        schedule = (row["decay_horizon"], row["budget"]) if "budget" in row else None
        found.setdefault((schedule, row["stage"]), {})[row["mode"]] = row
    schedules = list(dict.fromkeys(schedule for schedule, _ in found if schedule))
    places = [None, *schedules]
    order = list(STAGES)
    keys = sorted(found, key=lambda key: (places.index(key[0]), order.index(key[1])))
    for schedule, stage in keys:
        rows = [found[schedule, stage].get(mode) for mode in document["modes"]]
        yield stage, schedule, rows


def _label(stage: str, schedule: tuple[float, int] | None, row: Document | None) -> str:
    text = STAGES[stage]
    if stage == "encoding" and row:
        text += f", {row['frames']:,} frames"
    return text if schedule is None else f"{text} ({schedule[0]:g}, {schedule[1]})"


def _steps(document: Document) -> str:
    row = next((x for x in document["rows"] if x["stage"] == "epoch"), None)
    if row is None:
        return "all steps of the learners"
    return ", ".join(f"{n} {name.replace('_', '-')} steps" for name, n in row["steps"].items())


def _has_memory(document: Document) -> bool:
    return any("peak_gib" in row for row in document["rows"])


def _ms(row: Document | None) -> str:
    return digits(row["ms"]) if row else "-"


def _over(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else a / b


AXES = {
    "horizon": "horizon (frames; budget in proportion)",
    "budget": "budget (denoising steps)",
    "decay_horizon": "decay horizon (frames)",
    "batch": "batch (trajectories)",
}
MODES = {"fast": "captured steps", "plain": "plain steps", "given": "runtime as given"}


def draw_figure(document: Document, path: Path) -> None:
    """Four panels, both axes logarithmic; frames evaluated as a dashed line through one point."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    for axes, sweep in zip(figure.subplots(2, 2).flat, SWEEPS, strict=True):
        _panel(axes, document, sweep)
    growth = document["growth"]
    figure.suptitle(
        f"Imagination with policy: preset {document['preset']}, "
        f"{MODES.get(growth['mode'], growth['mode'])}, {document['machine']}",
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
    axes.set_xlabel(AXES[sweep], fontsize=9.5, color=INK)
    axes.set_ylabel("milliseconds", fontsize=9.5, color=INK)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.tick_params(labelsize=8)
    style_axes(axes)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)
