"""Which curves a report shows of one run or several, and what they are compared with."""

from dataclasses import replace

from horizon_imagination.config import Config
from horizon_imagination.envs.known import reference_scores
from horizon_imagination.figures import PALETTE, colour_of
from horizon_imagination.metrics.published import (
    WINDOW,
    published_at,
    published_configs,
    recent_return,
)
from horizon_imagination.metrics.statistics import (
    Interval,
    bootstrap_interval,
    mean,
    smoothing_window,
)
from horizon_imagination.report.curves import Chart, Line, mean_line
from horizon_imagination.report.suite import PAPER_SETTINGS, curve_of, published_suite
from horizon_imagination.run.diagnosis import UNHEEDED
from horizon_imagination.run.read import Run
from horizon_imagination.wording import number

RETURN, EVALUATION = "env/return", "evaluation/return"
LENGTH = "env/length"
IMAGINED, IMAGINED_LENGTH = "controller/imagined_return", "controller/imagined_length"
INFORMATION, LATE = "controller/state_action_information", "controller/late_changes"
CHANGES, UNHEEDED_CHANGES = "controller/action_changes", "world_model/unheeded_changes"
ENTROPY, ENDED, ENDS = "controller/entropy", "controller/ended", "world_model/ends"
TITLES = {
    "world_model/action_gap": "Action gap: denoiser error added by a wrong action",
    ENTROPY: "Entropy of the policy (nats)",
    INFORMATION: "Mutual information of state and action (nats)",
    CHANGES: "Changes of an action while its frame is denoised",
    LATE: "Late changes: share of actions their frame was not made with",
    UNHEEDED_CHANGES: "Unheeded changes: what stays of an action that changed",
    ENDED: "Share of imaginations that end",
}
"""How actions behave, by metric."""
COMPARED = (ENTROPY, INFORMATION, CHANGES, LATE, "world_model/action_gap")
"""Those of them that are drawn for several runs."""
FROM_ZERO = {ENTROPY, INFORMATION, CHANGES, LATE, ENDS}
"""Counts and shares: their axis begins at 0."""
CLIPPED = (-0.2, 1.2)
"""Where the share of a first action's effect is worth a look; the first epochs are far outside."""
MOST_NAMED = 4
"""Runs up to which a chart has a legend of its own."""
LONG = 100
"""Epochs from which on returns are averaged as in the paper."""


def learning_charts(run: Run) -> list[Chart]:
    """Returns and rewards, real and imagined, and how actions behave while frames are denoised."""
    return [*_reward_charts(run), *_action_charts(run)]


def _reward_charts(run: Run) -> list[Chart]:
    window = _window(run)
    sources = {
        "real": "real",
        "read": "predicted from real frames",
        "imagined": "predicted from imagined frames",
    }

    def recorded(what: str) -> list[Line]:
        few = epochs_to_average(len(run.series(f"world_model/real_{what}")[0]))
        return [
            _line(run, f"world_model/{source}_{what}", label, place, smooth=few)
            for place, (source, label) in enumerate(sources.items())
        ]

    return [
        _chart(
            run,
            "Return",
            *published_lines(run, window),
            _line(run, RETURN, "training", 0, smooth=window),
            _line(run, EVALUATION, "evaluation", 1, marker="o"),
            levels=landmarks(run),
        ),
        _chart(
            run,
            "Reward per step, imagined and real",
            _line(run, IMAGINED, "imagined", 2, per=IMAGINED_LENGTH),
            _line(run, RETURN, "real, training episodes", 0, smooth=window, per=LENGTH),
        ),
        _chart(run, "Reward of recorded actions", *recorded("reward")),
        _axis(_chart(run, "Share of recorded segments that end", *recorded("end")), ENDED),
    ]


def _action_charts(run: Run) -> list[Chart]:
    ends = [
        _line(run, ENDS, "real", 0),
        _line(run, "world_model/ends_foreseen", "predicted", 1),
    ]
    return [
        *(_axis(_chart(run, title, _line(run, key, "", 0)), key) for key, title in TITLES.items()),
        _axis(_chart(run, "Episode ends in a batch of real segments", *ends), ENDS),
    ]


def loss_charts(run: Run) -> list[Chart]:
    """What the learners minimise."""
    groups = {
        "Tokenizer loss": {
            "tokenizer/reconstruction": "reconstruction",
            "tokenizer/perceptual": "perceptual",
        },
        "World model loss": {
            "world_model/denoiser": "denoiser",
            "world_model/reward": "reward",
            "world_model/end": "end",
        },
        "Critic loss": {"controller/critic": ""},
        "Value and lambda-return in imagination": {
            "controller/value": "value",
            "controller/lambda_return": "lambda-return",
        },
        "Scale of returns": {"controller/return_scale": ""},
    }
    return [
        _chart(
            run,
            title,
            *(_line(run, key, label, place) for place, (key, label) in enumerate(keys.items())),
            logarithmic=title.endswith("loss"),
        )
        for title, keys in groups.items()
    ]


def compare_charts(runs: list[Run]) -> list[Chart]:
    """One chart per metric, one line per run."""
    titles = {
        RETURN: "Training return",
        EVALUATION: "Evaluation return",
        IMAGINED: "Imagined return, within the horizon",
        **{key: TITLES[key] for key in COMPARED},
        "tokenizer/reconstruction": "Tokenizer loss",
        "world_model/denoiser": "Denoiser loss",
        "controller/critic": "Critic loss",
    }
    one_world = len({run.config.env.id for run in runs}) == 1
    charts = []
    for key, title in titles.items():
        smooth = _window(runs[0]) if key == RETURN else 1
        marker = "o" if key == EVALUATION else ""
        lines = [
            _line(run, key, run.name, place, smooth=smooth, marker=marker)
            for place, run in enumerate(runs)
        ]
        levels = landmarks(*runs) if one_world and key in (RETURN, EVALUATION) else {}
        loss, few = title.endswith("loss"), len(runs) <= MOST_NAMED
        chart = _chart(runs[0], title, *lines, logarithmic=loss, levels=levels)
        charts.append(_axis(replace(chart, legend=few), key))  # the table names every colour
    return charts


def _chart(
    run: Run,
    title: str,
    *lines: Line,
    logarithmic: bool = False,
    levels: dict[str, float] | None = None,
) -> Chart:
    across = "epoch" if run.offline else "environment steps"
    return Chart(title, list(lines), across, logarithmic=logarithmic, levels=levels or {})


def _axis(chart: Chart, key: str) -> Chart:
    """The chart of a metric with the axis that belongs to it."""
    if key == UNHEEDED_CHANGES:
        return replace(chart, limits=CLIPPED, levels={"horizon doctor warns": UNHEEDED})
    if key == ENDED:
        return replace(chart, limits=(0, 1))
    return replace(chart, limits=(0, None)) if key in FROM_ZERO else chart


def _line(
    run: Run,
    key: str,
    label: str,
    place: int,
    *,
    smooth: int = 1,
    marker: str = "",
    per: str | None = None,
) -> Line:
    x, y = run.series(key, per)
    return Line(label, x, y, colour_of(place), smooth=smooth, marker=marker)


def _window(run: Run) -> int:
    return epochs_to_average(len(run.series(RETURN)[0]))


def epochs_to_average(points: int) -> int:
    """The window of a moving average that does not hide how a short run ends.

    >>> [epochs_to_average(points) for points in (34, 60, 80, 100)]
    [1, 3, 5, 15]
    """
    return smoothing_window(points) if points >= LONG else points // 40 * 2 + 1


def landmarks(*runs: Run) -> dict[str, float]:
    """Returns of the runs' world to compare with: random play, and best or human where known."""
    known = reference_scores(runs[0].config.env.id)
    played = [found for run in runs if (found := run.random_play()) is not None]
    if "random" in known or not played:
        return known
    episodes = sum(count for _, count in played)
    return {"random": sum(score * count for score, count in played) / episodes} | known


def evaluated(run: Run) -> tuple[Interval, int] | None:
    """Mean return of the newest evaluation, its bootstrap interval, and its number of episodes."""
    for entry in reversed(run.evaluations):
        returns = [episode["total_reward"] for episode in entry.get("episodes", [])]
        if returns:
            return bootstrap_interval([returns], mean), len(returns)
    return None


def published_setting(config: Config) -> str | None:
    """The published setting that a config repeats, or none."""
    cfg, naive = config.imagination, config.imagination.sampler == "naive"
    if cfg.horizon != 32 or cfg.sampler not in ("stable", "naive"):
        return None
    for name in published_configs(config.env.id):
        same = PAPER_SETTINGS[name] == (cfg.budget, cfg.decay_horizon)
        if same and name.startswith("naive") == naive and not name.startswith("ablation"):
            return name
    return None


def published_lines(run: Run, window: int) -> list[Line]:
    """Mean and deviation of the published runs, as far as this one has come."""
    setting = None if run.offline else published_setting(run.config)
    if setting is None or not run.env_steps:
        return []
    runs = published_suite().of(run.config.env.id, setting)
    past = [theirs.until(run.env_steps).curve for theirs in runs]
    label = f"published ({setting}, {len(runs)} seeds)"
    return [replace(mean_line(past, label, PALETTE[3], window), style=":")]


def published_numbers(run: Run) -> list[tuple[str, str]]:
    """The recent training return of a run and of the published ones, at the same step."""
    setting = None if run.offline else published_setting(run.config)
    curve = curve_of(run)
    if setting is None or not len(curve.steps):
        return []
    step = run.env_steps
    ours = recent_return(curve, step)
    theirs = published_at(run.config.env.id, setting, step)
    if ours is None or theirs is None:
        return []
    return [
        (number(ours, 3), f"training return\nlast {WINDOW:,} steps"),
        (
            f"{number(theirs.mean, 3)} ± {number(theirs.sample_std, 3)}",
            f"published {setting} runs\n{theirs.seeds} seeds, same step",
        ),
    ]
