"""The tables of a document: times beside others', what is left of the device, throughput, growth.

Everything is read from the document, so that tables can be made anew on another machine.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from horizon_imagination.bench import published
from horizon_imagination.bench.document import Document

if TYPE_CHECKING:
    from rich.table import Table

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
        line += [number(_over(ms[1], ms[0]))] if ratio else []
        decay, budget = schedule or (None, None)
        if beside:
            release = published.release_ms(stage, decay, budget)
            line += [number(published.paper_ms(stage, budget)), number(release)]
            line += [number(_over(release, ms[0]))]
        if memory:
            line.append(number((rows[0] or {}).get("peak_gib")))
            line += [number(published.release_gib(stage, decay, budget))] if beside else []
        lines.append(line)
    header = ["stage (schedule: decay horizon, budget)", *(f"{m} ms" for m in modes)]
    sources = f"Paper: {published.PAPER_SOURCE}. Release: {published.RELEASE_SOURCE}."
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
    """What each stage gets out of the device, in the first mode."""
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
                number(row["ms"]),
                number(row["flops"] / scale),
                number(speed / scale),
                f"{speed / peak['flops']:.1%}",
                number(row["bytes"] / bytes_scale),
                number(flow / 1e9),
                f"{flow / peak['bandwidth']:.1%}",
                number(row["floor_ms"]),
            ]
        )
    return Sheet(
        f"What is left ({document['modes'][0]}): peak {number(peak['flops'] / scale)} {unit}/s in "
        f"{peak['precision']}, copy {number(peak['bandwidth'] / 1e9)} GB/s",
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
            lines.append([name, *(number(x) for x in figures)])
        if document["comparable"] and schedule[1] in published.PAPER_THROUGHPUT:
            per_step, frames, segments = published.PAPER_THROUGHPUT[schedule[1]]
            paper = (per_step, per_step, frames, segments)
            lines.append([f"budget {schedule[1]}, paper, RTX 4090", *(number(x) for x in paper)])
    header = ["imagination with policy", "frame denoisings/s", "evaluated/s", "frames/s"]
    note = "A frame denoising is one frame at one step of the budget, as the paper counts; "
    note += "evaluated are those for which the denoiser really ran."
    return Sheet("Throughput", [*header, "32-frame segments/s"], lines, [note])


def growth(document: Document) -> Sheet:
    """The points of the sweeps, and what the time follows."""
    grown = document["growth"]
    fit, lines = grown.get("fit"), []
    for x in grown["points"]:
        ratio = "-"
        if fit and "horizon" in x["sweeps"]:
            ratio = f"{x['ms'] / fitted_ms(fit, x):.2f}"
        where = f"H {x['horizon']}, B {x['budget']}, nu {x['decay_horizon']:g}, batch {x['batch']}"
        counts = (f"{x['frames']:,}", f"{x['token_pairs']:,}")
        per_frame = number(1e3 * x["ms"] / x["frames"])
        lines.append([where, number(x["ms"]), *counts, per_frame, ratio])
    header = ["imagination", "ms", "frames", "token pairs", "us a frame", "measured / fitted"]
    notes = [verdict(fit)] if fit else []
    return Sheet(f"Growth ({grown['mode']})", header, lines, notes)


def fitted_ms(fit: Document, point: Document) -> float:
    """What frames and pairs account for at a point."""
    return fit["frame_ms"] * point["frames"] + fit["pair_ms"] * point["frame_pairs"]


def verdict(fit: Document) -> str:
    """How the time grows along the horizon, in a sentence."""
    return (
        f"Along the horizon, time = {number(1e3 * fit['frame_ms'])} us x frames + "
        f"{number(1e6 * fit['pair_ms'])} ns x pairs of frames; log-log slope of the time over the "
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
    return number(row["ms"]) if row else "-"


def _over(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else a / b


def number(value: float | None) -> str:
    """Three digits or all before the point.

    >>> [number(x) for x in (0.01234, 3.14159, 42.123, 1234.5, 0, None)]
    ['0.0123', '3.14', '42.1', '1,234', '0', '-']
    """
    if not value:
        return "-" if value is None else "0"
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")
