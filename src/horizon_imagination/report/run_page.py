"""`report.html`: one run, or several side by side, in a page that needs nothing else."""

from pathlib import Path

from horizon_imagination.envs.known import reference_scores
from horizon_imagination.figures import colour_of
from horizon_imagination.metrics.statistics import FEWEST, Interval
from horizon_imagination.provenance import told
from horizon_imagination.report import page
from horizon_imagination.report.charts import (
    compare_charts,
    evaluated,
    landmarks,
    learning_charts,
    loss_charts,
    published_numbers,
)
from horizon_imagination.report.curves import over_one_span
from horizon_imagination.report.pictures import picture_sections
from horizon_imagination.run.read import Run
from horizon_imagination.wording import duration, number


def run_report(
    run: Run, folder: Path | None = None, *, examples: int = 2, seed: int = 0, device: str = "auto"
) -> str:
    """The page of one run, finished or not; pictures also go into the folder, or into its own."""
    learning, losses = learning_charts(run), loss_charts(run)
    drawn = over_one_span([*learning, *losses])
    learning, losses = drawn[: len(learning)], drawn[len(learning) :]
    return page.page(
        f"{run.name}: {run.config.env.id}",
        [
            *_header(run),
            page.numbers(key_numbers(run)),
            page.heading("Learning"),
            page.charts(learning),
            *picture_sections(
                run, folder or run.folder, examples=examples, seed=seed, device=device
            ),
            page.heading("Losses"),
            page.charts(losses),
            *_time(run),
            *_config(run),
        ],
    )


def comparison_report(
    runs: list[Run], folder: Path | None = None, *, device: str = "auto", seed: int = 0
) -> str:
    """The page of several runs: a table, curves over one another, a strip of each.

    The pictures of each run are also written into `folder/NAME`, or into its own folder.
    """
    worlds = sorted({run.config.env.id for run in runs})
    body = [
        page.heading(f"{len(runs)} runs", 1),
        page.paragraph(", ".join(worlds), "soft"),
        comparison_table(runs),
        page.heading("Learning"),
        page.charts(over_one_span(compare_charts(runs))),
    ]
    for run in runs:
        place = folder / run.name if folder else run.folder
        pictures = picture_sections(run, place, examples=1, seed=seed, device=device)
        body += [
            page.heading(run.name),
            page.paragraph(_trained(run), "soft"),
            page.folded("Pictures", "".join(pictures[1:])),
            *_config(run),
        ]
    return page.page(", ".join(run.name for run in runs), body)


def key_numbers(run: Run) -> list[tuple[str, str]]:
    """Random, agent and best return, then steps and time."""
    marks, items = landmarks(run), []
    if "random" in marks:
        items.append((number(marks["random"]), _random_label(run)))
    if found := evaluated(run):
        interval, episodes = found
        between = f"{number(interval.low)} to {number(interval.high)}"
        share = f"\n95 %: {between}" if episodes >= FEWEST else ""
        items.append((number(interval.estimate), f"agent, {episodes} episodes{share}"))
    elif (score := run.latest("evaluation/return")) is not None:
        episodes = run.config.training.evaluation_episodes
        items.append((number(score), f"agent, {episodes} episodes\nlatest evaluation"))
    elif (score := run.latest("env/return")) is not None:
        items.append((number(score), "latest training return"))
    for name in ("best", "human"):
        if name in marks:
            items.append((number(marks[name]), f"{name} return"))
    items += published_numbers(run)
    items.append((f"{run.env_steps:,}", "environment steps"))
    epochs = run.config.training.epochs
    early = "\ntarget reached" if run.finished and run.epochs < epochs else ""
    items.append((f"{run.epochs} of {epochs}", f"epochs{early}"))
    return [*items, (duration(run.seconds), "of training")]


def comparison_table(runs: list[Run]) -> str:
    """One line per run."""
    header = ["run", "world", "imagination", "epochs", "steps", "time"]
    header += ["training", "evaluation (95 %)", "imagined", "late changes"]
    rows = []
    for place, run in enumerate(runs):
        cfg = run.config.imagination
        values = ["env/return", "evaluation/return", "controller/imagined_return"]
        cells = [number(run.latest(key)) for key in [*values, "controller/late_changes"]]
        if found := evaluated(run):
            cells[1] = _with_interval(*found)
        rows.append(
            [
                page.swatch(colour_of(place), run.name),
                run.config.env.id,
                f"{cfg.sampler}, budget {cfg.budget}, decay {cfg.decay_horizon:g}",
                str(run.epochs),
                f"{run.env_steps:,}",
                duration(run.seconds),
                *cells,
            ]
        )
    return page.table(header, rows, numeric=3)


def _with_interval(interval: Interval, episodes: int) -> str:
    """An estimate, and its interval where there are episodes enough for one."""
    between = f" ({number(interval.low, 3)} to {number(interval.high, 3)})"
    return number(interval.estimate, 3) + (between if episodes >= FEWEST else "")


def _header(run: Run) -> list[str]:
    cfg, env = run.config, run.config.env
    channels = {1: "grey", 3: "RGB"}.get(env.frame_channels, f"{env.frame_channels} channels")
    frames = f"{env.size} x {env.size} {channels}"
    source = f", offline from {run.offline}" if run.offline else ""
    lines = [
        f"{env.id}, {frames}; preset {run.preset or 'unknown'}, seed {cfg.seed}{source}.",
        f"Imagines {cfg.imagination.horizon} frames with a budget of {cfg.imagination.budget} and "
        f"a decay horizon of {cfg.imagination.decay_horizon:g}, {cfg.imagination.sampler} actions.",
    ]
    about = page.paragraph(" ".join([*lines, _trained(run)]), "soft")
    unfinished = page.paragraph("Not at its last epoch: what is known so far.", "warn")
    return [page.heading(run.name, 1), about, *([] if run.finished else [unfinished])]


def _trained(run: Run) -> str:
    """When, where and by what it was trained, as far as its sessions say."""
    places = dict.fromkeys(told(session) for session in run.sessions)
    return f"Trained by {'; then by '.join(places)}." if places else ""


def _random_label(run: Run) -> str:
    """Where the return of random play is from."""
    played = run.random_play()
    if "random" in reference_scores(run.config.env.id) or played is None:
        return "random return"
    return f"random return\n{played[1]:,} episodes at the start"


def _time(run: Run) -> list[str]:
    stages = run.stage_seconds()
    total = sum(stages.values())
    if not total:
        return []
    rows = [
        [name.replace("_", " "), duration(spent), f"{spent / total:.0%}", page.bar(spent / total)]
        for name, spent in sorted(stages.items(), key=lambda item: -item[1])
    ]
    other = max(run.seconds - total, 0.0)
    rows.append(["evaluation, snapshots, strips", duration(other), "", ""])
    return [page.heading("Time per stage"), page.table(["stage", "time", "share", ""], rows)]


def _config(run: Run) -> list[str]:
    base = f"the preset {run.preset}" if run.preset else "the paper's values"
    changes = run.changes()
    if not changes:
        return [page.paragraph(f"Configuration: {base}, unchanged.", "soft")]
    rows = [line.split(": ", 1) for line in changes]
    return [
        page.folded(
            f"Configuration: {len(rows)} difference{'s' * (len(rows) > 1)} from {base}",
            page.table(["field", "change"], rows, numeric=None),
        )
    ]
