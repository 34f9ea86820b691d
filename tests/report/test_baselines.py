"""A run of one of the paper's worlds is shown beside the published runs of its setting."""

from pathlib import Path

import numpy as np
import pytest

from horizon_imagination.config import Config, EnvConfig, ImaginationConfig
from horizon_imagination.metrics.published import published_curve
from horizon_imagination.metrics.statistics import moving_average
from horizon_imagination.report.charts import (
    learning_charts,
    published_lines,
    published_numbers,
    published_setting,
)
from horizon_imagination.run.read import Run

GOPHER = "ALE/Gopher-v5"


def record(returns: dict[int, float], env=GOPHER, offline=None, **imagination) -> Run:
    config = Config(env=EnvConfig(id=env), imagination=ImaginationConfig(**imagination))
    metrics = [
        {"epoch": i, "env/steps": step, "env/return": value}
        for i, (step, value) in enumerate(returns.items())
    ]
    return Run(Path("run"), config, "paper", offline, metrics, [])


@pytest.mark.parametrize(
    "imagination, setting",
    [
        ({"budget": 16, "decay_horizon": 4.0}, "hi-4-16"),
        ({"budget": 32, "decay_horizon": 4.0}, "hi-4-32"),
        ({"budget": 32, "decay_horizon": 1.0}, "ar"),
        ({"budget": 16, "decay_horizon": 4.0, "sampler": "naive", "engine": "plain"}, "naive-4-16"),
        ({"budget": 16, "decay_horizon": 4.0, "sampler": "naive_held"}, None),
        ({"budget": 16, "decay_horizon": 2.0}, None),
        ({"budget": 16, "decay_horizon": 4.0, "horizon": 16}, None),
    ],
)
def test_a_run_is_compared_with_its_own_setting_only(imagination, setting):
    config = Config(env=EnvConfig(id=GOPHER), imagination=ImaginationConfig(**imagination))
    assert published_setting(config) == setting


def test_worlds_that_are_not_the_papers_have_nothing_beside_them():
    run = record({1000: 1.0}, env="catch")
    assert published_setting(run.config) is None
    assert published_lines(run, 1) == [] and published_numbers(run) == []
    offline = record({1000: 1.0}, offline="data")
    assert published_lines(offline, 1) == [] and published_numbers(offline) == []


def test_numbers_are_means_over_the_last_ten_thousand_steps():
    run = record({9_000: 5_000.0, 12_000: 900.0, 20_000: 1_100.0})
    (ours, _), (theirs, about) = published_numbers(run)
    assert ours == "1,000", "the episode at 9,000 steps is older than 10,000 steps"
    assert theirs == "961 ± 166" and "hi-4-16" in about


def test_small_returns_keep_their_digits():
    (ours, _), (theirs, _) = published_numbers(record({20_000: -2.84}, env="ALE/Boxing-v5"))
    assert ours == "-2.84" and theirs == "-2.83 ± 2.33"


def test_what_the_published_runs_did_later_is_not_shown():
    climber = "ALE/CrazyClimber-v5"
    (line,) = published_lines(record({16_000: 1.0}, env=climber), window=9)
    curves = published_curve(climber, "hi-4-16").values()
    smoothed = [moving_average(c.returns[c.steps <= 16_000], 9)[-1] for c in curves]
    leaking = [moving_average(c.returns, 9)[(c.steps <= 16_000).sum() - 1] for c in curves]
    assert line.x.max() <= 16_000
    assert line.y[-1] < 1.5 * np.mean(smoothed) < 0.5 * np.mean(leaking)


def test_the_published_curve_lies_below_the_returns_of_the_run():
    chart = learning_charts(record({1000: 1.0, 12_000: 2.0}))[0]
    assert chart.lines[0].label == "published (hi-4-16, 5 seeds)"
    assert chart.lines[0].deviation is not None and chart.lines[1].label == "training"
