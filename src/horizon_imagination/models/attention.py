"""Frame-causal attention over a cache of settled frames, with rotary positions in t, y and x."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Bool, Float
from torch import Tensor, nn

from horizon_imagination.models.layers import fan_in_init

Rotary = tuple[Float[Tensor, "position half"], Float[Tensor, "position half"]]
KeysValues = tuple[Float[Tensor, "batch head _ head_dim"], Float[Tensor, "batch head _ head_dim"]]

Extend = Callable[[KeysValues], KeysValues]
"""Own keys and values -> those of all frames up to and including these."""


def frame_causal_mask(
    frames: int, tokens: int, device: torch.device | None = None
) -> Bool[Tensor, "query key"]:
    """True where attention is allowed: the own frame and those before it.

    >>> frame_causal_mask(2, 2).int()
    tensor([[1, 1, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 1, 1],
            [1, 1, 1, 1]], dtype=torch.int32)
    """
    frame = torch.arange(frames * tokens, device=device) // tokens
    return frame[:, None] >= frame[None, :]


def window_mask(
    start: int,
    frames: int,
    tokens: int,
    real: Bool[Tensor, "batch all_frames"] | None,
    device: torch.device,
) -> Bool[Tensor, "*batch query key"] | None:
    """The mask of `frames` frames that follow `start` cached ones; None if nothing is hidden.

    Padded frames (`real` False) are hidden from all others, and see themselves alone.
    """
    if real is None:
        if frames == 1:
            return None
        return F.pad(frame_causal_mask(frames, tokens, device), (start * tokens, 0), value=True)
    mask = F.pad(frame_causal_mask(frames, 1, device), (start, 0), value=True)
    own = F.pad(torch.eye(frames, dtype=torch.bool, device=device), (start, 0), value=False)
    mask = (mask & rearrange(real, "b k -> b 1 k")) | own
    return repeat(mask, "b q k -> b 1 (q n) (k m)", n=tokens, m=tokens)


def rotary_angles(
    head_dim: int, start: int, frames: int, size: int, device: torch.device | None = None
) -> Rotary:
    """Cosines and sines of the 3-D rotary positions of frames start .. start + frames.

    Of the head's pairs, a third each is turned by y and x, the rest by time.
    """
    space = head_dim // 6
    t = torch.arange(start, start + frames, device=device, dtype=torch.float32)
    s = torch.arange(size, device=device, dtype=torch.float32)
    angle_t = repeat(_turn(t, head_dim // 2 - 2 * space), "t d -> (t y x) d", y=size, x=size)
    angle_y = repeat(_turn(s, space), "y d -> (t y x) d", t=frames, x=size)
    angle_x = repeat(_turn(s, space), "x d -> (t y x) d", t=frames, y=size)
    angle = torch.cat([angle_t, angle_y, angle_x], dim=-1)
    return angle.cos(), angle.sin()


def _turn(position: Float[Tensor, " n"], pairs: int) -> Float[Tensor, "n {pairs}"]:
    frequency = 10_000.0 ** (-torch.arange(pairs, device=position.device) / pairs)
    return position[:, None] * frequency


def rotate(
    x: Float[Tensor, "batch head position dim"], rotary: Rotary
) -> Float[Tensor, "batch head position dim"]:
    """Turn pair (i, i + d / 2) of every token by its angle."""
    cos, sin = (part.to(x.dtype) for part in rotary)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class FrameCausalAttention(nn.Module):
    """Each token attends to its own frame and all earlier ones, cached frames included."""

    fused = False

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        dim = heads * head_dim
        self.heads, self.head_dim = heads, head_dim
        self.qkv = fan_in_init(nn.Linear(dim, 3 * dim, bias=False))
        self.out = fan_in_init(nn.Linear(dim, dim, bias=False))

    def forward(
        self,
        x: Float[Tensor, "batch time token dim"],
        rotary: Rotary,
        mask: Bool[Tensor, "*_ query key"] | None,
        extend: Extend | None,
    ) -> Float[Tensor, "batch time token dim"]:
        """The attended tokens; `extend` puts the keys and values before them in front."""
        q, k, v = self._rotated(self.qkv(x), rotary)
        if extend is not None:
            k, v = extend((k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(rearrange(y, "b h (t n) d -> b t n (h d)", t=x.shape[1]))

    def _rotated(
        self, qkv: Float[Tensor, "batch time token _"], rotary: Rotary
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys, turned, and values."""
        if self.fused and self.head_dim & (self.head_dim - 1) == 0:
            from horizon_imagination.kernels.rotary import rotated

            return rotated(rearrange(qkv, "b t n d -> b (t n) d"), *rotary, self.heads)
        q, k, v = rearrange(qkv, "b t n (three h d) -> three b h (t n) d", three=3, h=self.heads)
        return rotate(q, rotary), rotate(k, rotary), v
