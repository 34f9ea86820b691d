"""The perceptual loss, by hand on tiny inputs and with the real weights where they are cached."""

import math

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange

from horizon_imagination.errors import UsageError
from horizon_imagination.models.perceptual import (
    BLOCKS,
    LAYER_WEIGHTS,
    NORMALIZED_WEIGHT,
    Lpips,
    PerceptualLoss,
    layer_differences,
)
from horizon_imagination.pretrained import is_installed, load_weights

CHANNELS = (4, 5, 6, 7, 8)


def tiny_weights(name="vgg16"):
    """Random convolutions of the right arrangement with few channels."""
    rng = torch.Generator().manual_seed(0)
    weights = {
        "shift": torch.tensor([-0.030, -0.088, -0.188]),
        "scale": torch.tensor([0.458, 0.448, 0.450]),
    }
    index, inputs = 0, 3
    for length, outputs in zip(BLOCKS[name], CHANNELS, strict=True):
        for _ in range(length):
            kernel = torch.randn(outputs, inputs, 3, 3, generator=rng)
            weights[f"conv{index}.weight"] = kernel * (2 / (9 * inputs)) ** 0.5
            weights[f"conv{index}.bias"] = 0.1 * torch.randn(outputs, generator=rng)
            index, inputs = index + 1, outputs
    for i, channels in enumerate(CHANNELS):
        weights[f"head{i}"] = torch.rand(channels, generator=rng)
    return weights


def images(seed, size=32):
    return 2 * torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(seed)) - 1


def features_by_hand(weights, name, x):
    x = (x - weights["shift"].view(3, 1, 1)) / weights["scale"].view(3, 1, 1)
    index, found = 0, []
    for block, length in enumerate(BLOCKS[name]):
        if block:
            x = F.max_pool2d(x, 2, 2)
        for _ in range(length):
            kernel, bias = weights[f"conv{index}.weight"], weights[f"conv{index}.bias"]
            x = F.conv2d(x, kernel, bias, padding=1).clamp(min=0)
            index += 1
        found.append(x)
    return found


@pytest.mark.parametrize("name", ["vgg16", "vgg19"])
def test_the_loss_is_the_weighted_sum_of_mean_absolute_feature_differences(name):
    weights, a, b = tiny_weights(name), images(1), images(2)
    fs, gs = (features_by_hand(weights, name, x) for x in (a, b))
    published = [0.1 / 2.6, 0.1 / 4.8, 0.1 / 3.7, 0.1 / 5.6, 1 / 1.5]
    expected = sum(w * (f - g).abs().mean() for w, f, g in zip(published, fs, gs, strict=True))
    torch.testing.assert_close(PerceptualLoss(name, weights)(a, b), expected)


def test_features_stand_before_the_pools_and_halve_in_size():
    shapes = [
        tuple(f.shape[1:]) for f in PerceptualLoss("vgg16", tiny_weights()).features(images(1))
    ]
    assert shapes == [(4, 32, 32), (5, 16, 16), (6, 8, 8), (7, 4, 4), (8, 2, 2)]


def test_normalised_features_get_equal_weights():
    weights = tiny_weights("vgg19") | {"normalized": torch.ones(1)}
    assert PerceptualLoss("vgg19", weights).layer_weights == (NORMALIZED_WEIGHT,) * 5
    assert PerceptualLoss("vgg19", tiny_weights("vgg19")).layer_weights == LAYER_WEIGHTS


def test_identical_images_cost_nothing_and_gradients_reach_the_first_only():
    loss, a = PerceptualLoss("vgg16", tiny_weights()), images(1)
    assert loss(a, a) == 0
    x, target = images(1).requires_grad_(), images(2).requires_grad_()
    loss(x, target).backward()
    assert x.grad is not None and x.grad.abs().sum() > 0
    assert target.grad is None


def test_halved_convolutions_are_those_that_autocast_would_cast_at_every_call():
    a, b = images(0), images(1)
    loss = PerceptualLoss("vgg16", tiny_weights())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = loss(a, b)
        kept = loss.halved()(a, b)
    assert loss.features.blocks[0][0].weight.dtype == torch.bfloat16
    torch.testing.assert_close(kept, cast, atol=0, rtol=0)


def test_the_network_is_invisible_to_optimisers_and_checkpoints():
    loss = PerceptualLoss("vgg16", tiny_weights())
    assert not list(loss.parameters()) and not loss.state_dict()
    moved = loss.to(torch.float64)
    assert moved(images(1).double(), images(2).double()).dtype == torch.float64


def test_lpips_is_the_head_weighted_distance_of_unit_features():
    weights, a, b = tiny_weights(), images(1), images(2)
    expected = torch.zeros(2)
    fs, gs = (features_by_hand(weights, "vgg16", x) for x in (a, b))
    for i, (f, g) in enumerate(zip(fs, gs, strict=True)):
        f, g = F.normalize(f, dim=1), F.normalize(g, dim=1)
        expected += torch.einsum("c,bchw->b", weights[f"head{i}"], (f - g) ** 2) / f[0, 0].numel()
    torch.testing.assert_close(Lpips(weights)(a, b), expected)
    assert Lpips(weights)(a, a).tolist() == [0, 0]


def test_missing_weights_name_the_command_that_gets_them(tmp_path, monkeypatch):
    monkeypatch.setenv("HORIZON_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="horizon weights get vgg19"):
        load_weights("vgg19")


def calibration_images(count=8, size=64):
    """Fixed game-like images in [-1, 1]: a gradient, flat blocks and fine sprites, from sines."""
    y, x = torch.meshgrid(torch.arange(size) / size, torch.arange(size) / size, indexing="ij")
    images = []
    for k in range(count):
        blocks = torch.sin((3 + k) * x + k) * torch.cos((4 + k % 3) * y - k) > 0.2
        sprites = (torch.sin(9 * x + k) > 0.5) & (torch.cos(60 * y - k) > 0)
        for c in range(3):
            sky = 0.5 * torch.sin(2 * y + c + k)
            images.append(torch.where(sprites, 0.9 - 0.6 * c, sky + 0.3 * math.sin(c * k) * blocks))
    return rearrange(torch.stack(images), "(k c) h w -> k c h w", c=3)


def blurred(images):
    """The mean over 5 x 5 pixels, edges repeated."""
    return F.avg_pool2d(F.pad(images, (2, 2, 2, 2), mode="replicate"), 5, stride=1)


def loss_of(name):
    return PerceptualLoss(name, load_weights(name))


def test_calibration_images_are_images():
    x = calibration_images()
    assert x.shape == (8, 3, 64, 64) and x.abs().max() <= 1
    assert (blurred(x) - x).abs().mean() > 0.01
    torch.testing.assert_close(
        blurred(torch.full((1, 3, 8, 8), 0.3)), torch.full((1, 3, 8, 8), 0.3)
    )


real = pytest.mark.skipif(
    not (is_installed("vgg16") and is_installed("vgg19")), reason="needs cached VGG weights"
)


@real
def test_both_real_networks_cost_the_same_on_the_blurred_set():
    vgg16, vgg19, x = loss_of("vgg16"), loss_of("vgg19"), calibration_images()
    equal = layer_differences(vgg19.features(blurred(x)), vgg19.features(x))
    matching = vgg16(blurred(x), x) / torch.stack(equal).sum()
    assert matching.item() == pytest.approx(NORMALIZED_WEIGHT, rel=2e-3)
    torch.testing.assert_close(vgg16(blurred(x), x), vgg19(blurred(x), x), rtol=2e-3, atol=0)


@real
def test_the_real_vgg19_has_channels_that_average_one():
    means = [f.mean().item() for f in loss_of("vgg19").features(calibration_images())]
    assert all(0.5 < m < 2 for m in means), means


@real
def test_real_lpips_grows_with_noise_and_with_blur():
    x, lpips = calibration_images(), Lpips(load_weights("vgg16"))
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    noisy = [lpips(x + s * noise, x).mean() for s in (0.02, 0.1, 0.4)]
    assert 0 < noisy[0] < noisy[1] < noisy[2] < 1.5
    assert 0 < lpips(blurred(x), x).mean() < lpips(blurred(blurred(x)), x).mean()
