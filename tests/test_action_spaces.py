"""Action spaces: what a policy over each of them gives, and how they are written down."""

import json

import numpy as np
import pytest
import torch

from horizon_imagination.action_json import (
    WrittenActions,
    check_written,
    space_from_json,
    space_to_json,
)
from horizon_imagination.actions import Box, Discrete, MultiDiscrete, as_space
from horizon_imagination.errors import UsageError
from horizon_imagination.imagination import difference
from horizon_imagination.schema import checked
from horizon_imagination.types import is_action, no_action, zero_action

SPACES = [Discrete(4), MultiDiscrete((3, 2, 5)), Box((-1.0, 0.0), (1.0, 5.0))]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def outputs(space, *batch, seed=0):
    return torch.randn(*batch, space.outputs, generator=generator(seed))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_actions_have_the_shape_of_their_space_and_are_in_it(space):
    policy = space.policy(outputs(space, 6, 5))
    dice = space.roll(6, 5, rng=generator())
    for action in (
        space.stable(policy, dice),
        space.greedy(outputs(space, 6, 5)),
        space.random(6, 5, rng=generator()),
    ):
        assert action.shape == (6, 5, *space.shape)
        assert bool(is_action(action).all())
    assert space.sample(policy[0], generator()).shape == (5, *space.shape)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_same_dice_give_the_same_action_and_a_still_policy_does_not_move(space):
    policy, dice = space.policy(outputs(space, 50)), space.roll(50, rng=generator())
    assert torch.equal(space.stable(policy, dice), space.stable(policy.clone(), dice))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_log_probabilities_are_those_of_the_drawn_actions(space):
    """E grad log pi = 0 over actions drawn from the policy itself."""
    said = (outputs(space, 1) / 3).requires_grad_()
    count = 20_000
    dice = space.roll(count, rng=generator(3))
    with torch.no_grad():
        action = space.stable(space.policy(said.expand(count, -1)), dice)
    scores = space.scores(said.expand(count, -1), action)
    (gradient,) = torch.autograd.grad(scores.log_prob.mean(), said)
    assert float(gradient.abs().max()) < 0.04
    # The entropy is the mean of -log pi.
    assert float(-scores.log_prob.mean().detach()) == pytest.approx(
        float(scores.entropy[0].detach()), abs=0.05
    )


def test_the_factors_of_several_numbers_are_independent_discrete_policies():
    space = MultiDiscrete((3, 2))
    said, action = outputs(space, 7), torch.tensor([[2, 1]] * 7)
    scores = space.scores(said, action)
    first = Discrete(3).scores(said[:, :3], action[:, 0])
    second = Discrete(2).scores(said[:, 3:], action[:, 1])
    torch.testing.assert_close(scores.log_prob, first.log_prob + second.log_prob)
    torch.testing.assert_close(scores.entropy, first.entropy + second.entropy)
    policy = space.policy(said)
    torch.testing.assert_close(policy[:, :3].sum(-1), torch.ones(7))
    dice = space.roll(7, rng=generator())
    kept = space.coupled(space.stable(policy, dice), policy, policy, dice)
    assert torch.equal(kept, space.stable(policy, dice))


def test_a_box_refuses_the_coupling_that_its_fixed_noise_already_is():
    space = Box((-1.0,), (1.0,))
    policy = space.policy(outputs(space, 2))
    with pytest.raises(ValueError, match="stable is an optimal coupling"):
        space.coupled(policy[:, :1], policy, policy, space.roll(2, rng=generator()))


def test_vectors_are_scaled_to_and_from_the_units_of_a_world():
    space = Box((-2.0, 0.0), (2.0, 10.0))
    world = torch.tensor([[-2.0, 10.0], [0.0, 5.0], [1.0, 0.0]])
    torch.testing.assert_close(space.scaled(world)[0], torch.tensor([-1.0, 1.0]))
    torch.testing.assert_close(space.unscaled(space.scaled(world)), world)


@pytest.mark.parametrize("low,high", [((0.0,), (0.0,)), ((), ()), ((-np.inf,), (1.0,))])
def test_a_box_without_finite_room_is_refused(low, high):
    with pytest.raises(ValueError, match="expected finite bounds"):
        Box(low, high)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_space_is_written_and_read_back(space):
    text = json.loads(json.dumps(space_to_json(space)))
    actions = checked(text["actions"], WrittenActions) if "actions" in text else None
    assert space_from_json(text.get("num_actions"), actions) == space


def test_a_number_of_actions_stands_for_a_discrete_space_in_code_and_in_files():
    assert as_space(3) == Discrete(3) == space_from_json(3, None)
    assert space_to_json(Discrete(3)) == {"num_actions": 3}


@pytest.mark.parametrize(
    "actions",
    [
        {"kind": "sphere"},
        {"kind": "box"},
        {"kind": "box", "low": [0], "high": [0]},
        {"kind": "box", "low": [0], "high": [1, 2]},
        {"kind": "box", "low": [0] * 65, "high": [1] * 65},
        {"kind": "multi_discrete", "factors": [0]},
        {"kind": "multi_discrete", "factors": [2**40]},
    ],
)
def test_a_damaged_space_in_a_file_is_refused_in_one_line(actions):
    with pytest.raises(UsageError, match=r"actions|kind"):
        checked(actions, WrittenActions, "agent.json: actions")
    for fields in ((None, None), (3, WrittenActions("multi_discrete", factors=(2,))), (0, None)):
        with pytest.raises(ValueError, match="num_actions"):
            check_written(*fields)


@pytest.mark.parametrize(
    "space,good,bad",
    [
        (Discrete(3), [0, 2, np.int64(1)], [-1, 3, 0.5, np.array([1, 2])]),
        (MultiDiscrete((3, 2)), [[2, 1], np.array([0, 0])], [[3, 0], [0], 1, [0, -1]]),
        (
            Box((-1.0,), (2.0,)),
            [[2.0], np.array([-1.0], np.float32), 0.5],
            [[2.1], [np.nan], [0.0, 0.0], ["a"], np.array([np.inf])],
        ),
    ],
)
def test_what_is_no_action_is_told(space, good, bad):
    assert [space.problem(x) for x in good] == [""] * len(good)
    assert all(space.problem(x).startswith("action") for x in bad)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_another_action_is_another_one(space):
    action = space.random(100, rng=generator())
    other = space.another(action, generator(1))
    assert other.shape == action.shape and bool(is_action(other).all())
    apart = (other - action).abs() if isinstance(space, Box) else (other != action).float()
    assert float(apart.min()) >= 0.49


def test_information_is_zero_for_a_policy_that_ignores_the_state_and_grows_with_its_means():
    space = Box((-1.0,), (1.0,))
    same = torch.tensor([[0.3, 0.5]]).expand(10, 2)
    told = torch.stack([torch.linspace(-1, 1, 10), torch.full((10,), 0.5)], dim=-1)
    found = [
        float(space.information(space.moments(policy).mean(0), torch.zeros(())))
        for policy in (same, told)
    ]
    variance = float(torch.linspace(-1, 1, 10).var(correction=0))
    assert found[0] == pytest.approx(0, abs=1e-6)
    assert found[1] == pytest.approx(np.log(1 + variance / 0.25) / 2, rel=1e-5)


def test_how_far_actions_are_apart():
    whole = torch.tensor([[[0, 1]]]), torch.tensor([[[0, 2]]])
    assert difference(*whole).tolist() == [[[0, 1]]]
    several = torch.tensor([[[[0, 1], [2, 2]]]]), torch.tensor([[[[0, 2], [2, 2]]]])
    assert difference(*several).tolist() == [[[1, 0]]]
    vectors = torch.zeros(1, 1, 1, 2), torch.tensor([[[[0.3, 0.4]]]])
    assert float(difference(*vectors)) == pytest.approx(0.5)


def test_no_action_is_told_from_every_action():
    for like in (torch.tensor([0, 3]), torch.tensor([-1.0, 1.0])):
        assert bool(is_action(like).all())
        none = torch.full_like(like, no_action(like))
        assert not bool(is_action(none).any())
        assert torch.equal(zero_action(none), torch.zeros_like(like))
