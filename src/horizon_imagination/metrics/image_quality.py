"""Distance of frames from reference frames: MSE, PSNR, SSIM and LPIPS.

Pixels are in [0, 1]. Each function returns one number per frame; the caller averages.
"""

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from horizon_imagination.models.perceptual import Lpips

Pictures = Float[Tensor, "*batch channel height width"]
PerFrame = Float[Tensor, "*batch"]


def unit_pixels(frames: UInt8[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Bytes as numbers in [0, 1]."""
    return frames.float() / 255


def in_colour(frames: Shaped[Tensor, "*batch _ height width"]) -> Shaped[Tensor, "*batch 3 _ _"]:
    """Frames to look at: grey ones three times, of a stack the newest, which is its last channels.

    A stack whose channels are a multiple of three is taken for one of colours.
    """
    count = frames.shape[-3]
    newest = frames[..., -3:, :, :] if count % 3 == 0 else frames[..., -1:, :, :]
    return newest.expand(*newest.shape[:-3], 3, *newest.shape[-2:])


def mse(a: Pictures, b: Pictures) -> PerFrame:
    """Mean squared error of the pixels of each frame."""
    return reduce((a - b).square(), "... c h w -> ...", "mean")


def psnr(a: Pictures, b: Pictures) -> PerFrame:
    """Peak signal-to-noise ratio in decibels, 10 log10(1 / MSE); infinite for equal frames."""
    return -10 * mse(a, b).log10()


def ssim(a: Pictures, b: Pictures) -> PerFrame:
    """Structural similarity (Wang et al. 2004): Gaussian windows of 11 x 11, deviation 1.5.

    Windows that lie within the image, each channel on its own, then the mean of all.
    """
    if min(a.shape[-2:]) < 11:
        raise ValueError(f"SSIM needs frames of at least 11 x 11 pixels, got {tuple(a.shape[-2:])}")
    mean_a, mean_b = gaussian_mean(a), gaussian_mean(b)
    var_a = gaussian_mean(a * a) - mean_a.square()
    var_b = gaussian_mean(b * b) - mean_b.square()
    covariance = gaussian_mean(a * b) - mean_a * mean_b
    c1, c2 = 0.01**2, 0.03**2
    likeness = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    likeness = likeness / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
    return reduce(likeness, "... c h w -> ...", "mean").to(a.dtype)


def gaussian_mean(x: Pictures) -> Float[Tensor, "*batch channel _ _"]:
    """Local means under the 11 x 11 window, in float64: variances are small differences."""
    offsets = torch.arange(-5, 6, dtype=torch.float64, device=x.device)
    window = torch.exp(-offsets.square() / (2 * 1.5**2))
    window = window / window.sum()
    flat = rearrange(x.double().reshape(-1, *x.shape[-2:]), "n h w -> n 1 h w")
    rows = F.conv2d(flat, rearrange(window, "k -> 1 1 k 1"))
    means = F.conv2d(rows, rearrange(window, "k -> 1 1 1 k"))
    return means.reshape(*x.shape[:-2], *means.shape[-2:])


def lpips(a: Pictures, b: Pictures, network: Lpips, *, batch_size: int = 64) -> PerFrame:
    """LPIPS (VGG-16) of each pair of frames with three channels."""
    flat = (2 * z.reshape(-1, *z.shape[-3:]) - 1 for z in (a, b))
    pairs = zip(*(z.split(batch_size) for z in flat), strict=True)
    distances = [network(x, y) for x, y in pairs]
    return torch.cat(distances).reshape(a.shape[:-3])
