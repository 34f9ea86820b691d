"""Collecting: what the policy does in the world is what it would do with its own memory."""

import copy

import gymnasium
import numpy as np
import pytest
import torch
from einops import rearrange
from remembering_agent import remembering_agent

from horizon_imagination.collect import Collector
from horizon_imagination.data import Replay, Store
from horizon_imagination.envs.atari import LIFE_LOST
from horizon_imagination.presets import PRESETS

DEBUG = PRESETS["debug"][1]
LENGTH = 4


class Colours(gymnasium.Env):
    """Episodes of four steps; every frame is of one random colour."""

    action_space = gymnasium.spaces.Discrete(3)
    observation_space = gymnasium.spaces.Box(0, 255, (32, 32, 3), np.uint8)

    def __init__(self):
        self.rng, self.steps = np.random.default_rng(0), 0

    def frame(self):
        return np.full((32, 32, 3), self.rng.integers(256, size=3), np.uint8)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.frame(), {}

    def step(self, action):
        self.steps += 1
        return self.frame(), 0.0, self.steps == LENGTH, False, {}


@pytest.fixture
def agent():
    return remembering_agent(DEBUG)


def own_actions(agent, frames):
    """What the agent does in an episode of these frames, from its beginning."""
    agent.reset()
    return [agent.act(rearrange(x, "c h w -> h w c"), greedy=True) for x in frames]


def test_every_episode_begins_without_the_memory_of_the_one_before(agent, tmp_path):
    store = Store.create(tmp_path / "store", (3, 32, 32), 3, "colours")
    replay = Replay(store, DEBUG.replay)
    collector = Collector(Colours(), store, replay, agent, torch.Generator().manual_seed(0))
    seen = collector.collect(30 * LENGTH, trained=True)
    assert len(seen.returns) == 30 and set(seen.lengths) == {LENGTH}
    for start, end in zip(store.starts, store.ends, strict=True):
        taken = store.action[start : end - 1].tolist()
        assert taken == own_actions(agent, store.frames[start : end - 1])


def test_an_episode_goes_on_from_what_the_actor_saw_before_the_break(agent, tmp_path):
    """Between two collections the networks learn; the memory is built anew from stored frames."""
    assert DEBUG.controller.context >= LENGTH - 1
    store = Store.create(tmp_path / "store", (3, 32, 32), 3, "colours")
    replay = Replay(store, DEBUG.replay)
    collector = Collector(Colours(), store, replay, agent, torch.Generator().manual_seed(0))
    for steps in [3] * 20:  # breaks fall on every place of an episode
        collector.collect(steps, trained=True)
    assert len(store.starts) == 15
    for start, end in zip(store.starts, store.ends, strict=True):
        taken = store.action[start : end - 1].tolist()
        assert taken == own_actions(agent, store.frames[start : end - 1])


def test_a_copy_of_the_actor_acts_while_the_original_learns(agent, tmp_path):
    store = Store.create(tmp_path / "store", (3, 32, 32), 3, "colours")
    rng, acting = torch.Generator().manual_seed(0), copy.deepcopy(agent.actor)
    collector = Collector(Colours(), store, Replay(store, DEBUG.replay), agent, rng, acting)
    original = {name: value.clone() for name, value in agent.actor.state_dict().items()}
    for steps in (3, 3, 10, 24):  # within an episode, too
        with torch.no_grad():
            agent.actor.head.weight.neg_()
        collector.collect(steps, trained=True)
    agent.actor.load_state_dict(original)
    for start, end in zip(store.starts, store.ends, strict=True):
        taken = store.action[start : end - 1].tolist()
        assert taken == own_actions(agent, store.frames[start : end - 1])


def test_a_collection_in_pieces_is_one_collection(agent, tmp_path):
    stores, found = [], []
    for name, pieces in (("whole", (14,)), ("pieces", (1, 1, 6, 9, 14))):
        store = Store.create(tmp_path / name, (3, 32, 32), 3, "colours")
        rng = torch.Generator().manual_seed(0)
        collector = Collector(Colours(), store, Replay(store, DEBUG.replay), agent, rng)
        for steps in pieces:
            collector.advance(steps, trained=True)
        found.append(collector.finish())
        assert collector.unfinished is None and collector.finish().steps == 0
        stores.append(store)
    assert found[0] == found[1] and found[0].steps == 14 and len(found[0].returns) == 3
    assert stores[0].action.tolist() == stores[1].action.tolist()
    assert np.array_equal(stores[0].frames, stores[1].frames)


def test_untrained_play_is_sampled_from_the_prior_and_asks_no_network(agent, tmp_path, monkeypatch):
    store = Store.create(tmp_path / "store", (3, 32, 32), 3, "colours")
    rng = torch.Generator().manual_seed(0)
    collector = Collector(Colours(), store, Replay(store, DEBUG.replay), agent, rng)
    monkeypatch.setattr(collector, "_decide", lambda seen: pytest.fail("the actor was asked"))
    collector.collect(900, trained=False)
    counts = np.bincount(store.action[: store.num_frames][np.arange(store.num_frames) % 5 != 4])
    assert counts.min() > 240 and counts.max() < 360


class Lives(Colours):
    """Games of three lives, an episode each; life i lasts i + 1 steps and pays 1 a step."""

    def __init__(self):
        super().__init__()
        self.life = -1

    def reset(self, *, seed=None, options=None):
        self.life = (self.life + 1) % 3
        return super().reset()

    def step(self, action):
        self.steps += 1
        ended = self.steps == self.life + 1
        return self.frame(), 1.0, ended, False, {LIFE_LOST: True} if ended and self.life < 2 else {}


@pytest.mark.parametrize("pieces", [[30], [1] * 30, [5] * 6])
def test_the_return_of_a_game_counts_all_its_lives(agent, tmp_path, pieces):
    """Also where the collection or the run was interrupted between two of them."""
    returns, lengths, env, position = [], [], Lives(), None
    store = Store.create(tmp_path / "store", (3, 32, 32), 3, "colours")
    for steps in pieces:
        collector = Collector(env, store, Replay(store, DEBUG.replay), agent, torch.Generator())
        seen = collector.collect(steps, trained=False)
        returns, lengths = returns + seen.returns, lengths + seen.lengths
        position = store.position()
        store.close()
        store = Store.open(tmp_path / "store", "a")
        store.rewind(position)
    assert returns == [6.0] * 5 and lengths == [6] * 5
    assert len(store.starts) == 15
