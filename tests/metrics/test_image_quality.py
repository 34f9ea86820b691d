"""Image quality against hand values and a plain reference."""

import numpy as np
import pytest
import torch

from horizon_imagination.metrics import image_quality as quality
from horizon_imagination.models.perceptual import Lpips


def pictures(seed, *shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_mse_is_taken_frame_by_frame():
    a = torch.zeros(2, 3, 3, 4, 4)
    b = a.clone()
    b[0, 1] = 0.5
    b[1, 2, 0, 0, 0] = 1.0
    expected = torch.zeros(2, 3)
    expected[0, 1], expected[1, 2] = 0.25, 1 / 48
    torch.testing.assert_close(quality.mse(a, b), expected)


def test_psnr_of_a_tenth_is_twenty_decibels():
    a = torch.full((1, 3, 4, 4), 0.5)
    torch.testing.assert_close(quality.psnr(a, a + 0.1), torch.tensor([20.0]))
    assert quality.psnr(a, a).item() == float("inf")


def test_bytes_become_numbers_up_to_one():
    assert quality.unit_pixels(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == [
        0,
        pytest.approx(0.2),
        1,
    ]


def test_ssim_of_flat_images_compares_their_means_alone():
    a, b = torch.full((2, 3, 16, 16), 0.2), torch.full((2, 3, 16, 16), 0.6)
    expected = (2 * 0.2 * 0.6 + 1e-4) / (0.2**2 + 0.6**2 + 1e-4)
    torch.testing.assert_close(quality.ssim(a, b), torch.full((2,), expected))


def test_ssim_agrees_with_a_window_by_window_reference():
    a, b = pictures(0, 1, 14, 13), pictures(1, 1, 14, 13)
    offsets = np.arange(-5, 6)
    window = np.exp(-(offsets[:, None] ** 2 + offsets[None] ** 2) / 4.5)
    window /= window.sum()
    values = []
    for i in range(4):
        for j in range(3):
            x = a[0, i : i + 11, j : j + 11].double().numpy()
            y = b[0, i : i + 11, j : j + 11].double().numpy()
            mx, my = (window * x).sum(), (window * y).sum()
            vx, vy = (window * (x - mx) ** 2).sum(), (window * (y - my) ** 2).sum()
            cov = (window * (x - mx) * (y - my)).sum()
            top = (2 * mx * my + 1e-4) * (2 * cov + 9e-4)
            values.append(top / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4)))
    assert quality.ssim(a, b).item() == pytest.approx(np.mean(values), rel=1e-5)


def test_ssim_is_one_for_equal_images_and_falls_with_noise():
    a = pictures(0, 2, 5, 3, 32, 32)
    torch.testing.assert_close(quality.ssim(a, a), torch.ones(2, 5))
    noise = pictures(1, 2, 5, 3, 32, 32) - 0.5
    light, heavy = quality.ssim(a, a + 0.1 * noise), quality.ssim(a, a + 0.5 * noise)
    assert (heavy < light).all() and (light < 1).all()


def test_ssim_refuses_images_smaller_than_its_window():
    with pytest.raises(ValueError, match="11 x 11"):
        quality.ssim(torch.zeros(1, 3, 8, 8), torch.zeros(1, 3, 8, 8))


def test_lpips_is_handed_images_in_its_own_range_and_keeps_the_batch():
    rng = torch.Generator().manual_seed(0)
    weights = {"shift": torch.zeros(3), "scale": torch.ones(3)}
    for i in range(13):
        weights[f"conv{i}.weight"] = torch.randn(2, 2 if i else 3, 3, 3, generator=rng)
        weights[f"conv{i}.bias"] = torch.zeros(2)
    for i in range(5):
        weights[f"head{i}"] = torch.ones(2)
    network = Lpips(weights)
    a, b = pictures(0, 2, 5, 3, 16, 16), pictures(1, 2, 5, 3, 16, 16)
    found = quality.lpips(a, b, network, batch_size=4)
    assert found.shape == (2, 5)
    torch.testing.assert_close(found[1, 2], network(2 * a[1, 2:3] - 1, 2 * b[1, 2:3] - 1)[0])
