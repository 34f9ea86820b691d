"""Continuous actions: the formulas by hand, by their theorems, and against integration."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from horizon_imagination.gaussian_actions import (
    fresh_movement,
    log_slope,
    squash,
    squashed_entropy,
    squashed_log_prob,
    stable_gaussian,
    unsquash,
    wasserstein,
)

means = st.floats(-3, 3)
deviations = st.floats(0.05, 1.2)


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_movements_of_a_pair_by_hand():
    p, q = (vector(0.0, 1.0), vector(0.5, 1.0)), (vector(3.0, 1.0), vector(1.5, 0.0))
    assert float(wasserstein(*p, *q)) == 9 + 0 + 1 + 1
    assert float(fresh_movement(*p, *q)) == 9 + (0.25 + 1) + 2.25


def test_the_log_density_at_zero_by_hand():
    """At action 0 the tanh has slope 1: the density is the Gaussian's."""
    density = squashed_log_prob(vector(0.0), vector(0.5), vector(0.0))
    assert float(density) == pytest.approx(-math.log(0.5 * math.sqrt(2 * math.pi)))


def test_squashing_is_undone_and_stays_inside():
    value = torch.linspace(-6, 6, 101, dtype=torch.float64)
    torch.testing.assert_close(unsquash(squash(value)), value, atol=1e-6, rtol=1e-6)
    assert float(squash(torch.tensor([50.0]))) < 1
    assert bool(unsquash(torch.tensor([-1.0, 1.0])).isfinite().all())


def test_the_log_slope_is_that_of_tanh_and_does_not_underflow():
    value = torch.linspace(-4, 4, 33, dtype=torch.float64)
    torch.testing.assert_close(log_slope(value), (1 - value.tanh() ** 2).log())
    assert float(log_slope(torch.tensor([100.0]))) == pytest.approx(2 * math.log(2) - 200)


@pytest.mark.parametrize("mean,std", [(0.0, 0.3), (1.0, 1.0), (-2.0, 0.6), (0.5, 1.28)])
def test_density_and_entropy_agree_with_integration(mean, std):
    """Integrated over the Gaussian value u: da = (1 - tanh^2 u) du."""
    value = torch.linspace(mean - 9 * std, mean + 9 * std, 200_001, dtype=torch.float64)
    value = value[value.abs() < 7]  # beyond, the action is kept off the end
    step = value[1] - value[0]
    mu, sigma = vector(mean).expand(len(value), 1), vector(std).expand(len(value), 1)
    log_density = squashed_log_prob(mu, sigma, squash(value[:, None]))
    weight = (log_density + log_slope(value)).exp() * step
    assert float(weight.sum()) == pytest.approx(1, abs=1e-3)
    entropy = -float((weight * log_density).sum())
    assert float(squashed_entropy(vector(mean), vector(std))) == pytest.approx(entropy, abs=5e-3)


def test_the_entropy_of_a_narrow_policy_is_the_gaussians_less_the_slope():
    found = float(squashed_entropy(vector(0.7), vector(1e-3)))
    gaussian = math.log(1e-3 * math.sqrt(2 * math.pi * math.e))
    assert found == pytest.approx(gaussian + math.log(1 - math.tanh(0.7) ** 2), abs=1e-5)


@given(means, deviations)
@settings(max_examples=50, deadline=None)
def test_no_policy_is_more_spread_than_the_uniform_one(mean, std):
    assert float(squashed_entropy(vector(mean), vector(std))) <= math.log(2) + 1e-3


@given(means, deviations, means, deviations)
@settings(max_examples=50, deadline=None)
def test_fixed_noise_attains_the_wasserstein_distance_and_fresh_noise_exceeds_it(m, s, n, t):
    """Averages over nodes of quadrature, exact for squares: no sampling error."""
    nodes = vector(-math.sqrt(3), 0.0, math.sqrt(3))[:, None]
    weights = vector(1 / 6, 2 / 3, 1 / 6)
    p = [vector(x).expand(3, 1) for x in (m, s)]
    q = [vector(x).expand(3, 1) for x in (n, t)]
    one, other = stable_gaussian(*p, nodes), stable_gaussian(*q, nodes)
    fixed = float(((one - other).square().sum(-1) * weights).sum())
    pairs = (one[:, None] - other[None]).square().sum(-1)
    fresh = float((pairs * weights[:, None] * weights[None]).sum())
    pair = [vector(x) for x in (m, s, n, t)]
    assert fixed == pytest.approx(float(wasserstein(*pair)), abs=1e-9)
    assert fresh == pytest.approx(float(fresh_movement(*pair)), abs=1e-9)
    assert fixed <= fresh + 1e-12


@given(st.lists(st.tuples(means, means), min_size=2, max_size=6))
@settings(max_examples=50, deadline=None)
def test_no_pairing_of_equally_likely_noises_moves_less_than_the_common_one(pairs):
    """The rearrangement inequality: sorted against sorted is the least sum of squares."""
    noise, _ = vector(*(x for x, _ in pairs)).sort()
    shuffled = noise[vector(*(y for _, y in pairs)).argsort()]
    mean, std = vector(0.3).expand(len(noise)), vector(0.8).expand(len(noise))
    first = stable_gaussian(mean, std, noise)
    common, other = (
        float((first - stable_gaussian(-mean, std / 2, x)).square().sum())
        for x in (noise, shuffled)
    )
    assert common <= other + 1e-9


def test_squashing_never_lengthens_a_movement():
    one, other = torch.randn(2, 1000, 3, generator=generator())
    moved = (squash(one) - squash(other)).norm(dim=-1)
    assert bool((moved <= (one - other).norm(dim=-1) + 1e-6).all())
