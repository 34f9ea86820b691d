"""Exported policies whose actions are vectors act as their agents do."""

import importlib.util
import json

import numpy as np
import pytest
import torch
from einops import rearrange
from vector_worlds import WORLDS

from horizon_imagination.actions import Box
from horizon_imagination.agent import Agent
from horizon_imagination.envs.spaces import to_world
from horizon_imagination.evaluate import Protocol, chosen_action, evaluate
from horizon_imagination.export.card import about, names_of_actions
from horizon_imagination.export.onnx_file import session
from horizon_imagination.export.policy import export_policy
from horizon_imagination.export.policy_graph import PolicyStep
from horizon_imagination.export.score import torch_step
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.stable_actions import Dice

STEPS = 40
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def frames():
    """Pictures of nothing, each brighter or darker than the last."""
    dice = np.random.default_rng(5)
    light = dice.integers(1, 256, (STEPS, 1, 1, 3))
    return (dice.integers(0, 256, (STEPS, 32, 32, 3)) * light // 256).astype(np.uint8)


@torch.no_grad()
def untrained(space, world, frames):
    """An agent of random networks whose policy depends on what it sees."""
    agent = Agent(replaced(DEBUG, env={"id": world}), space, torch.device("cpu"))
    head = agent.actor.head
    seen = rearrange(torch.from_numpy(frames), "t h w c -> 1 t c h w")
    said = agent.actor(agent.tokenizer.encode(seen))[0][0]
    scale = 1.5 / said.std(0)
    head.weight.mul_(scale[:, None])
    head.bias.copy_(scale * (head.bias - said.mean(0)))
    return agent


@pytest.fixture(scope="module", params=WORLDS)
def exported(request, frames, tmp_path_factory):
    """An agent of a world of vectors, its export and its card."""
    folder = tmp_path_factory.mktemp("vectors")
    agent = untrained(WORLDS[request.param], f"vector_worlds:{request.param}", frames)
    return agent, folder, export_policy(agent, folder, episodes=4, trust=True)


def runner(folder):
    """The policy of a folder, by its own runner."""
    spec = importlib.util.spec_from_file_location("run_policy", folder / "run_policy.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Policy(folder)


def spans(space):
    """How far apart the bounds of every entry are."""
    return np.subtract(space.high, space.low) if isinstance(space, Box) else np.ones(2)


def policies(agent, frames):
    """The agent's own policy at every frame; the state is never forgotten."""
    step, hidden = torch_step(PolicyStep(agent)), agent.actor.lstm.hidden
    h, c = (np.zeros((1, hidden), np.float32) for _ in range(2))
    found = []
    for frame in frames:
        policy, h, c = step(frame[None], h, c)
        found.append(policy[0].astype(np.float64))
    return found


def test_greedy_actions_of_recurrent_steps_are_those_of_the_agent(exported, frames):
    agent, folder, _ = exported
    policy = runner(folder)
    agent.reset()
    ours = np.array([agent.act(frame, greedy=True) for frame in frames])
    theirs = np.array([policy.act(frame, greedy=True) for frame in frames])
    assert ours.shape == theirs.shape == (STEPS, 2) and ours.dtype == theirs.dtype
    assert (np.abs(ours - theirs) / spans(agent.action_space)).max() < 1e-5
    assert len(np.unique(ours, axis=0)) > 2
    assert not any(agent.action_space.problem(action) for action in theirs)


def test_sampled_actions_are_those_of_the_agent_under_the_same_noise(exported, frames):
    agent, folder, _ = exported
    policy, dice = runner(folder), np.random.default_rng(3)
    policy.reset(3)
    theirs = np.array([policy.act(frame) for frame in frames])
    known, space = policies(agent, frames), agent.action_space
    ours = np.array([chosen_action(space, numbers, dice, greedy=False) for numbers in known])
    assert (np.abs(ours - theirs) / spans(space)).max() < 1e-5
    assert len(np.unique(ours, axis=0)) > 3
    if isinstance(space, Box):
        noise = np.random.default_rng(3).standard_normal((STEPS, 2))
        fixed = Dice(torch.from_numpy(noise), torch.zeros(STEPS, 0, dtype=torch.long))
        drawn = to_world(space, space.stable(torch.tensor(np.array(known)), fixed))
        assert (np.abs(drawn - theirs) / spans(space)).max() < 1e-5


def test_agent_and_file_play_the_same_episodes_to_the_same_return(exported):
    agent, _, card = exported
    protocol = Protocol(agent.config.env.trusted(), 4, 0, greedy=False)
    played = np.mean([episode.total_reward for episode in evaluate(agent, protocol)])
    means = [card["scores"][name]["mean"] for name in ("agent", "onnx")]
    assert means == pytest.approx([played, played], abs=1e-4)
    assert "int8" in card["notes"]


def test_the_step_says_what_the_policy_is(exported, frames):
    agent, folder, _ = exported
    said = [output.name for output in session(folder / "policy.onnx").get_outputs()]
    gaussian = isinstance(agent.action_space, Box)
    expected = ["means", "deviations"] if gaussian else ["probs", "logits"]
    assert said == [*expected, "next_h", "next_c"]
    module = torch.export.load(folder / "policy.pt2").module()
    hidden = torch.zeros(1, agent.actor.lstm.hidden)
    first, second, _, _ = module(torch.from_numpy(frames[:1]), hidden, hidden)
    numbers = torch.cat([first, second], -1) if gaussian else first
    assert np.abs(numbers[0].detach().numpy() - policies(agent, frames[:1])[0]).max() < 1e-4


def test_the_card_says_what_the_actions_are(exported):
    agent, folder, card = exported
    assert json.loads((folder / "card.json").read_text()) == card
    page = (folder / "README.md").read_text()
    if isinstance(agent.action_space, Box):
        assert card["actions"] == ["cold", "hot"]
        assert card["action_space"] == {"kind": "box", "low": [-2, 0.5], "high": [2, 30]}
        assert "cold (-2 to 2), hot (0.5 to 30)" in page and "`means`, `deviations`" in page
    else:
        assert card["actions"] == ["colour", "switch"]
        assert card["action_space"] == {"kind": "multi_discrete", "factors": [3, 2]}
        assert "colour (0 to 2), switch (0 to 1)" in page and "`probs`, `logits`" in page


@pytest.mark.parametrize("space", WORLDS.values())
def test_entries_of_a_world_that_cannot_be_built_are_numbered(space):
    agent = Agent(replaced(DEBUG, env={"id": "no-such-world"}), space, torch.device("cpu"))
    assert names_of_actions(agent, trust=False) == ("0", "1")


def test_the_card_of_a_discrete_agent_has_no_action_space(agent):
    assert "action_space" not in about(agent, ("left", "stay", "right"), {})
