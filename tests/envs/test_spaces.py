"""Worlds of vectors and of several numbers: read, played at random, recorded, evaluated."""

import numpy as np
import pytest
import torch

from horizon_imagination.actions import Box, Discrete, MultiDiscrete
from horizon_imagination.config import EnvConfig, ReplayConfig
from horizon_imagination.data import Replay, Store, info, validate
from horizon_imagination.envs import make_env
from horizon_imagination.envs.look import look
from horizon_imagination.envs.spaces import action_space, from_world, random_action, to_world
from horizon_imagination.envs.trial import try_env
from horizon_imagination.evaluate import Protocol, chosen_action, evaluate
from horizon_imagination.run.record_dataset import Recording, record

WORLDS = {
    "several": (
        EnvConfig(id="standin_worlds:Steered", size=16),
        MultiDiscrete((3, 2)),
    ),
    "grid": (
        EnvConfig(id="standin_worlds:Steered", size=16, options='{"kind": "grid"}'),
        Box((-2.0,) * 4, (2.0,) * 4),
    ),
    "reach": (EnvConfig(id="reach", size=16), Box((-1.0, -1.0), (1.0, 1.0))),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_space_of_a_world_is_read_and_its_actions_reach_it(name):
    cfg, space = WORLDS[name]
    env = make_env(cfg, 0)
    assert action_space(env) == space
    env.reset()
    env.step(random_action(space, np.random.default_rng(0)))
    trial = try_env(cfg, steps=10)
    assert trial.action_space == space and trial.episodes == 2


@pytest.mark.parametrize("name", WORLDS)
def test_random_play_is_evaluated_and_recorded(name, tmp_path):
    cfg, space = WORLDS[name]
    played = evaluate(None, Protocol(cfg, 3, 0, greedy=False))
    assert [episode.length for episode in played] == [4, 4, 4]
    record(Recording(env=cfg, out=tmp_path / "data", episodes=3, seed=1, greedy=False), None)
    assert validate(tmp_path / "data") == []
    store = Store.open(tmp_path / "data")
    assert store.action_space == space and store.action.shape == (15, *space.shape)
    figures = info(tmp_path / "data")
    if isinstance(space, Box):
        assert len(figures["action_mean"]) == len(space.low)
    else:
        assert [sum(x) for x in figures["action_counts"]] == [12, 12]
    steps = Replay(store, ReplayConfig(min_segment=2)).gather_steps(
        torch.arange(5)[None], torch.tensor([[True] * 4 + [False]])
    )
    torch.testing.assert_close(steps.action[0, :4], from_world(space, store.action[:4]))
    assert torch.equal(steps.prev_actions[0, 1:], steps.action[0, :-1])
    assert not bool(steps.action[0, 4].any())


def test_a_dataset_of_vectors_tells_what_is_wrong_with_it(tmp_path):
    space = Box((1.0, 1.0), (2.0, 2.0))
    store = Store.create(tmp_path / "d", (1, 2, 2), space, "own")
    frame = np.zeros((1, 2, 2), np.uint8)
    store.begin(frame)
    for _ in range(3):
        store.add(np.array([1.5, 2.0]), 0.0, False, False, frame)
    with pytest.raises(Exception, match="is not 2 numbers from 1 to 2"):
        store.add(np.array([0.5, 2.0]), 0.0, False, False, frame)
    position = store.position()
    store.add(np.array([1.0, 1.0]), 0.0, True, False, frame)
    store.rewind(position)
    store.add([1.25, 1.0], 1.0, True, False, frame)
    store.seal()
    store.close()
    assert validate(tmp_path / "d") == []  # zeros of the last frame are outside of the box
    assert Store.open(tmp_path / "d").action[3].tolist() == [1.25, 1.0]
    with open(tmp_path / "d" / "action.f32", "r+b") as file:
        file.write(np.float32(np.nan).tobytes())
    problems = validate(tmp_path / "d")
    assert "episode 0: actions that are not 2 numbers from 1 to 2" in problems[0]
    assert "action.f32: its content does not match" in problems[1]


def test_actions_of_a_policy_are_in_the_units_of_the_world():
    dice, space = np.random.default_rng(0), Box((0.0,), (10.0,))
    assert chosen_action(space, np.array([0.0, 0.5]), dice, True).tolist() == [5.0]
    assert 0 <= float(chosen_action(space, np.array([0.0, 0.5]), dice, False)[0]) <= 10
    several = MultiDiscrete((2, 3))
    policy = np.array([0.0, 1.0, 0.2, 0.8, 0.0])
    assert chosen_action(several, policy, dice, True).tolist() == [1, 1]
    assert chosen_action(Discrete(2), np.array([0.0, 1.0]), dice, False) == 1
    assert to_world(space, torch.tensor([-1.0])).tolist() == [0.0]


def test_pendulum_is_seen_as_pixels_and_takes_a_torque():
    pytest.importorskip("pygame")
    env = make_env(EnvConfig(id="Pendulum-v1", size=32, pixels=True, time_limit=3), 0)
    assert action_space(env) == Box((-2.0,), (2.0,))
    frame, _ = env.reset()
    other, reward, *_ = env.step(np.array([2.0], np.float32))
    env.close()
    assert frame.shape == other.shape == (32, 32, 3) and reward < 0
    assert frame.std() > 1


@pytest.mark.parametrize("name", WORLDS)
def test_the_first_look_takes_an_action_of_the_world(name):
    """A start tries one step, so that a broken world is told before a folder is made."""
    cfg, space = WORLDS[name]
    assert look(cfg).action_space == space
