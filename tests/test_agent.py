"""An agent on its own: built from a config, asked for actions, saved and loaded."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from horizon_imagination.agent import NETWORKS, Agent, build_networks
from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS, replaced

DEBUG = PRESETS["debug"][1]
CPU = torch.device("cpu")


@pytest.fixture
def agent():
    return Agent(DEBUG, num_actions=3, device=CPU)


def frames(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


def play(agent, count=12, **options):
    return [agent.act(frame, **options) for frame in frames(count)]


def test_the_seed_decides_the_weights_and_leaves_torchs_own_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    a, b, c = (Agent(replace(DEBUG, seed=seed), 3, CPU).weights() for seed in (0, 0, 1))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["actor.head.weight"], c["actor.head.weight"])


def test_a_seeded_reset_repeats_an_episode(agent):
    agent.reset(seed=3)
    first = play(agent)
    agent.reset(seed=3)
    assert play(agent) == first
    agent.reset(seed=4)
    assert play(agent) != first
    assert set(first) <= {0, 1, 2}


def test_the_agent_remembers_within_an_episode_and_forgets_at_a_reset(agent):
    with torch.no_grad():
        agent.actor.head.weight.mul_(1e4)  # the greedy action now follows the memory

    def last_action(before):
        agent.reset()
        for frame in frames(20, seed=before):
            action = agent.act(frame, greedy=True)
        return action, agent._state.h.clone()

    agent.reset()
    fresh = agent.act(frames(1)[0], greedy=True)
    _, after_some = last_action(1)
    _, after_others = last_action(2)
    assert not torch.equal(after_some, after_others)
    agent.reset()
    assert agent.act(frames(1)[0], greedy=True) == fresh


def test_saved_and_loaded_it_acts_the_same(agent, tmp_path):
    agent.save(tmp_path)
    loaded = Agent.load(tmp_path, device="cpu")
    assert loaded.config == agent.config and loaded.num_actions == 3
    for each in (agent, loaded):
        each.reset(seed=1)
    assert play(agent) == play(loaded)
    assert not list(tmp_path.glob("*.tmp"))


def test_weights_of_another_size_and_other_names_are_refused(agent, tmp_path):
    weights = agent.weights()
    other = Agent(replaced(DEBUG, denoiser={"layers": 1}), 3, CPU)
    with pytest.raises(UsageError, match="do not fit this config"):
        other.load_weights(weights)
    wider = weights | {"actor.head.weight": torch.zeros(4, 16)}
    with pytest.raises(UsageError, match=r"actor.head.weight has shape \(4, 16\)"):
        agent.load_weights(wider)


def test_the_average_follows_the_denoiser_by_its_decay(agent):
    average, denoiser = agent.denoiser_average, agent.denoiser
    assert average is agent.dreamer is not denoiser
    before = average.embed.weight.clone()
    with torch.no_grad():
        denoiser.embed.weight.add_(1.0)
        denoiser.statistics.mean.fill_(0.5)
    agent.follow_denoiser()
    torch.testing.assert_close(average.embed.weight, before + (1 - DEBUG.denoiser.ema))
    assert (average.statistics.mean == 0.5).all()


def test_without_averaging_the_denoiser_itself_dreams():
    agent = Agent(replaced(DEBUG, denoiser={"ema": 0.0}), 3, CPU)
    assert agent.dreamer is agent.denoiser
    assert not any(name.startswith("denoiser_average") for name in agent.weights())


def test_the_prior_of_the_actor_makes_its_first_policy():
    biased = replaced(DEBUG, controller={"actor_bias": (9.0, 0.0, 0.0)})
    agent = Agent(biased, 3, CPU)
    agent.reset(seed=0)
    assert play(agent).count(0) >= 11
    with pytest.raises(UsageError, match="3 numbers, the environment has 4 actions"):
        Agent(biased, 4, CPU)


def test_it_acts_and_encodes_in_half_precision():
    half = Agent(replaced(DEBUG, runtime={"precision": "bfloat16"}), 3, CPU)
    assert set(play(half)) <= {0, 1, 2}
    pixels = torch.from_numpy(frames(2)).permute(0, 3, 1, 2)
    full = Agent(DEBUG, 3, CPU).encode(pixels)
    assert half.encode(pixels).dtype == torch.float32
    torch.testing.assert_close(half.encode(pixels), full, atol=0.05, rtol=0.05)


def test_the_paper_sized_networks_build_without_memory():
    with torch.device("meta"):
        networks = build_networks(Config(), 18)
    assert networks._fields == NETWORKS
    assert all(p.is_meta for network in networks for p in network.parameters())
