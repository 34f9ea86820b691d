"""Fused rotary positions are the written-out ones, forward and backward."""

import pytest
import torch

pytest.importorskip("triton")
from horizon_imagination.kernels.rotary import rotated
from horizon_imagination.models.attention import FrameCausalAttention, rotary_angles, rotate

pytestmark = pytest.mark.compiled


def test_values_and_gradients_are_the_written_out_ones(kernel_device):
    rng = torch.Generator(kernel_device).manual_seed(0)
    batch, heads, dim, frames, size = 2, 3, 16, 3, 2
    angles = rotary_angles(dim, 0, frames, size, kernel_device)
    length = frames * size**2
    x = torch.randn(batch, length, 3 * heads * dim, generator=rng, device=kernel_device)
    ups = torch.randn(3, batch, heads, length, dim, generator=rng, device=kernel_device)
    results = []
    for fused in (False, True):
        qkv = x.clone().requires_grad_()
        if fused:
            parts = rotated(qkv, *angles, heads)
        else:
            q, k, v = (p.unflatten(-1, (heads, dim)).transpose(1, 2) for p in qkv.chunk(3, -1))
            parts = rotate(q, angles), rotate(k, angles), v
        sum((part * up).sum() for part, up in zip(parts, ups, strict=True)).backward()
        results.append([*(p.detach() for p in parts), qkv.grad])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_fused_attention_is_the_plain_one(kernel_device):
    torch.manual_seed(0)
    attention = FrameCausalAttention(2, 16).to(kernel_device)
    x = torch.randn(2, 3, 4, 32).to(kernel_device)
    angles = rotary_angles(16, 0, 3, 2, kernel_device)
    plain = attention(x, angles, None, None)
    attention.fused = True
    torch.testing.assert_close(attention(x, angles, None, None), plain, atol=1e-5, rtol=1e-5)
