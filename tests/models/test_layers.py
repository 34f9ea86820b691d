"""Time features and latent statistics."""

import math

import pytest
import torch

from horizon_imagination.flow import interpolate, uniform_noise
from horizon_imagination.models.layers import (
    LatentStatistics,
    ResnetBlock,
    fan_in_init,
    time_features,
    zero_init,
)


def test_time_features_are_sinusoids_of_a_thousand_tau():
    features = time_features(torch.tensor([0.0, 0.25]), 4)
    assert features[0].tolist() == [1, 1, 0, 0]
    by_hand = [math.cos(250), math.cos(2.5), math.sin(250), math.sin(2.5)]
    torch.testing.assert_close(features[1], torch.tensor(by_hand))


def test_time_features_tell_small_and_large_differences_apart():
    tau = torch.linspace(0, 1, 33)
    features = time_features(tau, 64)
    distance = torch.cdist(features, features) + 10 * torch.eye(33)
    assert distance.min() > 1, "neighbouring times of a sweep must look different"
    unscaled = time_features(tau / 1000, 64)
    assert torch.cdist(unscaled, unscaled)[0, 1] < 0.1, "without the scale they would not"


def world(rng, batch=64, frames=8):
    """Latents of a nearly static scene: a mean frame, and small, channel-wise different changes."""
    mean = torch.linspace(-0.8, 0.8, 2 * 4 * 4).view(2, 4, 4)
    change = torch.rand(batch, frames, 2, 4, 4, generator=rng) * 2 - 1
    return mean + change * torch.tensor([0.02, 0.3]).view(2, 1, 1)


@pytest.mark.parametrize("tau", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_latents_are_normalised_at_every_noise_level(tau):
    rng = torch.Generator().manual_seed(0)
    statistics, z1 = LatentStatistics(2, 4), world(rng)
    statistics.update(z1, torch.ones(64, 8, dtype=torch.bool))
    times = torch.full((64, 8), tau)
    noisy = interpolate(uniform_noise(64, 8, 2, 4, 4, rng=rng), z1, times)
    z = statistics.normalize(noisy, times)
    assert z.mean((0, 1)).abs().max() < 0.2
    torch.testing.assert_close(z.var((0, 1, 3, 4)), torch.ones(2), atol=0.05, rtol=0.05)


def test_statistics_leave_padding_out():
    rng = torch.Generator().manual_seed(0)
    z, mask = world(rng), torch.rand(64, 8, generator=rng) < 0.5
    spoiled = torch.where(mask[..., None, None, None], z, torch.tensor(9.0))
    statistics = LatentStatistics(2, 4)
    statistics.update(spoiled, mask)
    torch.testing.assert_close(statistics.mean, z[mask].mean(0))
    expected = (z[mask] - z[mask].mean(0)).square().mean((0, 2, 3)).sqrt()
    torch.testing.assert_close(statistics.std.flatten(), expected)


def test_early_batches_count_fully_and_later_ones_a_hundredth():
    statistics, mask = LatentStatistics(1, 1), torch.ones(1, 2, dtype=torch.bool)

    def see(value):
        statistics.update(torch.full((1, 2, 1, 1, 1), value), mask)
        return statistics.mean.item()

    assert [see(1.0), see(3.0), see(5.0)] == pytest.approx([1, 2, 3])  # the plain average
    for _ in range(200):
        see(0.0)
    before = statistics.mean.item()
    assert see(1.0) == pytest.approx(0.99 * before + 0.01)


def test_a_constant_scene_is_not_divided_by_zero():
    statistics, mask = LatentStatistics(1, 2), torch.ones(1, 3, dtype=torch.bool)
    z = torch.full((1, 3, 1, 2, 2), 0.5)
    statistics.update(z, mask)
    assert torch.equal(statistics.normalize(z, torch.ones(1, 3)), torch.zeros_like(z))


def test_initial_weights():
    torch.manual_seed(0)
    layer = fan_in_init(torch.nn.Linear(400, 300))
    assert layer.weight.std().item() == pytest.approx(0.05, rel=0.05)
    assert layer.weight.abs().max() <= 0.15 and not layer.bias.any()
    assert not zero_init(torch.nn.Linear(3, 3)).weight.any()


def test_a_residual_block_without_change_of_width_keeps_its_input():
    block = ResnetBlock(4, 4, groups=2)
    torch.nn.init.zeros_(block.conv2.weight)
    torch.nn.init.zeros_(block.conv2.bias)
    x = torch.randn(2, 4, 3, 3)
    assert torch.equal(block(x), x)
