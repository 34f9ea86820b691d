"""An agent on its own: built from a config, asked for actions, saved and loaded."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from remembering_agent import remembering_agent

from horizon_imagination.agent import NETWORKS, Agent
from horizon_imagination.config import Config
from horizon_imagination.device import uses_bfloat16
from horizon_imagination.envs.view import read_space
from horizon_imagination.errors import UsageError
from horizon_imagination.networks import build_networks
from horizon_imagination.presets import PRESETS, replaced

DEBUG = PRESETS["debug"][1]
CPU = torch.device("cpu")


@pytest.fixture
def agent():
    return Agent(DEBUG, 3, CPU)


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


def test_the_agent_remembers_within_an_episode_and_forgets_at_a_reset():
    agent = remembering_agent(DEBUG)
    colours = np.random.default_rng(0).integers(256, size=(8, 4, 3))

    def act(colour):
        return agent.act(np.full((32, 32, 3), colour, np.uint8), greedy=True)

    def actions(frame, reset):
        """On one frame, after each history of three frames."""
        found = set()
        for history in colours[:, :3]:
            agent.reset()
            for colour in history:
                act(colour)
            if reset:
                agent.reset()
            found.add(act(frame))
        return found

    frames_after = colours[:, 3]
    assert sum(len(actions(frame, reset=False)) > 1 for frame in frames_after) > 1
    assert all(len(actions(frame, reset=True)) == 1 for frame in frames_after)


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
    with pytest.raises(UsageError, match="does not fit the config"):
        other.load_weights(weights)
    wider = weights | {"actor.head.weight": torch.zeros(4, 16)}
    with pytest.raises(UsageError, match=r"actor.head.weight has the shape \(4, 16\)"):
        agent.load_weights(wider)


def test_the_average_follows_the_denoiser_by_its_decay(agent):
    average, denoiser = agent.denoiser_average, agent.denoiser
    assert average is agent.imagination_denoiser is not denoiser
    before = average.embed.weight.clone()
    with torch.no_grad():
        denoiser.embed.weight.add_(1.0)
        denoiser.statistics.mean.fill_(0.5)
    agent.follow_denoiser()
    torch.testing.assert_close(average.embed.weight, before + (1 - DEBUG.denoiser.ema))
    assert (average.statistics.mean == 0.5).all()


def test_without_averaging_the_denoiser_itself_dreams():
    agent = Agent(replaced(DEBUG, denoiser={"ema": 0.0}), 3, CPU)
    assert agent.imagination_denoiser is agent.denoiser
    assert not any(name.startswith("denoiser_average") for name in agent.weights())


def test_the_prior_of_the_actor_makes_its_first_policy():
    biased = replaced(DEBUG, controller={"actor_bias": (9.0, 0.0, 0.0)})
    agent = Agent(biased, 3, CPU)
    agent.reset(seed=0)
    assert play(agent).count(0) >= 11
    with pytest.raises(UsageError, match="3 numbers, the environment has 4 actions"):
        Agent(biased, 4, CPU)


def test_only_cuda_trains_in_bfloat16_by_default():
    cuda, default = torch.device("cuda"), Config().runtime
    assert uses_bfloat16(default, cuda) and not uses_bfloat16(default, CPU)
    assert not uses_bfloat16(replace(default, precision="float32"), cuda)


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


def seeing(space, **env):
    """An agent of a world with this observation space."""
    config = replaced(DEBUG, env=env)
    agent = Agent(config, 3, CPU)
    agent.view = read_space(space, config.env)
    return agent


DICT = spaces.Dict(
    {"image": spaces.Box(-1, 1, (3, 48, 40), np.float32), "text": spaces.Discrete(2)}
)


def observed(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (count, 3, 48, 40)).astype(np.float32)


def test_it_acts_on_what_its_world_observes_as_on_the_frames_of_it():
    agent = seeing(DICT)
    pictures = observed(12)
    agent.reset(seed=1)
    raw = [agent.act({"image": x, "text": 0}) for x in pictures]
    agent.reset(seed=1)
    assert [agent.act(agent.view.frame({"image": x})) for x in pictures] == raw


def test_how_the_world_is_read_is_saved_with_the_agent(tmp_path):
    agent = seeing(DICT)
    agent.save(tmp_path)
    assert Agent.load(tmp_path, "cpu").view == agent.view


@pytest.mark.parametrize(
    "observation,words",
    [
        (frames(1)[0] / 255, r"got float64 of shape \(32, 32, 3\); expected uint8 frames"),
        (frames(1)[0].transpose(2, 0, 1), r"got uint8 of shape \(3, 32, 32\)"),
        (frames(1)[0][:16], r"got uint8 of shape \(16, 32, 3\)"),
        (frames(1)[0][..., :1], r"got uint8 of shape \(32, 32, 1\)"),
        ({"image": frames(1)[0]}, "got a dict of image"),
        (None, "got object of shape"),
    ],
)
def test_it_refuses_what_its_world_never_showed(agent, observation, words):
    with pytest.raises(UsageError, match=words) as error:
        agent.act(observation)
    assert "agent.make_env()" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "observation,words",
    [
        ({"picture": observed(1)[0]}, r"got object.*a dict with 'image': float32"),
        ({"image": 9 * observed(1)[0]}, "outside its range"),
        ({"image": frames(1)[0]}, r"got uint8 of shape \(32, 32, 3\)"),
        (observed(1)[0], r"got float32 of shape \(3, 48, 40\)"),
    ],
)
def test_it_refuses_other_dicts_than_those_of_its_world(observation, words):
    with pytest.raises(UsageError, match=words):
        seeing(DICT).act(observation)


def test_a_batch_of_observations_gets_an_action_each_and_a_memory_each(agent):
    with torch.no_grad():
        agent.actor.head.weight.mul_(1e4)
    episodes = np.stack([frames(10, seed=seed) for seed in range(4)])
    alone = []
    for episode in episodes:
        agent.reset()
        alone.append([agent.act(frame, greedy=True) for frame in episode])
    agent.reset()
    together = np.stack([agent.act(episodes[:, t], greedy=True) for t in range(10)], axis=1)
    assert together.tolist() == alone
    with pytest.raises(UsageError, match="remembers 4 episodes and got 2"):
        agent.act(episodes[:2, 0])
    agent.forget(np.array([True, False, False, False]))
    after = agent.act(episodes[:, 0], greedy=True)
    assert after[0] == alone[0][0]
    agent = seeing(DICT)
    assert agent.act({"image": observed(5), "text": np.zeros(5)}).shape == (5,)


def test_its_world_is_the_one_it_was_trained_in(agent):
    env = agent.make_env(seed=3)
    frame, _ = env.reset()
    assert agent.act(frame) in (0, 1, 2)


def test_a_stack_has_as_many_channels_in_as_it_had_out():
    space = spaces.Box(0, 255, (4, 40, 40), np.uint8)
    agent = seeing(space, channels="stack", stack_channels=4)
    picture = np.random.default_rng(0).integers(0, 256, (4, 40, 40), dtype=np.uint8)
    assert agent.act(picture) in (0, 1, 2)
    pixels = torch.from_numpy(agent.view.frame(picture)).permute(2, 0, 1)[None]
    assert agent.decode(agent.encode(pixels)[:, None]).shape == (1, 1, 4, 32, 32)
