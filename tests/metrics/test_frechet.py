"""The Fréchet distance against closed forms, and where the usual formula breaks."""

import pytest
import torch
from scipy.linalg import sqrtm

from horizon_imagination.metrics.frechet import extrapolated_distance, frechet_distance


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(n, d, seed):
    return torch.randn(n, d, generator=rng(seed), dtype=torch.float64)


def with_moments(mean, root, n=64, seed=0):
    """Samples whose mean and covariance are exactly `mean` and root' root."""
    x = normal(n, len(mean), seed)
    x = x - x.mean(0)
    white = torch.linalg.qr(x).Q * (n - 1) ** 0.5
    return white @ root + mean


def test_one_dimension_is_the_difference_of_means_and_of_deviations():
    x = with_moments(torch.zeros(1), 2 * torch.eye(1, dtype=torch.float64))
    y = with_moments(torch.ones(1), 5 * torch.eye(1, dtype=torch.float64))
    assert frechet_distance(x, y) == pytest.approx(1 + (5 - 2) ** 2)


def test_two_gaussians_with_given_moments_have_the_closed_form():
    d = 5
    roots = normal(d, d, 1), normal(d, d, 2)
    means = normal(1, d, 3)[0], normal(1, d, 4)[0]
    x, y = (with_moments(m, r, seed=i) for i, (m, r) in enumerate(zip(means, roots, strict=True)))
    s1, s2 = (r.T @ r for r in roots)
    cross = torch.from_numpy(sqrtm((s1 @ s2).numpy()).real)
    expected = (means[0] - means[1]).square().sum() + (s1 + s2 - 2 * cross).trace()
    assert frechet_distance(x, y) == pytest.approx(expected.item(), rel=1e-8)


@pytest.mark.parametrize("n,d", [(100, 8), (8, 100), (24, 400), (401, 400)])
def test_identical_sets_are_at_distance_zero(n, d):
    x = 50 * normal(n, d, 0) + 10
    assert frechet_distance(x, x) <= 1e-6
    assert frechet_distance(x, x[torch.randperm(n, generator=rng())]) <= 1e-6


def test_the_order_of_samples_and_of_sets_does_not_matter():
    x, y = normal(30, 12, 0), 2 * normal(20, 12, 1) + 1
    found = frechet_distance(x, y)
    assert frechet_distance(x[torch.randperm(30, generator=rng())], y) == pytest.approx(found)
    assert frechet_distance(y, x) == pytest.approx(found)


@pytest.mark.parametrize("n", [2, 5, 30])
def test_fewer_samples_than_features_agree_with_the_dense_formula(n, recwarn):
    """Rank-deficient covariances: no warning, no complex number, the right value."""
    x, y = normal(n, 40, 0), normal(n + 3, 40, 1) * 1.5
    s1, s2 = (torch.cov(z.T) for z in (x, y))
    products = torch.linalg.eigvals(s1 @ s2).real.clamp(min=0).sqrt().sum()
    expected = (x.mean(0) - y.mean(0)).square().sum() + s1.trace() + s2.trace() - 2 * products
    assert frechet_distance(x, y) == pytest.approx(expected.item(), rel=1e-4)
    assert not recwarn.list


def test_float32_features_are_computed_in_float64():
    x = (1e4 + normal(50, 20, 0)).float()
    assert frechet_distance(x, x) <= 1e-6
    assert frechet_distance(x, x + 1) == pytest.approx(20, rel=1e-3)


def test_a_single_sample_is_refused():
    with pytest.raises(ValueError, match="two samples"):
        frechet_distance(torch.zeros(1, 3), torch.zeros(5, 3))


def test_extrapolation_takes_out_most_of_the_bias():
    """Two sets of one Gaussian: the true distance is 0, the measured one is not."""
    plain, better = 0.0, 0.0
    for seed in range(5):
        x, y = normal(120, 10, 2 * seed), normal(120, 10, 2 * seed + 1)
        plain += frechet_distance(x, y) / 5
        better += extrapolated_distance(x, y, rng(seed)) / 5
    assert plain > 0.2 and better < 0.35 * plain
