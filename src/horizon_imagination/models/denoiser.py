"""The denoiser: a frame-causal video DiT with a time and a previous action per frame.

Conditioning enters through adaptive layer norms whose gates start at zero. `forward` evaluates
whole sequences; `window` evaluates a few frames over a cache of settled ones, with equal results.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from horizon_imagination.actions import ActionSpace, as_space
from horizon_imagination.models.action_embedding import action_embedding
from horizon_imagination.models.attention import (
    Extend,
    FrameCausalAttention,
    KeysValues,
    Rotary,
    rotary_angles,
    window_mask,
)
from horizon_imagination.models.layers import (
    LatentStatistics,
    fan_in_init,
    time_features,
    zero_init,
)
from horizon_imagination.types import Actions, Latents, Times

Tokens = Float[Tensor, "batch time token dim"]
Condition = Float[Tensor, "batch time dim"]
Modulation = Float[Tensor, "part batch time 1 dim"]
SeenFrames = Bool[Tensor, "batch all_frames"]


class FrameCache:
    """Keys and values of settled frames, for every layer, in buffers of fixed size."""

    def __init__(self, layers: int, tokens: int) -> None:
        self.layers, self.tokens = layers, tokens
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def extend(self, layer: int, own: KeysValues, start: int) -> KeysValues:
        """Write the keys and values of a window that begins at token `start`; all up to its end.

        What a window leaves behind of frames that are not settled is written anew by the next.
        """
        batch, heads, tokens, head_dim = own[0].shape
        if self.keys is None or self.values is None:
            shape = (self.layers, batch, heads, self.tokens, head_dim)
            self.keys, self.values = own[0].new_empty(shape), own[0].new_empty(shape)
        stop = start + tokens
        for buffer, part in zip((self.keys, self.values), own, strict=True):
            buffer[layer, :, :, start:stop] = part
        return self.keys[layer, :, :, :stop], self.values[layer, :, :, :stop]


class DiTBlock(nn.Module):
    """Attention and a perceptron, each behind an adaptive layer norm and a gate."""

    def __init__(self, heads: int, head_dim: int, mlp_ratio: int) -> None:
        super().__init__()
        dim = heads * head_dim
        self.attention = FrameCausalAttention(heads, head_dim)
        self.mlp = nn.Sequential(
            fan_in_init(nn.Linear(dim, mlp_ratio * dim, bias=False)),
            nn.GELU(),
            fan_in_init(nn.Linear(mlp_ratio * dim, dim, bias=False)),
        )

    def forward(
        self,
        x: Tokens,
        modulation: Modulation,
        rotary: Rotary,
        mask: Tensor | None,
        extend: Extend | None,
    ) -> Tokens:
        """The next stream; `modulation` holds shift, scale and gate of both parts."""
        shift, scale, gate = modulation[:3]
        x = x + gate * self.attention(_norm(x) * (1 + scale) + shift, rotary, mask, extend)
        shift, scale, gate = modulation[3:]
        return x + gate * self.mlp(_norm(x) * (1 + scale) + shift)


class Denoiser(nn.Module):
    """v_theta(z, tau, previous actions): the velocity of every frame, given it and those before."""

    def __init__(
        self,
        *,
        channels: int,
        size: int,
        action_space: ActionSpace | int,
        layers: int,
        heads: int,
        head_dim: int,
        patch_size: int,
        mlp_ratio: int,
        prediction: str,
        action_tokens: bool,
        normalize: bool,
    ) -> None:
        super().__init__()
        dim = heads * head_dim
        self.patch, self.grid, self.heads, self.head_dim = (
            patch_size,
            size // patch_size,
            heads,
            head_dim,
        )
        self.prediction, self.action_space, self.dim = prediction, as_space(action_space), dim
        self.statistics = LatentStatistics(channels, size) if normalize else None
        pixels = channels * patch_size**2
        self.embed = fan_in_init(nn.Linear(pixels, dim, bias=False))
        # As large as the sinusoids of the time it is added to: smaller ones drown in them, and the
        # network ignores actions for thousands of steps. The last one stands for no action.
        self.action = action_embedding(self.action_space, dim)
        self.action.start(0.5**0.5)
        self.action_token = action_embedding(self.action_space, dim) if action_tokens else None
        self.condition = nn.Sequential(
            nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim, bias=False), nn.RMSNorm(dim)
        )
        self.blocks = nn.ModuleList(DiTBlock(heads, head_dim, mlp_ratio) for _ in range(layers))
        # Shift, scale and gate of both parts of every block, shift and scale of the output: one
        # product, since all of them follow from the same condition. Gates start closed.
        self.modulate = zero_init(nn.Linear(dim, (6 * layers + 2) * dim, bias=False))
        self.out = fan_in_init(nn.Linear(dim, pixels, bias=False))
        self._compiled: tuple[Callable[..., Tokens], ...] = ()

    def compile_blocks(self) -> None:
        """Run the blocks as compiled code where gradients are asked for, so in training alone:
        other sizes of batches, each of which would be compiled anew, are looked at without."""
        self._compiled = tuple(torch.compile(block, dynamic=False) for block in self.blocks)

    @property
    def tokens_per_frame(self) -> int:
        """Patches of a latent frame."""
        return self.grid**2

    def cache(self, frames: int) -> FrameCache:
        """An empty cache for up to `frames` settled frames."""
        return FrameCache(len(self.blocks), frames * self.tokens_per_frame)

    def forward(self, z: Latents, tau: Times, prev_actions: Actions) -> Latents:
        """Velocities of a whole sequence."""
        return self.window(z, tau, prev_actions, cache=None, start=0)

    def window(
        self,
        z: Latents,
        tau: Times,
        prev_actions: Actions,
        *,
        cache: FrameCache | None,
        start: int,
        real: SeenFrames | None = None,
    ) -> Latents:
        """Velocities of frames start .. start + len(z), earlier ones being in the cache.

        Their keys and values are added to the cache. `real` is False at the frames, of cache and
        window together, that are padding and must not be seen.
        """
        noisy = self.statistics.normalize(z, tau) if self.statistics else z
        condition = self.conditions(tau, prev_actions)
        x = self.embedded(noisy, prev_actions)
        modulation = rearrange(
            self.modulate(F.silu(condition)),
            "b t (part d) -> part b t 1 d",
            d=condition.shape[-1],
        )
        x = self._blocks(x, modulation, cache, start, real)
        shift, scale = modulation[-2:]
        return self.velocity(self.unpatched(self.out(_norm(x) * (1 + scale) + shift)), z, tau)

    def conditions(self, tau: Times, prev_actions: Actions) -> Condition:
        """The condition of every frame: time and action."""
        action = self.action(prev_actions)
        time = time_features(tau, self.dim).to(action.dtype)
        return self.condition(time + action)

    def embedded(self, noisy: Latents, prev_actions: Actions) -> Tokens:
        """Patches as tokens."""
        x = self.embed(
            rearrange(noisy, "b t c (y p) (x q) -> b t (y x) (c p q)", p=self.patch, q=self.patch)
        )
        if self.action_token is not None:
            x = x + rearrange(self.action_token(prev_actions), "b t d -> b t 1 d")
        return x

    def unpatched(self, tokens: Tokens) -> Latents:
        """Tokens of pixels as frames."""
        return rearrange(
            tokens,
            "b t (y x) (c p q) -> b t c (y p) (x q)",
            y=self.grid,
            p=self.patch,
            q=self.patch,
        )

    def _blocks(
        self,
        x: Tokens,
        modulation: Modulation,
        cache: FrameCache | None,
        start: int,
        real: SeenFrames | None,
    ) -> Tokens:
        frames, tokens = x.shape[1], self.tokens_per_frame
        rotary = rotary_angles(self.head_dim, start, frames, self.grid, x.device)
        mask = window_mask(start, frames, tokens, real, x.device)
        blocks = self._compiled if self._compiled and torch.is_grad_enabled() else self.blocks
        for layer, block in enumerate(blocks):
            extend = cache and partial(cache.extend, layer, start=start * tokens)
            x = block(x, modulation[6 * layer : 6 * layer + 6], rotary, mask, extend)
        return x

    def velocity(self, out: Latents, z: Latents, tau: Times) -> Latents:
        """What the network said, as z^1 - z^0."""
        statistics = self.statistics
        if self.prediction == "velocity":
            if statistics is None:
                return out
            return out * (statistics.scale.square() + 1 / 3).sqrt() + statistics.mean
        clean = out if statistics is None else out * statistics.scale + statistics.mean
        remaining = rearrange(1 - tau, "b t -> b t 1 1 1")
        return (clean - z) / remaining.clamp(min=1e-4)


def _norm(x: Tokens) -> Tokens:
    return F.layer_norm(x, x.shape[-1:], eps=1e-5)
