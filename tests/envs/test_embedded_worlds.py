"""Catch and Fog: rules, returns known exactly, frames, state."""

import itertools
import json

import numpy as np
import pytest

from horizon_imagination.actions import Discrete
from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import env_names, make_env, restore, snapshot
from horizon_imagination.envs.catch import COLOURS, Catch, SmallCatch
from horizon_imagination.envs.fog import Fog
from horizon_imagination.errors import UsageError

LEFT, STAY, RIGHT = range(3)
COLUMNS = range(8)
GUSTS = (-1, 0, 1)
STARTS = [(column, paddle) for column in COLUMNS for paddle in COLUMNS]


def placed(world: type[Catch], column: int, paddle: int) -> Catch:
    """An episode that begins with ball and paddle where we want them."""
    env = world(size=16)
    env.reset(seed=0)
    env.column, env.paddle = column, paddle
    return env


def towards(target: int, paddle: int) -> int:
    return 1 + int(np.sign(target - paddle))


def moved(columns: np.ndarray, shift: int) -> np.ndarray:
    """Where a distribution over columns goes when all of it moves, stopped by the walls."""
    after = np.zeros(8)
    for column, mass in enumerate(columns):
        after[min(max(column + shift, 0), 7)] += mass
    return after


def test_small_catch_can_always_be_won_and_pays_minus_a_half_at_random():
    """Enumerated: all starts; all sequences of three actions."""
    won, chance = [], []
    for column, paddle in itertools.product(range(4), repeat=2):
        for actions in itertools.product((LEFT, STAY, RIGHT), repeat=3):
            env = placed(SmallCatch, column, paddle)
            *_, (_, reward, terminated, _, _) = [env.step(action) for action in actions]
            assert terminated
            chance.append(reward)
        env = placed(SmallCatch, column, paddle)
        *_, (_, reward, *_) = [env.step(towards(env.column, env.paddle)) for _ in range(3)]
        won.append(reward)
    assert np.mean(won) == SmallCatch.BEST_RETURN
    assert np.mean(chance) == SmallCatch.RANDOM_RETURN


@pytest.mark.parametrize("world", [Catch, Fog])
def test_an_episode_takes_seven_steps_and_pays_only_at_the_end(world):
    env = world(size=16)
    env.reset(seed=3)
    rewards, ends = [], []
    for _ in range(7):
        _, reward, terminated, truncated, _ = env.step(STAY)
        rewards.append(reward)
        ends.append(terminated)
        assert not truncated
    assert ends == [False] * 6 + [True]
    assert rewards[:6] == [0.0] * 6 and rewards[6] in (-1.0, 1.0)


@pytest.mark.parametrize("column,paddle", STARTS)
def test_every_ball_of_catch_can_be_caught(column, paddle):
    env = placed(Catch, column, paddle)
    for _ in range(7):
        _, reward, *_ = env.step(towards(env.column, env.paddle))
    assert reward == Catch.BEST_RETURN


@pytest.mark.parametrize("column,paddle", STARTS)
def test_every_ball_in_the_fog_can_be_caught_by_one_who_remembers(column, paddle):
    """The script looks at the ball in the two frames that show it, and never again."""
    for seed in range(6):  # gusts of all three kinds are among them
        env = placed(Fog, column, paddle)
        env.np_random = np.random.default_rng(seed)
        seen = env.column
        for step in range(7):
            if step < 2:
                seen = env.column
            _, reward, *_ = env.step(towards(seen, env.paddle))
        assert reward == Fog.BEST_RETURN


@pytest.mark.parametrize("world", [Catch, Fog])
def test_random_actions_return_what_the_world_says(world):
    """Exactly, by carrying the distributions of ball and paddle through all steps."""
    uniform = np.full(8, 1 / 8)
    paddle, ball = uniform, uniform
    for step in range(7):
        paddle = sum(moved(paddle, shift) / 3 for shift in (-1, 0, 1))
        if world is Fog and step == 0:
            ball = sum(moved(ball, gust) / 3 for gust in GUSTS)
    expected = 2 * float(paddle @ ball) - 1
    assert expected == pytest.approx(world.RANDOM_RETURN, abs=1e-12)
    rng, total, episodes = np.random.default_rng(0), 0.0, 1000
    env = world(size=8, seed=1)
    for _ in range(episodes):
        env.reset()
        for _ in range(7):
            _, reward, *_ = env.step(rng.integers(3))
        total += reward
    assert total / episodes == pytest.approx(world.RANDOM_RETURN, abs=0.08)


def test_no_policy_without_memory_comes_near_the_best_return_in_the_fog():
    """Every deterministic rule for the fog (3^8), with the best play possible before it."""
    rules = np.array(list(itertools.product(GUSTS, repeat=8)))
    landing = np.tile(np.arange(8), (len(rules), 1))
    for _ in range(5):
        landing = np.clip(landing + np.take_along_axis(rules, landing, axis=1), 0, 7)
    # clairvoyance before the fog (the ball's final column is known at once) only helps
    caught = np.zeros(len(rules))
    for paddle, ball in itertools.product(COLUMNS, COLUMNS):
        reach = range(max(paddle - 2, 0), min(paddle + 2, 7) + 1)
        caught += (landing[:, reach] == ball).any(axis=1) / 64
    best = 2 * caught.max() - 1
    reachable = [min(p + 2, 7) - max(p - 2, 0) + 1 for p in COLUMNS]
    assert 2 * np.mean(reachable) / 8 - 1 == Fog.MEMORYLESS_BOUND
    assert best <= Fog.MEMORYLESS_BOUND < Fog.BEST_RETURN - 0.9


def test_a_gust_moves_the_ball_once_and_each_way_alike():
    moves = []
    for seed in range(300):
        env = placed(Fog, 4, 0)
        env.np_random = np.random.default_rng(seed)
        columns = []
        for _ in range(7):
            env.step(STAY)
            columns.append(env.column)
        assert len(set(columns)) == 1  # in the fog it falls straight
        moves.append(columns[0] - 4)
    assert {move: moves.count(move) for move in GUSTS} == pytest.approx(
        dict.fromkeys(GUSTS, 100), abs=30
    )


def test_the_fog_hides_the_ball_and_only_the_ball():
    hidden = [placed(Fog, 2, 5), placed(Fog, 6, 5)]
    seen = []
    for _ in range(7):
        frames = [env.step(STAY)[0] for env in hidden]
        seen.append(not np.array_equal(*frames))
    assert seen == [True, False, False, False, False, False, True]


def test_frames_show_ball_and_paddle_in_their_cells():
    env = Catch(size=64)
    env.reset(seed=0)
    env.column, env.paddle = 3, 6
    frame = env.render()
    cells = frame[4::8, 4::8]
    assert np.array_equal(cells[0, 3], COLOURS[1]) and np.array_equal(cells[7, 6], COLOURS[2])
    assert (cells == COLOURS[0]).all(axis=2).sum() == 62
    assert np.array_equal(frame, np.repeat(np.repeat(cells, 8, axis=0), 8, axis=1))


@pytest.mark.parametrize("name", ["catch", "small-catch", "fog", "small-fog"])
@pytest.mark.parametrize("size,grey", [(64, False), (32, False), (20, False), (32, True)])
def test_frames_have_the_size_and_channels_asked_for(name, size, grey):
    env = make_env(EnvConfig(id=name, size=size, grey=grey), seed=0)
    frame, _ = env.reset()
    assert frame.shape == env.observation_space.shape == (size, size, 1 if grey else 3)
    assert (
        frame.dtype == np.uint8 and len(np.unique(frame.reshape(-1, frame.shape[2]), axis=0)) >= 3
    )


def play(env, steps: int, rng_seed: int = 5) -> list:
    rng, trace = np.random.default_rng(rng_seed), []
    for _ in range(steps):
        frame, reward, terminated, truncated, _ = env.step(int(rng.integers(3)))
        trace.append((frame.tobytes(), reward, terminated, truncated))
        if terminated or truncated:
            trace.append(env.reset()[0].tobytes())
    return trace


@pytest.mark.parametrize("name", ["catch", "small-catch", "fog", "small-fog"])
def test_the_same_seed_gives_the_same_world(name):
    envs = [make_env(EnvConfig(id=name, size=16), seed=s) for s in (4, 4, 5)]
    for env in envs:
        env.reset()
    first, second, other = (play(env, 60) for env in envs)
    assert first == second != other


@pytest.mark.parametrize("name", ["catch", "small-catch", "fog", "small-fog"])
@pytest.mark.parametrize("steps", [0, 1, 5, 23])
def test_a_restored_world_goes_on_as_if_nothing_had_happened(name, steps):
    cfg = EnvConfig(id=name, size=16, time_limit=5, grey=True)
    env = make_env(cfg, seed=1)
    env.reset()
    play(env, steps)
    state = json.loads(json.dumps(snapshot(env)))
    after = play(env, 40)
    fresh = make_env(cfg, seed=99)
    restore(fresh, state)
    assert play(fresh, 40) == after


def test_a_state_of_another_environment_is_refused():
    state = snapshot(make_env(EnvConfig(id="catch"), seed=0))
    assert state is not None
    with pytest.raises(UsageError, match="same config"):
        restore(make_env(EnvConfig(id="fog"), seed=0), state)


def test_a_time_limit_truncates_and_a_frame_skip_sums():
    env = make_env(EnvConfig(id="catch", time_limit=3), seed=0)
    env.reset()
    assert [env.step(STAY)[2:4] for _ in range(3)] == [
        (False, False),
        (False, False),
        (False, True),
    ]
    env = make_env(EnvConfig(id="catch", frame_skip=4), seed=0)
    env.reset()
    assert [env.step(STAY)[2] for _ in range(2)] == [False, True]


def test_misuse_is_answered_in_one_line():
    with pytest.raises(UsageError, match=r"env\.size"):
        make_env(EnvConfig(size=4), seed=0)
    env = Catch()
    env.reset()
    with pytest.raises(UsageError, match="action 3"):
        env.step(3)


def test_known_worlds_are_listed_with_their_returns():
    known = {info.name: info for info in env_names()}
    assert (known["catch"].random_return, known["catch"].best_return) == (-0.75, 1.0)
    assert known["fog"].action_space == Discrete(3)
