"""Rectified flow with a time per frame: paths, times, and which frames teach."""

import pytest
import torch

from horizon_imagination import (
    interpolate,
    sample_times,
    sweep_times,
    trainable,
    uniform_noise,
    velocity_error,
    velocity_loss,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_noise_is_uniform_on_the_range_of_the_latents():
    noise = uniform_noise(50, 4, 3, 8, 8, rng=generator())
    assert noise.min() >= -1 and noise.max() <= 1
    assert abs(noise.mean()) < 0.01 and abs(noise.var() - 1 / 3) < 0.01
    assert noise.min() < -0.99 and noise.max() > 0.99


def test_the_path_by_hand():
    z0, z1 = torch.full((1, 3, 1, 1, 1), -1.0), torch.full((1, 3, 1, 1, 1), 0.5)
    path = interpolate(z0, z1, torch.tensor([[0.0, 0.5, 1.0]])).flatten()
    assert path.tolist() == [-1.0, -0.25, 0.5]


def test_the_velocity_of_the_path_carries_noise_to_data():
    rng = generator()
    z0, z1 = uniform_noise(2, 5, 3, 4, 4, rng=rng), uniform_noise(2, 5, 3, 4, 4, rng=rng)
    tau = torch.rand(2, 5, generator=rng)
    rest = (1 - tau)[..., None, None, None]
    torch.testing.assert_close(interpolate(z0, z1, tau) + rest * (z1 - z0), z1)


def clean_prefix(tau):
    """How many frames at the beginning of each row are clean."""
    return (tau == 1).int().cumprod(1).sum(1)


@pytest.mark.parametrize("horizon,longest", [(32, 22), (33, 23), (10, 7), (2, 1), (1, 1)])
def test_a_fifth_of_the_samples_has_a_clean_prefix_of_one_to_the_longest(horizon, longest):
    """floor(0.7 H), both ends met, each length as likely as any other."""
    tau = sample_times(60_000, horizon, generator())
    length = clean_prefix(tau)
    assert abs((length > 0).float().mean() - 0.2) < 0.01
    counts = torch.bincount(length[length > 0], minlength=longest + 1)
    assert len(counts) == longest + 1 and counts[0] == 0
    share = counts[1:] / counts.sum()
    assert (abs(share - 1 / longest) < 0.02).all()
    assert ((tau == 1).sum(1) == length).all(), "clean frames stand at the beginning only"


def test_other_times_are_independent_and_uniform():
    tau = sample_times(20_000, 8, generator(1), clean_prob=0.0)
    assert tau.min() >= 0 and tau.max() < 1
    assert (abs(tau.mean(0) - 0.5) < 0.01).all() and (abs(tau.var(0) - 1 / 12) < 0.005).all()
    assert abs(torch.corrcoef(tau.T) - torch.eye(8)).max() < 0.03


def test_every_sample_has_a_clean_prefix_when_asked():
    assert (clean_prefix(sample_times(1000, 8, generator(), clean_prob=1.0)) > 0).all()


def test_swept_times_look_like_rows_of_a_horizon_schedule():
    tau = sweep_times(2000, 33, 1, generator())
    assert (tau[:, 0] == 1).all() and tau.min() >= 0 and tau.max() <= 1
    assert (tau.diff(dim=1) <= 0).all()
    falling = -tau.diff(dim=1)
    inside = (tau[:, :-1] < 1) & (tau[:, 1:] > 0)
    slope = torch.where(inside, falling, torch.nan)
    spread = slope.nan_to_num(-1).amax(1) - slope.nan_to_num(2).amin(1)
    assert (spread[inside.any(1)] < 1e-5).all(), "one slope within a row"
    assert len(torch.unique((tau > 0).sum(1))) == 32, "the front stands anywhere"


def test_padding_and_clean_frames_do_not_teach():
    tau = torch.tensor([[1.0, 0.3, 1.0, 0.0]])
    mask = torch.tensor([[True, True, True, False]])
    assert trainable(tau, mask).tolist() == [[False, True, False, False]]


def test_the_loss_by_hand():
    z0, z1 = torch.zeros(1, 3, 1, 1, 2), torch.ones(1, 3, 1, 1, 2)
    v = torch.tensor([1.0, 2.0, 1.0, 4.0, 9.0, 9.0]).reshape(1, 3, 1, 1, 2)
    mask = torch.tensor([[True, True, False]])
    # frame 0: (0 + 1) / 2; frame 1: (0 + 9) / 2; frame 2 is masked
    assert velocity_loss(v, z0, z1, mask).item() == pytest.approx((0.5 + 4.5) / 2)
    assert velocity_error(v, z0, z1).tolist() == [[0.5, 4.5, 64.0]]
    assert velocity_loss(v, z0, z1, torch.zeros_like(mask)).item() == 0


def test_frames_left_out_have_neither_weight_nor_gradient():
    rng = generator()
    z0, z1 = uniform_noise(2, 4, 1, 2, 2, rng=rng), uniform_noise(2, 4, 1, 2, 2, rng=rng)
    tau = torch.tensor([[1.0, 1.0, 0.4, 0.2], [0.1, 0.9, 0.5, 0.5]])
    mask = trainable(tau, torch.tensor([[True] * 4, [True, True, False, False]]))
    v = uniform_noise(2, 4, 1, 2, 2, rng=rng).requires_grad_()
    loss = velocity_loss(v, z0, z1, mask)
    (gradient,) = torch.autograd.grad(loss, v)
    assert torch.equal(gradient.flatten(2).abs().sum(-1) > 0, mask)
    changed = torch.where(mask[..., None, None, None], v, 100.0)
    assert torch.equal(velocity_loss(changed, z0, z1, mask), loss)
