"""Maximal coupling: exact marginals, and changes with probability exactly TV, at every step."""

import pytest
import torch
from scipy import stats

from horizon_imagination import (
    Dice,
    change_probability,
    coupled_action,
    roll,
    stable_action,
    total_variation,
)

SAMPLES = 100_000


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def policies(count, num_actions, seed=0, concentration=1.0):
    shape = torch.full((count, num_actions), concentration, dtype=torch.float64)
    gamma = torch._standard_gamma(shape, generator=generator(seed))
    return gamma / gamma.sum(-1, keepdim=True)


def walk(path):
    """Actions of many independent chains along a path of policies, `[step, sample]`."""
    num_actions = path.shape[-1]
    at = [row.expand(SAMPLES, -1) for row in path]
    actions = [stable_action(at[0], roll(SAMPLES, num_actions=num_actions, rng=generator(90)))]
    for step in range(1, len(path)):
        dice = roll(SAMPLES, num_actions=num_actions, rng=generator(90 + step))
        actions.append(coupled_action(actions[-1], at[step - 1], at[step], dice))
    return torch.stack(actions)


def joint(p, q):
    """P(a, b) of the coupling, from its definition: keep with min(1, q/p), else (q - p)^+."""
    keep = torch.where(p > 0, torch.minimum(q / p, torch.ones(())), 1.0)
    surplus = (q - p).clamp(min=0)
    fresh = surplus / surplus.sum()
    return torch.diag(p * keep) + torch.outer(p * (1 - keep), fresh)


@pytest.mark.parametrize("num_actions", [2, 3, 10, 64])
def test_the_definition_has_exact_marginals_and_changes_with_probability_tv(num_actions):
    """The derivation, in numbers: summing the joint over either side, and off its diagonal."""
    p, q = policies(2, num_actions)
    table = joint(p, q)
    torch.testing.assert_close(table.sum(1), p)
    torch.testing.assert_close(table.sum(0), q)
    torch.testing.assert_close(table.sum() - table.trace(), total_variation(p, q))


@pytest.mark.parametrize("num_actions", [2, 3, 5])
def test_the_sampler_follows_its_joint_distribution(num_actions):
    p, q = policies(2, num_actions, seed=3)
    a, b = walk(torch.stack([p, q]))
    counts = torch.bincount(a * num_actions + b, minlength=num_actions**2).double()
    expected = joint(p, q).flatten() * SAMPLES
    assert (counts[expected == 0] == 0).all(), "a change only ever leads to a surplus"
    seen = expected > 0
    fit = stats.chisquare(counts[seen].tolist(), expected[seen].tolist(), sum_check=False)
    assert fit.pvalue > 1e-3


@pytest.mark.parametrize("num_actions", [2, 10, 40])
def test_every_step_of_a_chain_has_the_policys_marginal_and_changes_with_probability_tv(
    num_actions,
):
    path = policies(6, num_actions, seed=5)
    actions = walk(path)
    for step, probs in enumerate(path):
        counts = torch.bincount(actions[step], minlength=num_actions).tolist()
        fit = stats.chisquare(counts, (probs * SAMPLES).tolist(), sum_check=False)
        assert fit.pvalue > 1e-4, step
    changed = (actions[1:] != actions[:-1]).double().mean(1)
    exact = total_variation(path[1:], path[:-1])
    assert ((changed - exact).abs() < 5 * (exact * (1 - exact) / SAMPLES).sqrt()).all()


def test_it_changes_less_often_than_the_papers_scheme():
    p, q = policies(2000, 10, seed=1), policies(2000, 10, seed=2)
    order = roll(2000, num_actions=10, rng=generator()).order
    assert change_probability(p, q, order).mean() > 1.1 * total_variation(p, q).mean()


@pytest.mark.parametrize("num_actions", [1, 2, 300])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_policy_that_stays_keeps_its_action(num_actions, dtype):
    p = policies(5000, num_actions).to(dtype)
    action = stable_action(p, roll(5000, num_actions=num_actions, rng=generator(1)))
    dice = roll(5000, num_actions=num_actions, rng=generator(2))
    assert torch.equal(coupled_action(action, p, p, dice), action)


@pytest.mark.parametrize("num_actions", [2, 3, 18, 300])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_an_action_of_probability_zero_is_never_taken(num_actions, dtype):
    def sparse(seed):
        probs = policies(10_000, num_actions, seed=seed)
        allowed = torch.rand(probs.shape, generator=generator(seed + 1)) < 0.5
        allowed[:, 0] |= ~allowed.any(-1)
        return (probs * allowed / (probs * allowed).sum(-1, keepdim=True)).to(dtype)

    p, q = sparse(1), sparse(3)
    first = stable_action(p, roll(10_000, num_actions=num_actions, rng=generator(5)))
    dice = roll(10_000, num_actions=num_actions, rng=generator(6))
    worst = Dice(torch.full_like(dice.omega, 1 - 2**-24), dice.order)
    for throw in (dice, worst):
        taken = q.gather(-1, coupled_action(first, p, q, throw)[:, None])
        assert (taken > 0).all()


def test_an_action_whose_probability_vanished_without_a_surplus_is_given_up():
    """p = (1, 1e-9) and q = (1, 0) differ by less than rounding, yet q forbids action 1."""
    p, q = torch.tensor([[1.0, 1e-9]]), torch.tensor([[1.0, 0.0]])
    dice = roll(1, num_actions=2, rng=generator())
    assert coupled_action(torch.tensor([1]), p, q, dice).tolist() == [0]


def test_one_hot_policies_are_obeyed_along_any_path():
    wanted = torch.randint(7, (5, 1000), generator=generator())
    probs = torch.nn.functional.one_hot(wanted, 7).float()
    action = wanted[0]
    for step in range(1, 5):
        dice = roll(1000, num_actions=7, rng=generator(step))
        action = coupled_action(action, probs[step - 1], probs[step], dice)
        assert torch.equal(action, wanted[step])


def test_the_action_depends_on_the_path_and_not_on_the_last_policy_alone():
    """The price of the coupling: the same dice, two ways to the same policy, other actions."""
    p, q = policies(2, 4, seed=8).unsqueeze(1).expand(2, 2000, 4)
    start = stable_action(p, roll(2000, num_actions=4, rng=generator(1)))
    dice = [roll(2000, num_actions=4, rng=generator(seed)) for seed in (2, 3)]
    through_q = coupled_action(coupled_action(start, p, q, dice[0]), q, p, dice[1])
    stayed = coupled_action(coupled_action(start, p, p, dice[0]), p, p, dice[1])
    assert torch.equal(stayed, start)
    assert (through_q != stayed).float().mean() > 0.05
