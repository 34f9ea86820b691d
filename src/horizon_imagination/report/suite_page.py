"""The report of a suite: a page, the figure as PNG and SVG, every score as CSV."""

from pathlib import Path

import numpy as np

from horizon_imagination.errors import UsageError
from horizon_imagination.metrics.published import published_at, published_configs, recent_return
from horizon_imagination.metrics.statistics import Interval, bootstrap_interval, interquartile_mean
from horizon_imagination.report import page
from horizon_imagination.report.curves import write_figure
from horizon_imagination.report.html import duration, write_page
from horizon_imagination.report.suite import Suite, published_suite, scores_csv
from horizon_imagination.report.suite_claims import Comparison, claims, compare
from horizon_imagination.report.suite_figures import colours_of, suite_charts, suite_figure


def write_suite_report(suite: Suite, folder: Path) -> list[Path]:
    """Write everything into a folder; returns the files."""
    if not any(len(run.curve.steps) for run in suite.runs):
        raise UsageError(f"the suite {suite.name} has no finished episode yet; come back later")
    is_published = all(run.published for run in suite.runs)
    reference = None if is_published else published_suite()
    charts = [chart for chart in suite_charts(suite, reference) if chart.drawable]
    paths = [folder / name for name in ("report.html", "curves.png", "curves.svg", "scores.csv")]
    drawn = suite_figure(charts)
    for path in paths[1:3]:
        write_figure(drawn, path)
    write_page(paths[3], scores_csv([suite]))
    body = [
        page.heading(suite.name, 1),
        page.paragraph(_standing(suite), "soft"),
        page.heading("The paper's claims"),
        _claims_table(suite),
        page.heading("Learning curves"),
        page.paragraph(
            "Training return: mean over seeds, band of one standard deviation, each seed smoothed "
            "by a moving average of 15 epochs with a finished episode (fewer in short runs). "
            "Dashed level: human, or the best possible return."
            + ("" if is_published else " Dotted: the published runs of the same setting."),
            "soft",
        ),
        page.legend(colours_of(suite)),
        page.charts(charts),
        page.heading("Scores"),
        page.paragraph(
            "A run's score is its mean training return over the last tenth of the steps that most "
            "runs of its setting have taken; runs that have not come as far are left out. "
            "Intervals hold 95 % of the bootstrap's resamples of runs. Denoiser frames: what one "
            "imagined trajectory costs.",
            "soft",
        ),
        *[_scores(suite, env) for env in suite.envs()],
        page.heading("Settings against one another"),
        _comparisons(suite),
        *([] if is_published else _beside_published(suite)),
    ]
    write_page(paths[0], page.page(f"{suite.name}: report", body))
    return paths


def comparisons(suite: Suite) -> list[Comparison]:
    """Every setting against the first one, over all worlds they share, then world by world."""
    first, *others = suite.configs()
    found = []
    for other in others:
        places = [None, *([env] for env in suite.envs())]
        seen = [compare(suite, other, first, envs) for envs in places]
        several = [c for c in seen[1:] if c is not None]
        found += seen[:1] * (len(several) > 1) + several
    return [comparison for comparison in found if comparison is not None]


def _standing(suite: Suite) -> str:
    done = sum(run.steps >= 0.95 * run.target_steps for run in suite.runs)
    text = f"{len(suite.runs)} of {suite.expected} runs have begun, {done} have taken their steps"
    count, settings = len(suite.envs()), ", ".join(suite.configs())
    worlds = "1 world" if count == 1 else f"{count} worlds"
    return f"{text}; {worlds}; settings {settings}."


def _claims_table(suite: Suite) -> str:
    rows = [[claim.text, claim.verdict, claim.numbers] for claim in claims(suite)]
    return page.table(["claim", "runs at hand", "numbers"], rows, numeric=None)


def _scores(suite: Suite, env: str) -> str:
    header = ["setting", "seeds", "mean ± deviation", "IQM", "95 %", "per seed", "steps"]
    header += ["time per run", "denoiser frames", "late changes"]
    rows = [_score_row(suite, env, config) for config in suite.configs(env)]
    used = [i for i in range(len(header)) if any(row[i] != "-" for row in rows)]
    kept = [[row[i] for i in used] for row in rows]
    return page.heading(env, 3) + page.table([header[i] for i in used], kept)


def _score_row(suite: Suite, env: str, config: str) -> list[str]:
    runs, scores = suite.of(env, config), list(suite.scores(env, config).values())
    if not scores:
        return [config, "0", *["-"] * 8]
    interval = bootstrap_interval([scores], interquartile_mean)
    seconds = [run.seconds for run in runs if run.seconds]
    late = [run.late_changes for run in runs if run.late_changes is not None]
    return [
        config,
        str(len(scores)),
        f"{_short(np.mean(scores))} ± {_short(np.std(scores))}",
        _short(interval.estimate),
        f"{_short(interval.low)} to {_short(interval.high)}" if len(scores) > 1 else "one run",
        ", ".join(_short(score) for score in sorted(scores)),
        str(suite.common_step(env, [config])),
        duration(float(np.mean(seconds))) if seconds else "-",
        str(runs[0].frames_per_imagination),
        f"{np.mean(late):.3f}" if late else "-",
    ]


def _short(number: float | np.floating) -> str:
    return page.readable(float(number), digits=3)


def _comparisons(suite: Suite) -> str:
    rows = []
    for found in comparisons(suite):
        where = found.envs[0] if len(found.envs) == 1 else f"all {len(found.envs)} worlds, scaled"
        rows.append(
            [
                f"{found.a} over {found.b}",
                where,
                f"{max(found.steps)}",
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
    """An estimate and its interval, which one run alone does not have."""
    low, estimate, high = (
        ("+" if sign and x > 0 else "") + _short(x)
        for x in (interval.low, interval.estimate, interval.high)
    )
    return f"{estimate} ({low} to {high})" if runs > 1 else estimate


def _beside_published(suite: Suite) -> list[str]:
    rows = []
    for env in suite.envs():
        for config in [c for c in suite.configs(env) if c in published_configs(env)]:
            step = suite.common_step(env, [config])
            recent = [recent_return(run.curve, step) for run in suite.of(env, config)]
            ours = [score for score in recent if score is not None]
            theirs = published_at(env, config, step) if step else None
            if ours and theirs:
                published = f"{_short(theirs.mean)} ± {_short(theirs.std)} ({theirs.seeds} seeds)"
                mine = f"{_short(np.mean(ours))} ± {_short(np.std(ours))} ({len(ours)} seeds)"
                rows.append([env, config, str(step), mine, published])
    if not rows:
        return []
    header = ["world", "setting", "steps", "ours", "published"]
    return [page.heading("Beside the published runs"), page.table(header, rows, numeric=2)]
