"""Statistics against numbers worked out by hand, and the properties they promise."""

import numpy as np
import pytest
from scipy.stats import trim_mean

from horizon_imagination.envs.known import ATARI_SCORES
from horizon_imagination.errors import UsageError
from horizon_imagination.metrics import statistics


def test_the_interquartile_mean_drops_a_quarter_on_each_side():
    assert statistics.interquartile_mean([8, 1, 100, 4, 2, 6, -50, 3]) == (2 + 3 + 4 + 6) / 4
    assert statistics.interquartile_mean([1, 2, 6]) == 3
    assert statistics.interquartile_mean([5]) == 5


@pytest.mark.parametrize("size", [4, 5, 10, 15, 23])
def test_the_interquartile_mean_agrees_with_scipy(size):
    scores = np.random.default_rng(size).normal(size=size)
    assert statistics.interquartile_mean(scores) == pytest.approx(trim_mean(scores, 0.25))


def test_the_bootstrap_interval_of_a_mean_has_the_textbook_width():
    scores = np.random.default_rng(0).normal(3, 2, size=400)
    found = statistics.bootstrap_interval([scores], statistics.mean, seed=1)
    half = 1.96 * scores.std() / np.sqrt(400)
    assert found.estimate == pytest.approx(scores.mean())
    assert found.low == pytest.approx(scores.mean() - half, abs=0.15 * half)
    assert found.high == pytest.approx(scores.mean() + half, abs=0.15 * half)


def test_the_bootstrap_stays_within_tasks():
    """Two tasks without spread leave nothing to resample, however far apart they are."""
    found = statistics.bootstrap_interval([[1.0] * 5, [100.0] * 5], statistics.mean)
    assert (found.low, found.estimate, found.high) == (50.5, 50.5, 50.5)


def test_intervals_depend_on_the_seed_alone():
    scores = [np.random.default_rng(5).normal(size=20)]
    first, again, other = (
        statistics.bootstrap_interval(scores, seed=s, resamples=200) for s in (0, 0, 1)
    )
    assert first == again != other


def test_a_wider_level_gives_a_wider_interval():
    scores = [[1, 5, 2, 8, 3, 9, 4]]
    narrow, wide = (statistics.bootstrap_interval(scores, level=x) for x in (0.5, 0.95))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_interval_of_a_difference_is_antisymmetric_in_its_estimate_and_finds_a_gap():
    a, b = [[10.0, 11, 12, 13, 14]], [[1.0, 2, 3, 4, 5]]
    found = statistics.difference_interval(a, b, statistics.mean)
    assert found.estimate == 9 and 6 < found.low < 9 < found.high < 12
    assert statistics.difference_interval(b, a, statistics.mean).estimate == -9
    same = statistics.difference_interval(a, a)
    assert same.low < 0 == same.estimate < same.high


def test_the_probability_of_improvement_counts_pairs_and_half_ties():
    assert statistics.probability_of_improvement([[2, 3]], [[1, 2]]) == (1 + 0.5 + 1 + 1) / 4
    assert statistics.probability_of_improvement([[2, 3], [0]], [[1, 2], [1]]) == 0.875 / 2
    assert statistics.probability_of_improvement([[1, 2]], [[1, 2]]) == 0.5


def test_the_interval_of_improvement_is_a_point_where_methods_never_overlap():
    found = statistics.improvement_interval([[5, 6, 7]], [[1, 2, 3]], resamples=50)
    assert (found.low, found.estimate, found.high) == (1, 1, 1)
    unsure = statistics.improvement_interval([[1, 4, 6]], [[2, 3, 5]], resamples=200)
    assert unsure.low < unsure.estimate < unsure.high


def test_human_scores_normalise_to_zero_and_one():
    assert len(ATARI_SCORES) == 26
    for game, (low, high) in ATARI_SCORES.items():
        assert statistics.human_normalized(game, low) == 0
        assert statistics.human_normalized(f"ALE/{game}-v5", high) == 1
    assert statistics.human_normalized("Gopher", 3594) == pytest.approx(1.5483, abs=1e-4)


def test_a_game_without_a_human_score_is_named():
    with pytest.raises(UsageError, match="Zork"):
        statistics.human_normalized("ALE/Zork-v5", 1.0)


def test_the_moving_average_is_centred():
    spike = np.zeros(31)
    spike[15] = 15.0
    smooth = statistics.moving_average(spike)
    assert np.allclose(smooth[8:23], 1) and np.allclose(smooth[:8], 0)
    line = np.arange(40.0)
    assert np.allclose(statistics.moving_average(line)[7:-7], line[7:-7])
    assert np.allclose(statistics.moving_average(line)[0], line[:8].mean())


@pytest.mark.parametrize("scores", [[], [1.0, float("nan")]])
def test_nothing_is_computed_from_nothing(scores):
    with pytest.raises(ValueError, match="at least one"):
        statistics.mean(scores)
