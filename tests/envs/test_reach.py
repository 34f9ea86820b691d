"""The continuous embedded worlds: rules, pictures, best return."""

import gymnasium
import numpy as np
import pytest

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import make_env, restore, snapshot
from horizon_imagination.envs.known import known_actions, reference_scores
from horizon_imagination.envs.reach import Reach, SmallReach, best_return
from horizon_imagination.envs.spaces import action_space
from horizon_imagination.errors import UsageError


def mean_return(world, policy, episodes):
    env, total = world(16, 0), 0.0
    env.render = lambda: np.zeros((16, 16, 3), np.uint8)
    for _ in range(episodes):
        env.reset()
        ended = False
        while not ended:
            _, reward, ended, _, _ = env.step(policy(env))
            total += reward
    return total / episodes


def straight(env):
    return np.clip((env.target - env.point) / env.REACH, -1, 1)


def test_the_best_return_by_hand():
    """One step of reach 1: the mean of (x - 1)^2 (2 - x) / 2 over x from 1 to 2 is 1 / 24."""
    assert best_return(1, 1, 1.0) == pytest.approx(-1 / 24)
    assert best_return(2, 3, 1.0) == pytest.approx(-2 / 24)
    assert pytest.approx(-(1.2**4 + 0.4**4) / 24) == SmallReach.BEST_RETURN


@pytest.mark.parametrize("world", [Reach, SmallReach])
def test_the_known_returns_are_those_of_play(world):
    rng = np.random.default_rng(0)
    spread = 5 * world.AXES / 1000**0.5  # five standard errors, generously
    assert mean_return(world, straight, 1000) == pytest.approx(world.BEST_RETURN, abs=spread / 10)
    random = mean_return(world, lambda env: rng.uniform(-1, 1, env.AXES), 1000)
    assert random == pytest.approx(world.RANDOM_RETURN, abs=2 * spread)


def test_the_frame_tells_places_to_a_fraction_of_a_pixel():
    env = SmallReach(32, 0)
    env.reset(seed=1)
    frames = []
    for move in (0.0, 0.01):
        env.point = np.array([move])
        frames.append(env.render().astype(int))
    moved = frames[1] - frames[0]
    assert np.abs(moved).sum() > 0 and not moved[: 32 // 2].any()  # the target stays
    assert frames[0].shape == (32, 32, 3)


@pytest.mark.parametrize("name", ["reach", "small-reach"])
def test_what_is_known_of_the_worlds_is_true(name):
    env = make_env(EnvConfig(id=name, size=24), 0)
    assert known_actions(name) == action_space(env)
    scores = reference_scores(name)
    assert scores["random"] < scores["best"] < 0


def test_an_episode_can_be_taken_up_where_it_was_left():
    env = make_env(EnvConfig(id="reach", size=16), 0)
    env.reset()
    env.step(np.array([0.5, -0.5]))
    kept = snapshot(env)
    frame, *first = env.step(np.array([1.0, 0.0]))
    other = make_env(EnvConfig(id="reach", size=16), 9)
    restore(other, kept)
    again, *second = other.step(np.array([1.0, 0.0]))
    assert np.array_equal(frame, again) and first == second


@pytest.mark.parametrize("bad", [[0.0, 1.5], [np.nan, 0.0], [0.0], 1.0, ["left", 0.0]])
def test_a_bad_action_is_refused_in_one_line(bad):
    env = Reach(16, 0)
    env.reset()
    with pytest.raises(UsageError, match="is not 2 numbers from -1 to 1"):
        env.step(bad)


def test_a_step_after_the_end_asks_for_a_reset():
    with pytest.raises(gymnasium.error.ResetNeeded):
        SmallReach(16, 0).step([0.0])
    with pytest.raises(UsageError, match="too small"):
        Reach(8)
