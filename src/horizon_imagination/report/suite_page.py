"""The report of a suite: a page, the figure as PNG and SVG, every score as CSV."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from horizon_imagination.envs.known import reference_scores
from horizon_imagination.errors import UsageError
from horizon_imagination.figures import colour_of, save_figure
from horizon_imagination.metrics.published import published_at, published_configs, recent_return
from horizon_imagination.metrics.statistics import (
    FEWEST,
    Interval,
    bootstrap_interval,
    interquartile_mean,
    sample_deviation,
    smoothing_window,
)
from horizon_imagination.report import page
from horizon_imagination.report.claims import Claim, Comparison, claims, compare
from horizon_imagination.report.curves import Chart, Line, draw_chart, legend_below, mean_line
from horizon_imagination.report.suite import SuiteResults, published_suite, scores_csv
from horizon_imagination.wording import duration, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_suite_report(suite: SuiteResults, path: Path) -> list[Path]:
    """Write the page, and the figure and the scores beside it; returns the files."""
    if not any(len(run.curve.steps) for run in suite.runs):
        raise UsageError(f"the suite {suite.name} has no finished episode yet; come back later")
    reference = None if _is_published(suite) else published_suite()
    charts = [chart for chart in suite_charts(suite, reference) if chart.drawable]
    png, svg, scores = (path.with_name(x) for x in ("curves.png", "curves.svg", "scores.csv"))
    drawn = suite_figure(charts)
    for figure in (png, svg):
        save_figure(drawn, figure)
    page.write_page(scores, scores_csv([suite]))
    page.write_page(path, page.page(f"{suite.name}: report", _body(suite, charts)))
    return [path, png, svg, scores]


def _body(suite: SuiteResults, charts: list[Chart]) -> list[str]:
    """A repetition of the paper opens with its claims; other suites end with those they touch."""
    repeats, told = repeats_paper(suite), claims(suite)
    touched = [claim for claim in told if repeats or claim.verdict != "no data"]
    judged = [page.heading("The paper's claims"), _claims_table(touched)] if touched else []
    return [
        page.heading(suite.name, 1),
        page.paragraph(_standing(suite), "soft"),
        *(judged if repeats else []),
        page.heading("Learning curves"),
        page.paragraph(_about_curves(suite), "soft"),
        page.legend(colours_of(suite)),
        page.charts(charts),
        page.heading("Scores"),
        page.paragraph(
            "The score of a run is its mean training return over the last tenth of the steps that "
            "most runs of its setting have taken; runs that have taken fewer are left out. IQM is "
            "the interquartile mean; its interval holds 95 % of the bootstrap's resamples of runs, "
            f"and needs {FEWEST} of them. Denoiser frames: what one imagined trajectory costs.",
            "soft",
        ),
        *[_scores(suite, env) for env in suite.envs()],
        page.heading("Settings against one another"),
        _comparisons(suite),
        *([] if _is_published(suite) else _beside_published(suite)),
        *([] if repeats else judged),
    ]


def repeats_paper(suite: SuiteResults) -> bool:
    """Whether all its settings and worlds are the paper's."""
    return all(run.setting in published_configs(run.env) for run in suite.runs)


def _is_published(suite: SuiteResults) -> bool:
    return all(run.published for run in suite.runs)


def _about_curves(suite: SuiteResults) -> str:
    text = (
        "Training return: mean over seeds, band of one sample standard deviation, each seed "
        "smoothed by a moving average of 15 epochs with a finished episode (fewer in short runs). "
        "Dashed levels: random play, and human or the best possible return."
    )
    return text if _is_published(suite) else f"{text} Dotted: the published runs of the setting."


def comparisons(suite: SuiteResults) -> list[Comparison]:
    """Every setting against the first one, over all worlds they share, then world by world."""
    first, *others = suite.settings()
    found = []
    for other in others:
        places = [None, *([env] for env in suite.envs())]
        seen = [compare(suite, other, first, envs) for envs in places]
        several = [c for c in seen[1:] if c is not None]
        found += seen[:1] * (len(several) > 1) + several
    return [comparison for comparison in found if comparison is not None]


def _standing(suite: SuiteResults) -> str:
    done = sum(run.steps >= 0.95 * run.target_steps for run in suite.runs)
    text = f"{len(suite.runs)} of {suite.expected} runs have begun, {done} have taken their steps"
    count, settings = len(suite.envs()), ", ".join(suite.settings())
    worlds = "1 world" if count == 1 else f"{count} worlds"
    return f"{text}; {worlds}; settings {settings}."


def _claims_table(told: list[Claim]) -> str:
    rows = [[claim.text, claim.verdict, claim.numbers] for claim in told]
    return page.table(["claim", "these runs", "numbers"], rows, numeric=None)


def _scores(suite: SuiteResults, env: str) -> str:
    header = ["setting", "seeds", "mean ± deviation", "IQM", "95 %", "per seed", "steps"]
    header += ["time per run", "denoiser frames", "late changes"]
    rows = [_score_row(suite, env, setting) for setting in suite.settings(env)]
    if (random := _random_row(suite, env)) is not None:
        rows.append([*random, *["-"] * (len(header) - len(random))])
    used = [i for i in range(len(header)) if any(row[i] != "-" for row in rows)]
    kept = [[row[i] for i in used] for row in rows]
    return page.heading(env, 3) + page.table([header[i] for i in used], kept)


def _score_row(suite: SuiteResults, env: str, setting: str) -> list[str]:
    runs, scores = suite.of(env, setting), list(suite.scores(env, setting).values())
    if not scores:
        return [setting, "0", *["-"] * 8]
    interval = bootstrap_interval([scores], interquartile_mean)
    seconds = [run.seconds for run in runs if run.seconds]
    late = [run.late_changes for run in runs if run.late_changes is not None]
    between = f"{_short(interval.low)} to {_short(interval.high)}"
    return [
        setting,
        str(len(scores)),
        _mean(scores),
        _short(interval.estimate),
        between if len(scores) >= FEWEST else "-",
        ", ".join(_short(score) for score in sorted(scores)),
        f"{suite.common_step(env, [setting]):,}",
        duration(float(np.mean(seconds))) if seconds else "-",
        str(runs[0].frames_per_imagination),
        f"{np.mean(late):.3f}" if late else "-",
    ]


def _random_row(suite: SuiteResults, env: str) -> list[str] | None:
    """Random play as a last line: what is known of the world, or what its runs began with."""
    known, played = reference_scores(env).get("random"), suite.random_play(env)
    if known is not None:
        return ["random play", "-", _short(known)]
    if played is None:
        return None
    return [f"random play ({played[1]:,} episodes)", "-", _short(played[0])]


def _mean(scores: list[float]) -> str:
    """Mean and sample deviation; one score has no deviation."""
    deviation = sample_deviation(scores)
    return _short(np.mean(scores)) + (f" ± {_short(deviation)}" if deviation is not None else "")


def _short(value: float | np.floating) -> str:
    return number(float(value), 3)


def _comparisons(suite: SuiteResults) -> str:
    rows = []
    for found in comparisons(suite):
        where = found.envs[0] if len(found.envs) == 1 else f"all {len(found.envs)} worlds, scaled"
        rows.append(
            [
                f"{found.a} over {found.b}",
                where,
                f"{max(found.steps):,}",
                str(found.runs),
                _with_interval(found.difference, found.runs, sign=True),
                _with_interval(found.improvement, found.runs),
            ]
        )
    if not rows:
        return page.paragraph("One setting only: nothing to compare.", "soft")
    header = ["settings", "world", "steps", "fewest runs", "difference of IQM (95 %)"]
    return page.table([*header, "probability of improvement (95 %)"], rows, numeric=2)


def _with_interval(interval: Interval, runs: int, *, sign: bool = False) -> str:
    """An estimate, and its interval where there are runs enough for one."""
    low, estimate, high = (
        ("+" if sign and x > 0 else "") + _short(x)
        for x in (interval.low, interval.estimate, interval.high)
    )
    return f"{estimate} ({low} to {high})" if runs >= FEWEST else estimate


def _beside_published(suite: SuiteResults) -> list[str]:
    rows = []
    for env in suite.envs():
        for setting in [c for c in suite.settings(env) if c in published_configs(env)]:
            step = suite.common_step(env, [setting])
            recent = [recent_return(run.curve, step) for run in suite.of(env, setting)]
            ours = [score for score in recent if score is not None]
            theirs = published_at(env, setting, step) if step else None
            if ours and theirs:
                published = (
                    f"{_short(theirs.mean)} ± {_short(theirs.sample_std)} ({theirs.seeds} seeds)"
                )
                mine = f"{_mean(ours)} ({len(ours)} seeds)"
                rows.append([env, setting, f"{step:,}", mine, published])
    if not rows:
        return []
    header = ["world", "setting", "steps", "ours", "published"]
    return [page.heading("Beside the published runs"), page.table(header, rows, numeric=2)]


def suite_charts(suite: SuiteResults, reference: SuiteResults | None = None) -> list[Chart]:
    """A chart per world; the published runs of the same settings are dotted below ours."""
    colours = colours_of(suite)
    charts = []
    for env in suite.envs():
        lines = []
        for setting in suite.settings(env):
            own = suite.of(env, setting)
            theirs = reference.of(env, setting) if reference else []
            reached = max((run.steps for run in own), default=0)
            window = smoothing_window(max((len(run.curve.steps) for run in own), default=0))
            if theirs:
                past = [run.until(reached) for run in theirs]
                label = f"{setting}, published"
                published = mean_line([run.curve for run in past], label, colours[setting], window)
                lines.append(_dotted(published, band=len(own) < 2))
            lines.append(mean_line([run.curve for run in own], setting, colours[setting], window))
        charts.append(Chart(env, lines, levels=levels_of(suite, env), legend=False))
    return charts


def colours_of(suite: SuiteResults) -> dict[str, str]:
    """The colour of every setting."""
    return {setting: colour_of(i) for i, setting in enumerate(suite.settings())}


def levels_of(suite: SuiteResults, env: str) -> dict[str, float]:
    """Random play, and human or the best return where they are known."""
    played = suite.random_play(env)
    return ({"random": played[0]} if played else {}) | reference_scores(env)


def suite_figure(charts: list[Chart]) -> "Figure":
    """All charts as one figure, as the paper prints them."""
    from matplotlib.figure import Figure

    columns = min(4, len(charts))
    lines = math.ceil(len(charts) / columns)
    figure = Figure(figsize=(4.1 * columns, 2.9 * lines), layout="constrained")
    grid = np.atleast_1d(figure.subplots(lines, columns, squeeze=False)).ravel()
    for place, (axes, chart) in enumerate(zip(grid, charts, strict=False)):
        first = place % columns == 0
        draw_chart(axes, replace(chart, y_label="training return" if first else ""))
    for axes in grid[len(charts) :]:
        axes.set_axis_off()
    legend_below(figure, charts, 2 * columns)
    return figure


def _dotted(line: Line, *, band: bool) -> Line:
    """Its band stays only where ours has none: the second would hide the first."""
    return replace(line, style=":", deviation=line.deviation if band else None)
