"""Stable actions: Proposition 1 by chi-square and by integration, and the edges of the simplex."""

from itertools import permutations, product

import pytest
import torch
from scipy import stats

from horizon_imagination import (
    Dice,
    change_probability,
    roll,
    stable_action,
    stable_gaussian,
    threshold_distance,
    thresholds,
    total_variation,
)

SIZES = [2, 3, 6, 18, 64, 300]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def policies(*batch, num_actions, seed=0, concentration=1.0):
    """Dirichlet policies in double precision, from exponentials and powers of uniforms."""
    shape = torch.full((*batch, num_actions), concentration, dtype=torch.float64)
    gamma = torch._standard_gamma(shape, generator=generator(seed))
    return gamma / gamma.sum(-1, keepdim=True)


def orders(*batch, num_actions, seed=0):
    return roll(*batch, num_actions=num_actions, rng=generator(seed)).order


def draw(probs, samples, seed=0):
    dice = roll(samples, num_actions=len(probs), rng=generator(seed))
    return stable_action(probs.expand(samples, -1), dice)


def fits(actions, probs):
    """p-value of a chi-square test, rare actions pooled so that every cell expects at least 5."""
    counts = torch.bincount(actions, minlength=len(probs)).double()
    expected = probs.double() / probs.double().sum() * len(actions)
    rare = expected < 5
    pooled_counts, pooled = counts[~rare].tolist(), expected[~rare].tolist()
    if expected[rare].sum() > 0:
        pooled_counts.append(float(counts[rare].sum()))
        pooled.append(float(expected[rare].sum()))
    return stats.chisquare(pooled_counts, pooled, sum_check=False).pvalue


def test_thresholds_by_hand():
    p = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 0.0]])
    hand = torch.tensor([[0.1, 2 / 9, 3 / 7, 1.0], [0.0, 0.5, 1.0, 0.0]])
    torch.testing.assert_close(thresholds(p), hand)


def test_an_action_by_hand():
    """p = (.1, .2, .3, .4) in the order 2, 0, 3, 1: thresholds .3, 1/7, 2/3."""
    p, order = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([2, 0, 3, 1])
    for omega, action in [
        ((0.29, 0.9, 0.9), 2),
        ((0.31, 0.14, 0.9), 0),
        ((0.31, 0.15, 0.66), 3),
        ((0.31, 0.15, 0.67), 1),
        ((0.0, 0.0, 0.0), 2),
    ]:
        assert stable_action(p, Dice(torch.tensor(omega), order)).item() == action


@pytest.mark.parametrize("num_actions", SIZES)
def test_actions_are_distributed_as_the_policy(num_actions):
    """Proposition 1.1, over dice."""
    probs = policies(num_actions=num_actions, seed=num_actions)
    assert fits(draw(probs, 5_000_000 // max(25, num_actions)), probs) > 1e-3


@pytest.mark.parametrize("num_actions", [2, 3, 6, 18])
def test_actions_are_distributed_as_the_policy_for_every_single_order(num_actions):
    """Proposition 1.1 holds with the order fixed: only omega is averaged over."""
    probs, samples = policies(num_actions=num_actions, seed=7), 100_000
    for seed in range(5):
        order = orders(num_actions=num_actions, seed=seed).expand(samples, -1)
        omega = roll(samples, num_actions=num_actions, rng=generator(50 + seed)).omega
        actions = stable_action(probs.expand(samples, -1), Dice(omega, order))
        assert fits(actions, probs) > 1e-4


def test_the_chi_square_test_can_fail():
    probs = torch.tensor([0.5, 0.3, 0.2])
    assert fits(draw(torch.tensor([0.48, 0.32, 0.2]), 200_000), probs) < 1e-3


def test_all_orders_are_equally_likely_and_independent_in_a_batch():
    """One permutation per element: the first action offered is uniform within one roll."""
    order = roll(60_000, num_actions=3, rng=generator()).order
    index = {order: i for i, order in enumerate(permutations(range(3)))}
    counts = torch.zeros(6)
    for row, count in zip(*torch.unique(order, dim=0, return_counts=True), strict=True):
        counts[index[tuple(row.tolist())]] = count
    assert stats.chisquare(counts.tolist()).pvalue > 1e-3
    per_step = roll(4, 50, num_actions=6, rng=generator()).order
    assert len(torch.unique(per_step.flatten(0, 1), dim=0)) > 150, "one per trajectory and step"


@pytest.mark.parametrize("num_actions", SIZES)
def test_the_exact_change_probability_lies_within_proposition_1(num_actions):
    p = policies(500, num_actions=num_actions, seed=1)
    q = policies(500, num_actions=num_actions, seed=2)
    order = orders(500, num_actions=num_actions)
    change = change_probability(p, q, order)
    assert (change >= total_variation(p, q) - 1e-12).all()
    assert (change <= threshold_distance(p, q, order) + 1e-12).all()
    if num_actions == 2:
        torch.testing.assert_close(change, total_variation(p, q))
    else:
        assert (change > total_variation(p, q) + 1e-6).any(), "the paper's scheme is not optimal"


@pytest.mark.parametrize("num_actions", [2, 3, 6, 18, 64])
@pytest.mark.parametrize("concentration", [0.2, 1.0, 5.0])
def test_sampled_changes_agree_with_the_exact_probability_and_its_bounds(
    num_actions, concentration
):
    samples = 100_000
    p, q = policies(2, num_actions=num_actions, seed=3, concentration=concentration)
    order = orders(num_actions=num_actions, seed=4)
    omega = roll(samples, num_actions=num_actions, rng=generator(5)).omega
    dice = Dice(omega, order.expand(samples, -1))
    a, b = (stable_action(x.expand(samples, -1), dice) for x in (p, q))
    changed = (a != b).double().mean()
    exact = change_probability(p, q, order)
    error = 5 * (exact * (1 - exact) / samples).sqrt() + 1e-6
    assert (changed - exact).abs() < error
    assert total_variation(p, q) - error <= changed <= threshold_distance(p, q, order) + error


def test_the_exact_change_probability_by_enumeration_of_a_grid():
    """omega on a fine grid: the share of points whose two actions differ."""
    p, q = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], dtype=torch.float64)
    order = torch.tensor([1, 2, 0])
    ticks = (torch.arange(300, dtype=torch.float64) + 0.5) / 300
    omega = torch.tensor(list(product(ticks.tolist(), repeat=2)), dtype=torch.float64)
    dice = Dice(omega.float(), order.expand(len(omega), -1))
    a, b = (stable_action(x.expand(len(omega), -1), dice) for x in (p, q))
    share = (a != b).double().mean().item()
    # thresholds (.25, 1/3) and (.5, .5): |.25| + |1/6| * (1 - .5)
    assert change_probability(p, q, order).item() == pytest.approx(1 / 4 + 1 / 12)
    assert share == pytest.approx(1 / 3, abs=5e-3)


def test_a_policy_that_stays_keeps_its_actions():
    p = policies(1000, num_actions=9)
    dice = roll(1000, num_actions=9, rng=generator())
    assert torch.equal(stable_action(p, dice), stable_action(p.clone(), dice))
    assert (change_probability(p, p, dice.order) == 0).all()


@pytest.mark.parametrize("num_actions", [2, 3, 18, 300])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_an_action_of_probability_zero_is_never_taken(num_actions, dtype):
    samples = 10_000
    probs = policies(samples, num_actions=num_actions, seed=1)
    allowed = torch.rand(samples, num_actions, generator=generator(2)) < 0.5
    allowed[:, 0] |= ~allowed.any(-1)
    probs = (probs * allowed / (probs * allowed).sum(-1, keepdim=True)).to(dtype)
    dice = roll(samples, num_actions=num_actions, rng=generator(3))
    worst = Dice(torch.full_like(dice.omega, 1 - 2**-24), dice.order)
    for throw in (dice, worst):
        taken = probs.gather(-1, stable_action(probs, throw)[:, None])
        assert (taken > 0).all()


@pytest.mark.parametrize("num_actions", [1, 2, 5, 300])
def test_a_one_hot_policy_is_obeyed(num_actions):
    wanted = torch.randint(num_actions, (5000,), generator=generator())
    probs = torch.nn.functional.one_hot(wanted, num_actions).float()
    assert torch.equal(
        stable_action(probs, roll(5000, num_actions=num_actions, rng=generator())), wanted
    )


def test_a_single_action_is_always_taken():
    dice = roll(3, 4, num_actions=1, rng=generator())
    assert dice.omega.shape == (3, 4, 0)
    assert torch.equal(
        stable_action(torch.ones(3, 4, 1), dice), torch.zeros(3, 4, dtype=torch.long)
    )
    ones = torch.ones(3, 4, 1)
    assert torch.equal(change_probability(ones, ones, dice.order), torch.zeros(3, 4))


@pytest.mark.parametrize("num_actions", [18, 300])
def test_half_precision_policies_keep_their_marginals(num_actions):
    """A running sum in bfloat16 would stall: thresholds are taken in single precision."""
    probs = policies(num_actions=num_actions, seed=11).bfloat16()
    assert thresholds(probs).dtype == torch.float32
    assert fits(draw(probs, 50_000), probs) > 1e-3
    other = policies(num_actions=num_actions, seed=12).bfloat16()
    order = orders(num_actions=num_actions)
    close = {"rtol": 1e-4, "atol": 1e-5}
    for measure in (
        lambda p, q: change_probability(p, q, order),
        lambda p, q: threshold_distance(p, q, order),
        total_variation,
    ):
        exact = measure(probs.double(), other.double()).float()
        torch.testing.assert_close(measure(probs, other), exact, **close)


def test_probabilities_that_sum_to_one_only_roughly_are_taken_as_weights():
    p = policies(num_actions=6, seed=5).float()
    dice = roll(10_000, num_actions=6, rng=generator())
    a, b = (stable_action((p * s).expand(10_000, -1), dice) for s in (1.0, 1 + 3e-6))
    assert (a != b).float().mean() < 1e-3


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 3, 4)])
def test_any_batch_shape_gives_the_elements_one_by_one(batch):
    probs = policies(*batch, num_actions=5)
    dice = roll(*batch, num_actions=5, rng=generator())
    together = stable_action(probs, dice).flatten()
    alone = [
        stable_action(p, Dice(omega, order))
        for p, omega, order in zip(
            probs.reshape(-1, 5), dice.omega.reshape(-1, 4), dice.order.reshape(-1, 5), strict=True
        )
    ]
    assert torch.equal(together, torch.stack(alone))


def test_a_gaussian_action_moves_with_the_policy_and_only_with_it():
    noise = torch.randn(100_000, 2, generator=generator())
    mean, std = torch.tensor([1.0, -2.0]).expand(100_000, 2), torch.tensor([0.5, 3.0])
    action = stable_gaussian(mean, std.expand(100_000, 2), noise)
    torch.testing.assert_close(action.mean(0), mean[0], atol=0.05, rtol=0)
    torch.testing.assert_close(action.std(0), std, atol=0.05, rtol=0)
    moved = stable_gaussian(mean + 0.25, std.expand(100_000, 2), noise) - action
    torch.testing.assert_close(moved, torch.full_like(moved, 0.25))


@pytest.mark.gpu
@pytest.mark.parametrize("num_actions", [1, 2, 18, 300])
def test_both_devices_read_the_same_dice_alike(num_actions):
    probs = policies(1000, num_actions=num_actions)
    dice = roll(1000, num_actions=num_actions, rng=generator())
    there = stable_action(probs.cuda(), Dice(dice.omega.cuda(), dice.order.cuda()))
    assert torch.equal(stable_action(probs, dice), there.cpu())
