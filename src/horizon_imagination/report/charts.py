"""Which curves a report shows, for one run and for several."""

from horizon_imagination.metrics.statistics import smoothing_window
from horizon_imagination.report.beside_published import published_lines
from horizon_imagination.report.curves import PALETTE, Chart, Line
from horizon_imagination.report.records import RunRecord

RETURN, EVALUATION = "env/return", "evaluation/return"
LENGTH = "env/length"
IMAGINED, IMAGINED_LENGTH = "controller/imagined_return", "controller/imagined_length"
MOST_NAMED = 4
"""Runs up to which a chart has a legend of its own."""


def colour_of(place: int) -> str:
    """The colour of a run among several."""
    return PALETTE[place % len(PALETTE)]


def learning_charts(record: RunRecord) -> list[Chart]:
    """Returns and rewards, real and imagined, and how actions behave while frames are denoised."""
    return [*_reward_charts(record), *_action_charts(record)]


def _reward_charts(record: RunRecord) -> list[Chart]:
    window, x_label = _window(record), record.horizontal
    paid = {
        "world_model/real_reward": "in reality",
        "world_model/read_reward": "there, read off the frames",
        "world_model/imagined_reward": "in imagination",
    }
    segments = smoothing_window(len(record.series("world_model/real_reward")[0]))
    return [
        Chart(
            "Return",
            [
                *published_lines(record, window),
                _line(record, RETURN, "training", 0, smooth=window),
                _line(record, EVALUATION, "evaluation", 1, marker="o"),
            ],
            x_label,
            levels=record.landmarks(),
        ),
        Chart(
            "Reward per step, imagined and real",
            [
                _line(record, IMAGINED, "imagined", 2, per=IMAGINED_LENGTH),
                _line(record, RETURN, "real, training episodes", 0, smooth=window, per=LENGTH),
            ],
            x_label,
        ),
        Chart(
            "What recorded actions pay",
            [
                _line(record, metric, label, place, smooth=segments)
                for place, (metric, label) in enumerate(paid.items())
            ],
            x_label,
        ),
    ]


def _action_charts(record: RunRecord) -> list[Chart]:
    x_label = record.horizontal
    return [
        Chart(
            "What a wrong action costs the denoiser",
            [_line(record, "world_model/action_gap", "", 8)],
            x_label,
        ),
        Chart("Entropy of the policy", [_line(record, "controller/entropy", "", 3)], x_label),
        Chart(
            "How far actions depend on what is seen (nats)",
            [_line(record, "controller/sight", "", 9)],
            x_label,
        ),
        Chart(
            "Action changes while a frame is in flight",
            [_line(record, "controller/action_changes", "", 4)],
            x_label,
        ),
        Chart(
            "Share of actions changed too late",
            [_line(record, "controller/late_changes", "", 5)],
            x_label,
        ),
        Chart(
            "Share of imaginations that end",
            [_line(record, "controller/ended", "", 6)],
            x_label,
        ),
        Chart(
            "Ends in a batch of real segments",
            [
                _line(record, "world_model/ends", "real", 6),
                _line(record, "world_model/ends_foreseen", "foreseen", 7),
            ],
            x_label,
        ),
    ]


def loss_charts(record: RunRecord) -> list[Chart]:
    """What the learners minimise."""
    x_label = record.horizontal
    groups = {
        "Tokenizer": {"reconstruction": "reconstruction", "perceptual": "perceptual"},
        "World model": {"denoiser": "denoiser", "reward": "reward", "end": "end"},
        "Critic": {"critic": ""},
    }
    sections = {"Tokenizer": "tokenizer", "World model": "world_model", "Critic": "controller"}
    charts = [
        Chart(
            f"{title} loss",
            [
                _line(record, f"{sections[title]}/{key}", label, place)
                for place, (key, label) in enumerate(keys.items())
            ],
            x_label,
            logarithmic=True,
        )
        for title, keys in groups.items()
    ]
    returns = {"value": "critic's value", "lambda_return": "lambda-return"}
    lines = [
        _line(record, f"controller/{key}", label, i)
        for i, (key, label) in enumerate(returns.items())
    ]
    scale = _line(record, "controller/return_scale", "", 2)
    return [
        *charts,
        Chart("Value and lambda-return in imagination", lines, x_label),
        Chart("Scale of returns", [scale], x_label),
    ]


def compare_charts(records: list[RunRecord]) -> list[Chart]:
    """One chart per metric, one line per run."""
    titles = {
        RETURN: "Training return",
        EVALUATION: "Evaluation return",
        IMAGINED: "Imagined return, within the horizon",
        "controller/entropy": "Entropy of the policy",
        "controller/action_changes": "Action changes while a frame is in flight",
        "controller/late_changes": "Share of actions changed too late",
        "tokenizer/reconstruction": "Tokenizer loss",
        "world_model/denoiser": "Denoiser loss",
        "controller/sight": "How far actions depend on what is seen",
        "world_model/action_gap": "What a wrong action costs the denoiser",
        "controller/critic": "Critic loss",
    }
    one_world = len({record.config.env.id for record in records}) == 1
    charts = []
    for key, title in titles.items():
        smooth = _window(records[0]) if key == RETURN else 1
        marker = "o" if key == EVALUATION else ""
        lines = [
            _line(record, key, record.name, place, smooth=smooth, marker=marker)
            for place, record in enumerate(records)
        ]
        levels = records[0].landmarks() if one_world and key in (RETURN, EVALUATION) else {}
        loss = title.endswith("loss")
        charts.append(
            Chart(
                title,
                lines,
                records[0].horizontal,
                logarithmic=loss,
                levels=levels,
                # The table above names every colour.
                legend=len(records) <= MOST_NAMED,
            )
        )
    return charts


def _line(
    record: RunRecord,
    key: str,
    label: str,
    place: int,
    *,
    smooth: int = 1,
    marker: str = "",
    per: str | None = None,
) -> Line:
    x, y = record.series(key, per)
    return Line(label, x, y, colour_of(place), smooth=smooth, marker=marker)


def _window(record: RunRecord) -> int:
    return smoothing_window(len(record.series(RETURN)[0]))
