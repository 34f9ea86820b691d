"""`report.html`: one run, or several side by side, in a page that needs nothing else."""

import os
from pathlib import Path

import torch

from horizon_imagination.errors import UsageError
from horizon_imagination.report import page
from horizon_imagination.report.beside_published import published_numbers
from horizon_imagination.report.charts import (
    colour_of,
    compare_charts,
    learning_charts,
    loss_charts,
)
from horizon_imagination.report.pictures import picture_sections
from horizon_imagination.report.records import RunRecord
from horizon_imagination.version import __version__


def run_report(record: RunRecord, *, examples: int = 2, seed: int = 0, device: str = "auto") -> str:
    """The page of one run, finished or not."""
    return page.page(
        f"{record.name}: {record.config.env.id}",
        [
            *_header(record),
            page.numbers(key_numbers(record)),
            page.heading("Learning"),
            page.charts(learning_charts(record)),
            *(picture_sections(record, examples=examples, seed=seed, device=device)),
            page.heading("Losses"),
            page.charts(loss_charts(record)),
            *_time(record),
            *_config(record),
            _footer(),
        ],
    )


def comparison_report(records: list[RunRecord], *, device: str = "auto", seed: int = 0) -> str:
    """The page of several runs: a table, curves over one another, a strip of each."""
    worlds = sorted({record.config.env.id for record in records})
    body = [
        page.heading(f"{len(records)} runs", 1),
        page.paragraph(", ".join(worlds), "soft"),
        comparison_table(records),
        page.heading("Learning"),
        page.charts(compare_charts(records)),
    ]
    for record in records:
        body.append(page.heading(record.name))
        pictures = picture_sections(record, examples=1, seed=seed, device=device)
        body += [page.folded("pictures", "".join(pictures[1:])), *_config(record)]
    return page.page(", ".join(record.name for record in records), [*body, _footer()])


def write_page(path: Path, content: str) -> None:
    """Replace the page in one go."""
    draft = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(content, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise UsageError(
            f"cannot write {path} ({error.strerror}); name a file with --out"
        ) from error


def key_numbers(record: RunRecord) -> list[tuple[str, str]]:
    """Random, agent and best return, then steps and time."""
    marks, items = record.landmarks(), []
    if "random" in marks:
        items.append((page.readable(marks["random"]), "random return"))
    if found := record.evaluated():
        interval, episodes = found
        items.append(
            (
                page.readable(interval.estimate),
                f"agent, mean of {episodes} episodes (95 %: {page.readable(interval.low)} to "
                f"{page.readable(interval.high)})",
            )
        )
    elif (score := record.latest("evaluation/return")) is not None:
        episodes = record.config.training.evaluation_episodes
        items.append((page.readable(score), f"agent, latest evaluation ({episodes} episodes)"))
    elif (score := record.latest("env/return")) is not None:
        items.append((page.readable(score), "latest training return"))
    for name in ("best", "human"):
        if name in marks:
            items.append((page.readable(marks[name]), f"{name} return"))
    items += published_numbers(record)
    items.append((f"{record.env_steps:,}", "environment steps"))
    items.append((f"{record.epochs} of {record.config.training.epochs}", "epochs"))
    return [*items, (duration(record.seconds), "of training")]


def comparison_table(records: list[RunRecord]) -> str:
    """One line per run."""
    header = ["run", "world", "imagination", "epochs", "steps", "time"]
    header += ["training", "evaluation", "imagined", "late changes"]
    rows = []
    for place, record in enumerate(records):
        cfg = record.config.imagination
        values = ["env/return", "evaluation/return", "controller/imagined_return"]
        cells = [_number(record.latest(key)) for key in [*values, "controller/late_changes"]]
        if found := record.evaluated():
            cells[1] = f"{found[0].estimate:.3g} [{found[0].low:.3g}, {found[0].high:.3g}]"
        rows.append(
            [
                page.swatch(colour_of(place), record.name),
                record.config.env.id,
                f"{cfg.sampler}, budget {cfg.budget}, decay {cfg.decay_horizon:g}",
                str(record.epochs),
                str(record.env_steps),
                duration(record.seconds),
                *cells,
            ]
        )
    return page.table(header, rows, numeric=3)


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(75), duration(7330), duration(3.2)
    ('1 min 15 s', '2 h 2 min', '3 s')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _header(record: RunRecord) -> list[str]:
    cfg, env = record.config, record.config.env
    frames = f"{env.size} x {env.size} {'grey' if env.grey else 'RGB'}"
    source = f", offline from {record.offline}" if record.offline else ""
    lines = [
        f"{env.id}, {frames}; preset {record.preset or 'unknown'}, seed {cfg.seed}{source}.",
        f"Imagines {cfg.imagination.horizon} frames with a budget of {cfg.imagination.budget} and "
        f"a decay horizon of {cfg.imagination.decay_horizon:g}, {cfg.imagination.sampler} actions.",
    ]
    unfinished = page.paragraph("Not at its last epoch: what is known so far.", "warn")
    state = [] if record.finished else [unfinished]
    return [page.heading(record.name, 1), page.paragraph(" ".join(lines), "soft"), *state]


def _time(record: RunRecord) -> list[str]:
    stages = record.stage_seconds()
    total = sum(stages.values())
    if not total:
        return []
    rows = [
        [name.replace("_", " "), duration(spent), f"{spent / total:.0%}", page.bar(spent / total)]
        for name, spent in sorted(stages.items(), key=lambda item: -item[1])
    ]
    other = max(record.seconds - total, 0.0)
    rows.append(["evaluation, snapshots, strips", duration(other), "", ""])
    return [page.heading("Time per stage"), page.table(["stage", "time", "share", ""], rows)]


def _config(record: RunRecord) -> list[str]:
    base = f"the preset {record.preset}" if record.preset else "the paper's values"
    changes = record.changes()
    if not changes:
        return [page.paragraph(f"Configuration: {base}, unchanged.", "soft")]
    rows = [line.split(": ", 1) for line in changes]
    return [
        page.folded(
            f"Configuration: {len(rows)} differences from {base}",
            page.table(["field", "change"], rows, numeric=None),
        )
    ]


def _footer() -> str:
    versions = f"horizon_imagination {__version__}, torch {torch.__version__}"
    return page.paragraph(f"Reported with {versions}.", "soft")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
