"""VGG features of images, the perceptual loss of the tokenizer, and LPIPS.

The loss is a weighted sum of mean absolute differences of features after the last rectifier of
each of VGG's five blocks. Images are in [-1, 1].
"""

from collections.abc import Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from jaxtyping import Float
from torch import Tensor, nn

Images = Float[Tensor, "batch 3 height width"]
Network = Literal["vgg16", "vgg19"]

BLOCKS = {"vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}
"""Convolutions per block; a pool lies between blocks."""

LAYER_WEIGHTS = (0.1 / 2.6, 0.1 / 4.8, 0.1 / 3.7, 0.1 / 5.6, 1.0 / 1.5)
"""Published for raw VGG features, with the published factor 0.1."""

NORMALIZED_WEIGHT = 0.0598
"""Weight of every layer of the VGG-19 whose channels average 1. With it both losses agree on
blurred images, so that the learning rate keeps its meaning. A test computes it anew."""


class FrozenConvolution(nn.Module):
    """A 3 x 3 convolution and ReLU whose weights are neither trained nor saved."""

    weight: Tensor
    bias: Tensor
    fused = False

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve with zero padding, then ReLU."""
        if self.fused:
            from horizon_imagination.kernels.bias import add_bias

            return add_bias(F.conv2d(x, self.weight, padding=1), self.bias, relu=True)
        return F.conv2d(x, self.weight, self.bias, padding=1).relu_()


class VggFeatures(nn.Module):
    """The activations at the end of each of the five blocks, before its pool."""

    shift: Tensor
    scale: Tensor

    def __init__(self, name: Network, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.register_buffer("shift", weights["shift"].view(3, 1, 1), persistent=False)
        self.register_buffer("scale", weights["scale"].view(3, 1, 1), persistent=False)
        self.blocks = nn.ModuleList()
        index = 0
        for length in BLOCKS[name]:
            layers = [
                FrozenConvolution(weights[f"conv{i}.weight"], weights[f"conv{i}.bias"])
                for i in range(index, index + length)
            ]
            self.blocks.append(nn.Sequential(*layers))
            index += length

    def forward(self, images: Images) -> list[Float[Tensor, "batch _ _ _"]]:
        """Five feature maps, from fine to coarse."""
        x = (images - self.shift) / self.scale
        features = []
        for i, block in enumerate(self.blocks):
            x = block(F.max_pool2d(x, 2) if i else x)
            features.append(x)
        return features


class PerceptualLoss(nn.Module):
    """Distance of two image batches in features of a frozen VGG; only the first has gradients."""

    fused = False

    def __init__(self, name: Network, weights: Mapping[str, Tensor]) -> None:
        """`weights` are those of `pretrained.load_weights(name)`."""
        super().__init__()
        self.features = VggFeatures(name, weights)
        normalized = "normalized" in weights
        self.layer_weights = (NORMALIZED_WEIGHT,) * 5 if normalized else LAYER_WEIGHTS

    def forward(self, images: Images, target: Images) -> Float[Tensor, ""]:
        """The weighted sum over layers of the mean absolute difference of features."""
        with torch.no_grad():
            wanted = self.features(target)
        differences = self._differences(self.features(images), wanted)
        return sum(
            (w * d for w, d in zip(self.layer_weights, differences, strict=True)),
            start=images.new_zeros(()),
        )

    def _differences(self, a: list[Tensor], b: list[Tensor]) -> list[Float[Tensor, ""]]:
        if not self.fused:
            return layer_differences(a, b)
        from horizon_imagination.kernels.distance import mean_distance

        return [mean_distance(x, y) for x, y in zip(a, b, strict=True)]

    def halved(self) -> "PerceptualLoss":
        """Convert the kernels to bfloat16 once, instead of at every call under autocast."""
        for module in self.features.modules():
            if isinstance(module, FrozenConvolution):
                module.weight = module.weight.to(torch.bfloat16)
        return self


def layer_differences(a: list[Tensor], b: list[Tensor]) -> list[Float[Tensor, ""]]:
    """Mean absolute difference of each layer, in float32."""
    return [(x.float() - y.float()).abs().mean() for x, y in zip(a, b, strict=True)]


class Lpips(nn.Module):
    """LPIPS v0.1 on VGG-16: squared differences of unit features under learned channel weights."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        """`weights` are those of `pretrained.load_weights("vgg16")`."""
        super().__init__()
        self.features = VggFeatures("vgg16", weights)
        for i in range(5):
            self.register_buffer(f"head{i}", weights[f"head{i}"], persistent=False)

    @torch.no_grad()
    def forward(self, a: Images, b: Images) -> Float[Tensor, " batch"]:
        """One distance per pair of images in [-1, 1]."""
        distance = a.new_zeros(len(a))
        for i, (x, y) in enumerate(zip(self.features(a), self.features(b), strict=True)):
            unlike = (unit_channels(x) - unit_channels(y)).square()
            head = rearrange(self.get_buffer(f"head{i}"), "c -> c 1 1")
            distance += reduce((head * unlike).sum(1), "b h w -> b", "mean")
        return distance


def unit_channels(x: Tensor) -> Tensor:
    """Each position's channels scaled to length 1."""
    return x / (x.square().sum(1, keepdim=True).sqrt() + 1e-10)
