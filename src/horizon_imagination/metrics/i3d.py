"""I3D on Kinetics-400, the network that the Fréchet video distance is defined on.

Batch norms are folded into the convolutions. Padding is TensorFlow's SAME: as much as makes the
output ceil(size / stride), the odd one at the end. All pools follow a rectifier, so that padding
them with zeros is exact. A feature is the 400 logits averaged over time, before the softmax.
"""

import functools
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from horizon_imagination.pretrained import load_weights

Volume = Float[Tensor, "batch channel time height width"]
Changed = Float[Tensor, "batch _ _ _ _"]
Size = tuple[int, int, int]

MIN_FRAMES = 9
"""Fewer leave nothing for the last pool, which spans two time steps after a stride of 8."""

LAYERS = (
    *("Conv3d_1a_7x7", "Conv3d_2b_1x1", "Conv3d_2c_3x3", "Mixed_3b", "Mixed_3c"),
    *("Mixed_4b", "Mixed_4c", "Mixed_4d", "Mixed_4e", "Mixed_4f", "Mixed_5b", "Mixed_5c"),
)
"""In order; `Mixed` ones are Inception modules. The first has a stride of 2, all others of 1."""

POOL_AFTER: dict[str, tuple[Size, Size]] = {
    "Conv3d_1a_7x7": ((1, 3, 3), (1, 2, 2)),
    "Conv3d_2c_3x3": ((1, 3, 3), (1, 2, 2)),
    "Mixed_3c": ((3, 3, 3), (2, 2, 2)),
    "Mixed_4f": ((2, 2, 2), (2, 2, 2)),
}
"""Kernel and stride of the pool that follows a layer."""


def same_padding(sizes: tuple[int, ...], kernel: Size, stride: Size) -> list[int]:
    """Padding for `F.pad` (last dimension first), smaller half before.

    >>> same_padding((16, 224, 224), (7, 7, 7), (2, 2, 2))
    [2, 3, 2, 3, 2, 3]
    """
    padding: list[int] = []
    for size, k, s in reversed(list(zip(sizes, kernel, stride, strict=True))):
        total = max((-(-size // s) - 1) * s + k - size, 0)
        padding += [total // 2, total - total // 2]
    return padding


def pool(x: Volume, kernel: Size, stride: Size) -> Changed:
    """Max pool with SAME padding of values that are not negative.

    One dimension after the other, as maxima of shifted slices: on the CPU several times faster
    than `max_pool3d`, which would take a third of the network's time.
    """
    x = F.pad(x, same_padding(x.shape[2:], kernel, stride))
    for dim, (k, s) in enumerate(zip(kernel, stride, strict=True), start=2):
        span = x.shape[dim] - k + 1
        every = (*[slice(None)] * dim, slice(None, None, s))
        x = functools.reduce(torch.maximum, [x.narrow(dim, i, span)[every] for i in range(k)])
    return x


class Unit(nn.Module):
    """Convolution with folded batch norm, and a rectifier."""

    weight: Tensor
    bias: Tensor

    def __init__(self, weights: Mapping[str, Tensor], name: str, stride: Size = (1, 1, 1)) -> None:
        super().__init__()
        self.register_buffer("weight", weights[f"{name}.weight"], persistent=False)
        self.register_buffer("bias", weights[f"{name}.bias"], persistent=False)
        t, h, w = self.weight.shape[2:]
        self.kernel: Size = (t, h, w)
        self.stride = stride

    def forward(self, x: Volume) -> Changed:
        """Convolve with SAME padding, then rectify."""
        x = F.pad(x, same_padding(x.shape[2:], self.kernel, self.stride))
        return F.conv3d(x, self.weight, self.bias, self.stride).relu_()


class Inception(nn.Module):
    """Four branches side by side: 1, 1-3, 1-3 and pool-1 convolutions."""

    def __init__(self, weights: Mapping[str, Tensor], name: str) -> None:
        super().__init__()
        self.branch0 = Unit(weights, f"{name}/Branch_0/Conv3d_0a_1x1")
        self.branch1 = nn.Sequential(
            Unit(weights, f"{name}/Branch_1/Conv3d_0a_1x1"),
            Unit(weights, f"{name}/Branch_1/Conv3d_0b_3x3"),
        )
        self.branch2 = nn.Sequential(
            Unit(weights, f"{name}/Branch_2/Conv3d_0a_1x1"),
            Unit(weights, f"{name}/Branch_2/Conv3d_0b_3x3"),
        )
        self.branch3 = Unit(weights, f"{name}/Branch_3/Conv3d_0b_1x1")

    def forward(self, x: Volume) -> Changed:
        """The branches' channels, one after the other."""
        pooled = pool(x, (3, 3, 3), (1, 1, 1))
        branches = [self.branch0(x), self.branch1(x), self.branch2(x), self.branch3(pooled)]
        return torch.cat(branches, dim=1)


def layer(weights: Mapping[str, Tensor], name: str) -> nn.Module:
    """The module of a layer's name."""
    if name.startswith("Mixed"):
        return Inception(weights, name)
    return Unit(weights, name, (2, 2, 2) if name == LAYERS[0] else (1, 1, 1))


class I3D(nn.Module):
    """Videos in [-1, 1], 224 x 224, at least 9 frames, to 400 logits."""

    def __init__(self, weights: Mapping[str, Tensor] | None = None) -> None:
        """`weights` default to the user's cache."""
        super().__init__()
        tensors = load_weights("i3d") if weights is None else weights
        self.layers = nn.ModuleDict({name: layer(tensors, name) for name in LAYERS})
        self.register_buffer("logits", tensors["Logits/Conv3d_0c_1x1.weight"], persistent=False)
        self.register_buffer("bias", tensors["Logits/Conv3d_0c_1x1.bias"], persistent=False)

    def forward(self, videos: Volume) -> Float[Tensor, "batch 400"]:
        """Logits averaged over time."""
        x = videos
        for name, module in self.layers.items():
            x = module(x)
            if name in POOL_AFTER:
                x = pool(x, *POOL_AFTER[name])
        x = F.avg_pool3d(x, (2, 7, 7), stride=1)
        logits = F.conv3d(x, self.get_buffer("logits"), self.get_buffer("bias"))
        return reduce(logits, "b c t 1 1 -> b c", "mean")


@torch.no_grad()
def video_features(
    videos: UInt8[Tensor, "sample time 3 height width"],
    network: I3D | None = None,
    *,
    device: torch.device | str = "cpu",
    batch_size: int = 8,
) -> Float[Tensor, "sample 400"]:
    """I3D features of videos of any size, on the CPU in float32."""
    if videos.shape[1] < MIN_FRAMES:
        raise ValueError(f"I3D needs videos of at least {MIN_FRAMES} frames, got {videos.shape[1]}")
    network = (network or I3D()).to(device)
    features = []
    for batch in videos.split(batch_size):
        features.append(network(prepare(batch.to(device))).float().cpu())
    return torch.cat(features)


def prepare(
    videos: UInt8[Tensor, "sample time 3 height width"],
) -> Float[Tensor, "sample 3 time 224 224"]:
    """Frames resized bilinearly to 224 x 224, in [-1, 1], time after channels."""
    frames = rearrange(videos, "n t c h w -> (n t) c h w").float() / 127.5 - 1
    frames = F.interpolate(frames, size=(224, 224), mode="bilinear", align_corners=False)
    return rearrange(frames, "(n t) c h w -> n c t h w", n=len(videos))
