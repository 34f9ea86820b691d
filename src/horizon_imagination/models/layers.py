"""Small parts that several networks share."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from jaxtyping import Bool, Float
from torch import Tensor, nn

from horizon_imagination.types import Latents, Times


class Conv2d(nn.Conv2d):
    """A convolution; where it is fused, its bias has a kernel of its own."""

    fused = False

    def forward(self, input: Tensor) -> Tensor:
        """Convolved, bias added."""
        if self.fused and self.bias is not None:
            from horizon_imagination.kernels.bias import add_bias

            return add_bias(self._conv_forward(input, self.weight, None), self.bias)
        return super().forward(input)


Conv1x1 = partial(Conv2d, kernel_size=1)
Conv3x3 = partial(Conv2d, kernel_size=3, padding=1)


def zero_init(layer: nn.Linear) -> nn.Linear:
    """A layer that starts by saying nothing."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def fan_in_init(layer: nn.Linear) -> nn.Linear:
    """Truncated normal of deviation 1 / sqrt(fan in)."""
    std = layer.in_features**-0.5
    nn.init.trunc_normal_(layer.weight, std=std, a=-3 * std, b=3 * std)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def time_features(tau: Float[Tensor, "*batch"], dim: int) -> Float[Tensor, "*batch {dim}"]:
    """Sinusoids of 1000 tau, so that times in [0, 1] use the whole range of frequencies."""
    half = dim // 2
    frequency = torch.exp(-math.log(10_000) * torch.arange(half, device=tau.device) / half)
    angle = 1000 * tau[..., None].float() * frequency
    return torch.cat([angle.cos(), angle.sin()], dim=-1)


class GroupNorm(nn.GroupNorm):
    """Group norm, followed by SiLU if asked; one kernel pair where it is fused."""

    fused = False

    def __init__(self, groups: int, channels: int, *, silu: bool = False) -> None:
        super().__init__(groups, channels, eps=1e-6)
        self.silu = silu

    def forward(self, input: Tensor) -> Tensor:
        """Normalised and, if asked, activated."""
        if self.fused:
            from horizon_imagination.kernels.group_norm import fits, group_norm

            if fits(input, self.num_groups):
                return group_norm(
                    input, self.weight, self.bias, self.num_groups, self.eps, silu=self.silu
                )
        y = super().forward(input)
        return F.silu(y) if self.silu else y


def norm_silu(groups: int, channels: int) -> nn.Module:
    """Group norm and SiLU; `groups` 0 leaves out the norm."""
    return GroupNorm(groups, channels, silu=True) if groups else nn.SiLU()


class ResnetBlock(nn.Module):
    """Pre-activation residual block of two 3 x 3 convolutions; `groups` 0 leaves out the norms."""

    def __init__(self, channels_in: int, channels: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = norm_silu(groups, channels_in), Conv3x3(channels_in, channels)
        self.norm2, self.conv2 = norm_silu(groups, channels), Conv3x3(channels, channels)
        same = channels_in == channels
        self.shortcut = nn.Identity() if same else Conv1x1(channels_in, channels)

    def forward(
        self, x: Float[Tensor, "batch _ height width"]
    ) -> Float[Tensor, "batch _ height width"]:
        """x + f(x)."""
        return self.shortcut(x) + self.conv2(self.norm2(self.conv1(self.norm1(x))))


class LatentStatistics(nn.Module):
    """Running mean frame and channel deviation of clean latents, for centring and scaling.

    Latents of nearly static scenes differ little; small networks learn from the differences.
    """

    mean: Tensor
    std: Tensor
    steps: Tensor

    def __init__(self, channels: int, size: int, decay: float = 0.01) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("mean", torch.zeros(channels, size, size))
        self.register_buffer("std", torch.ones(channels, 1, 1))
        self.register_buffer("steps", torch.zeros(()))

    @torch.no_grad()
    def update(self, z: Latents, mask: Bool[Tensor, "batch time"]) -> None:
        """Follow the statistics of a batch of clean latents; early batches count fully."""
        weight = rearrange(mask.to(z), "b t -> b t 1 1 1")
        count = weight.sum().clamp(min=1)
        mean = (z * weight).sum((0, 1)) / count
        deviation = reduce((z - mean).square() * weight, "b t c h w -> c", "sum")
        std = (deviation / (count * z.shape[-1] * z.shape[-2])).sqrt()
        self.steps += 1
        rate = (1 / self.steps).clamp(min=self.decay)
        self.mean.lerp_(mean, rate)
        self.std.lerp_(rearrange(std, "c -> c 1 1"), rate)

    def normalize(self, z: Latents, tau: Times) -> Latents:
        """Zero mean and unit deviation at every noise level: E z^tau = tau E z^1."""
        tau = rearrange(tau, "b t -> b t 1 1 1")
        spread = (tau * self.scale).square() + (1 - tau).square() / 3
        return (z - tau * self.mean) / spread.sqrt()

    @property
    def scale(self) -> Tensor:
        """The deviation, kept away from zero."""
        return self.std.clamp(min=1e-3)


class FeatureStatistics(nn.Module):
    """Running mean of every feature and one deviation for all, for centring and scaling.

    A wide layer whose inputs have a mean lets its outputs drift: where learning asks for a larger
    output in every frame, Adam moves all weights of a row together by the whole learning rate, and
    soon nothing but that drift is left. Centred inputs prevent it.
    """

    mean: Tensor
    std: Tensor
    steps: Tensor

    def __init__(self, size: int, decay: float = 0.05) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("std", torch.ones(()))
        self.register_buffer("steps", torch.zeros(()))

    @torch.no_grad()
    def update(self, x: Float[Tensor, "frame feature"], mask: Bool[Tensor, " frame"]) -> None:
        """Follow the statistics of the frames of a mask; early batches count fully."""
        x, weight = x.float(), rearrange(mask.float(), "frame -> frame 1")
        count = weight.sum().clamp(min=1)
        mean = (x * weight).sum(0) / count
        variance = ((x - mean).square() * weight).sum() / (count * x.shape[1])
        self.steps += 1
        rate = (1 / self.steps).clamp(min=self.decay)
        self.mean.lerp_(mean, rate)
        self.std.lerp_(variance.sqrt(), rate)

    def normalize(self, x: Float[Tensor, "frame feature"]) -> Float[Tensor, "frame feature"]:
        """Zero mean, and unit deviation over all features, in float32."""
        return (x - self.mean) / self.std.clamp(min=1e-3)
