"""Queries, keys and values out of one product, turned by their positions; forward and backward."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

ROWS = 16


@triton.jit
def _turn(
    qkv_ptr, q_ptr, k_ptr, v_ptr, cos_ptr, sin_ptr, total, length, heads,
    half: tl.constexpr, rows: tl.constexpr, back: tl.constexpr,
):  # fmt: skip
    """From [batch, length, 3 head dim] to three of [batch, head, length, dim], or back."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    head = tl.program_id(1)
    pair = tl.arange(0, half)
    inside = (row < total)[:, None]
    position = row % length
    turn = position[:, None] * half + pair[None, :]
    cos = tl.load(cos_ptr + turn, mask=inside, other=0.0)
    sin = tl.load(sin_ptr + turn, mask=inside, other=0.0)
    dim: tl.constexpr = 2 * half
    packed = row[:, None] * (3 * heads * dim) + head * dim + pair[None, :]
    apart = (((row // length) * heads + head) * length + position)[:, None] * dim + pair[None, :]
    for part in tl.static_range(3):  # pyright: ignore[reportGeneralTypeIssues]
        own = qkv_ptr + packed + part * heads * dim
        if part == 0:
            other = q_ptr + apart
        elif part == 1:
            other = k_ptr + apart
        else:
            other = v_ptr + apart
        if back:
            a = tl.load(other, mask=inside, other=0.0).to(tl.float32)
            b = tl.load(other + half, mask=inside, other=0.0).to(tl.float32)
        else:
            a = tl.load(own, mask=inside, other=0.0).to(tl.float32)
            b = tl.load(own + half, mask=inside, other=0.0).to(tl.float32)
        first, second = a, b
        if part < 2:
            if back:
                first, second = a * cos + b * sin, b * cos - a * sin
            else:
                first, second = a * cos - b * sin, a * sin + b * cos
        if back:
            tl.store(own, first.to(qkv_ptr.dtype.element_ty), mask=inside)
            tl.store(own + half, second.to(qkv_ptr.dtype.element_ty), mask=inside)
        else:
            tl.store(other, first.to(qkv_ptr.dtype.element_ty), mask=inside)
            tl.store(other + half, second.to(qkv_ptr.dtype.element_ty), mask=inside)


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, cos, sin, heads: int):
        batch, length, width = qkv.shape
        dim, qkv = width // 3 // heads, qkv.contiguous()
        q, k, v = (qkv.new_empty(batch, heads, length, dim) for _ in range(3))
        _turn[(triton.cdiv(batch * length, ROWS), heads)](
            qkv, q, k, v, cos, sin, batch * length, length, heads,
            half=dim // 2, rows=ROWS, back=False,
        )  # fmt: skip
        ctx.save_for_backward(cos, sin)
        return q, k, v

    @staticmethod
    def backward(ctx, *grads):  # type: ignore[override]
        cos, sin = ctx.saved_tensors
        dq, dk, dv = (grad.contiguous() for grad in grads)
        batch, heads, length, dim = dq.shape
        dqkv = dq.new_empty(batch, length, 3 * heads * dim)
        _turn[(triton.cdiv(batch * length, ROWS), heads)](
            dqkv, dq, dk, dv, cos, sin, batch * length, length, heads,
            half=dim // 2, rows=ROWS, back=True,
        )  # fmt: skip
        return dqkv, None, None, None


def rotated(qkv: Tensor, cos: Tensor, sin: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Turned queries, turned keys and values [batch, head, position, dim] of their product."""
    return _Rotary.apply(qkv, cos, sin, heads)  # type: ignore[return-value]
