"""The denoiser of imagination with its blocks in fused kernels: the same function, faster.

It holds a copy of the weights in the dtype of the matrix products; `refresh` updates the copy.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from horizon_imagination.models.attention import rotary_angles
from horizon_imagination.models.denoiser import Denoiser, SeenFrames
from horizon_imagination.types import Actions, Latents, Times


@dataclass
class FusedCache:
    """Keys and values of all frames, for every layer, and the angles of their positions."""

    frames: int
    keys: Tensor | None = None
    values: Tensor | None = None
    cos: Tensor | None = None
    sin: Tensor | None = None


class FusedDenoiser:
    """Windows of a denoiser, without gradients and without padded contexts."""

    def __init__(self, source: Denoiser, dtype: torch.dtype = torch.bfloat16) -> None:
        self.source = source
        self.copy = copy.deepcopy(source).requires_grad_(False).to(dtype)

    @staticmethod
    def fits(denoiser: Denoiser) -> bool:
        """Whether the kernels can take a denoiser of this shape."""
        return denoiser.head_dim in (16, 32, 64, 128)

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the current weights of the source."""
        torch._foreach_copy_(  # type: ignore[attr-defined]
            list(self.copy.parameters()), list(self.source.parameters())
        )

    def cache(self, frames: int) -> FusedCache:
        """An empty cache for up to `frames` frames."""
        return FusedCache(frames)

    @torch.no_grad()
    def window(
        self,
        z: Latents,
        tau: Times,
        prev_actions: Actions,
        *,
        cache: FusedCache,
        start: int,
        real: SeenFrames | None = None,
    ) -> Latents:
        """The same result as `Denoiser.window`."""
        if real is not None:
            raise ValueError("padded contexts need the plain denoiser")
        with torch.autocast(z.device.type, enabled=False):
            net, source = self.copy, self.source
            noisy = source.statistics.normalize(z, tau) if source.statistics else z
            condition = net.conditions(tau, prev_actions)
            x = net.embedded(noisy.to(condition.dtype), prev_actions).float()
            modulation = net.modulate(F.silu(condition))
            out = self._blocks(x, modulation, cache, start)
            return source.velocity(net.unpatched(net.out(out)).float(), z, tau)

    def _blocks(self, x: Tensor, modulation: Tensor, cache: FusedCache, start: int) -> Tensor:
        from horizon_imagination.kernels.window import gelu_, residual_norm, window_attention

        tokens = self.source.tokens_per_frame
        keys, values, cos, sin = self._memory(x, cache)
        h = x.new_empty(x.shape, dtype=modulation.dtype)
        branch, part = None, 0
        blocks: Any = self.copy.blocks
        for layer, block in enumerate(blocks):
            # The gate of the branch before is the last part of its three.
            h = residual_norm(
                x, branch, modulation, gate=part - 1, shift=part, scale=part + 1, out=h
            )
            qkv = block.attention.qkv(rearrange(h, "b t n d -> b (t n) d"))
            attended = window_attention(
                qkv, cos, sin, keys[layer], values[layer], first=start * tokens, tokens=tokens
            )
            branch = block.attention.out(attended)
            h = residual_norm(
                x, branch, modulation, gate=part + 2, shift=part + 3, scale=part + 4, out=h
            )
            widen, _, narrow = block.mlp
            branch, part = narrow(gelu_(widen(h))), part + 6
        return residual_norm(
            x, branch, modulation, gate=part - 1, shift=part, scale=part + 1, out=h
        )

    def _memory(self, x: Tensor, cache: FusedCache) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if cache.keys is None or cache.values is None or cache.cos is None or cache.sin is None:
            source = self.source
            length = cache.frames * source.tokens_per_frame
            shape = (len(source.blocks), len(x), source.heads, length, source.head_dim)
            cache.keys = x.new_empty(shape, dtype=self.copy.embed.weight.dtype)
            cache.values = torch.empty_like(cache.keys)
            cache.cos, cache.sin = rotary_angles(
                source.head_dim, 0, cache.frames, source.grid, x.device
            )
        return cache.keys, cache.values, cache.cos, cache.sin
