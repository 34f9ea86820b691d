"""The tokenizer: a convolutional autoencoder whose latents a tanh keeps in [-1, 1] (table 1)."""

import torch
import torch.nn.functional as F
from einops import pack, rearrange, unpack
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from horizon_imagination.models.layers import (
    Conv1x1,
    Conv2d,
    Conv3x3,
    GroupNorm,
    ResnetBlock,
    norm_silu,
)
from horizon_imagination.types import Frames, Latents

Images = Float[Tensor, "batch channel height width"]
OtherImages = Float[Tensor, "batch _ _ _"]
"""Of another size than the input."""


def to_images(frames: UInt8[Tensor, "..."]) -> Float[Tensor, "..."]:
    """uint8 to [-1, 1]."""
    return frames.float() / 127.5 - 1


def to_frames(images: Float[Tensor, "..."]) -> UInt8[Tensor, "..."]:
    """[-1, 1] to uint8, rounded."""
    return ((images.float().clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)


class SpatialAttention(nn.Module):
    """One head of attention over the pixels of a feature map, residual."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm = GroupNorm(groups, channels)
        self.query, self.key, self.value, self.out = (Conv1x1(channels, channels) for _ in range(4))

    def forward(self, x: Images) -> Images:
        """x + attention(x)."""
        y = self.norm(x)
        q, k, v = (
            rearrange(f(y), "b c h w -> b 1 (h w) c") for f in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(rearrange(y, "b 1 (h w) c -> b c h w", h=x.shape[-2]))


class Downsample(nn.Module):
    """Halve the resolution by a strided convolution padded at the right and the bottom."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = Conv2d(channels, channels, kernel_size=3, stride=2)

    def forward(self, x: Images) -> OtherImages:
        """Half the height and width."""
        return self.conv(F.pad(x, (0, 1, 0, 1)))


class Upsample(nn.Module):
    """Double the resolution by repetition, then a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = Conv3x3(channels, channels)

    def forward(self, x: Images) -> OtherImages:
        """Twice the height and width."""
        if not x.is_cuda:
            return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        with torch.autocast("cuda", enabled=False):  # which would repeat pixels in float32
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.conv(x)


class Tokenizer(nn.Module):
    """Frames to latents in [-1, 1] and back."""

    def __init__(
        self,
        *,
        size: int,
        image_channels: int,
        patch_size: int,
        channels: int,
        multipliers: tuple[int, ...],
        encoder_blocks: int,
        decoder_blocks: int,
        attention_at: tuple[int, ...],
        latent_channels: int,
        norm_groups: int,
    ) -> None:
        super().__init__()
        self.patch, self.latent_channels = patch_size, latent_channels
        self.latent_size = size // patch_size // 2 ** len(multipliers)
        pixels, widths = image_channels * patch_size**2, [channels * m for m in multipliers]
        top, g = widths[-1], norm_groups

        def level(width_in: int, width: int, blocks: int, resolution: int) -> list[nn.Module]:
            layers: list[nn.Module] = []
            for i in range(blocks):
                layers.append(ResnetBlock(width_in if i == 0 else width, width, g))
                if resolution in attention_at:
                    layers.append(SpatialAttention(width, g))
            return layers

        def middle() -> list[nn.Module]:
            return [ResnetBlock(top, top, g), SpatialAttention(top, g), ResnetBlock(top, top, g)]

        resolution, width = size // patch_size, channels
        encoder: list[nn.Module] = [Conv3x3(pixels, channels)]
        for next_width in widths:
            encoder += level(width, next_width, encoder_blocks, resolution)
            encoder.append(Downsample(next_width))
            resolution, width = resolution // 2, next_width
        encoder += [*middle(), norm_silu(g, top)]
        encoder += [Conv3x3(top, latent_channels), Conv1x1(latent_channels, latent_channels)]
        decoder: list[nn.Module] = [Conv1x1(latent_channels, latent_channels)]
        decoder += [Conv3x3(latent_channels, top), *middle()]
        for next_width in reversed(widths):
            decoder += level(width, next_width, decoder_blocks, resolution)
            decoder.append(Upsample(next_width))
            resolution, width = resolution * 2, next_width
        decoder += [norm_silu(g, width), Conv3x3(width, pixels)]
        self.encoder, self.decoder = nn.Sequential(*encoder), nn.Sequential(*decoder)

    def encode_images(self, images: Images) -> OtherImages:
        """Latents of images in [-1, 1]."""
        x = rearrange(images, "b c (h p) (w q) -> b (c p q) h w", p=self.patch, q=self.patch)
        return torch.tanh(self.encoder(x))

    def decode_images(self, z: Images) -> OtherImages:
        """Images, ideally in [-1, 1], of latents."""
        x = self.decoder(z)
        return rearrange(x, "b (c p q) h w -> b c (h p) (w q)", p=self.patch, q=self.patch)

    @torch.no_grad()
    def encode(self, frames: Frames) -> Float[Tensor, "batch time _ _ _"]:
        """Latents of stored frames, float32, without gradient."""
        flat, shape = pack([frames], "* c h w")
        return unpack(self.encode_images(to_images(flat)).float(), shape, "* c h w")[0]

    @torch.no_grad()
    def decode(self, z: Latents) -> UInt8[Tensor, "batch time _ _ _"]:
        """Frames to look at."""
        flat, shape = pack([z], "* c h w")
        return unpack(to_frames(self.decode_images(flat)), shape, "* c h w")[0]
