"""Bias, and rectifier if asked, added to channels-last images in place, and its gradient."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

BLOCK, TILE, PROGRAMS = 2048, 8192, 132


@triton.jit
def _add(y_ptr, bias_ptr, total, channels, relu: tl.constexpr, block: tl.constexpr):
    place = tl.program_id(0) * block + tl.arange(0, block)
    inside = place < total
    y = tl.load(y_ptr + place, mask=inside, other=0.0).to(tl.float32)
    y += tl.load(bias_ptr + place % channels, mask=inside, other=0.0).to(tl.float32)
    if relu:
        y = tl.maximum(y, 0.0)
    tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _column_sums(
    g_ptr, partial_ptr, pixels, per_program, channels,
    padded: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, padded)
    total = tl.zeros((padded,), tl.float32)
    begin = tl.program_id(0) * per_program
    end = tl.minimum(begin + per_program, pixels)
    for first in range(begin, end, rows):
        row = first + tl.arange(0, rows)
        inside = (row < end)[:, None] & (column < channels)[None, :]
        g = tl.load(g_ptr + row[:, None] * channels + column[None, :], mask=inside, other=0.0)
        total += tl.sum(g.to(tl.float32), axis=0)
    tl.store(partial_ptr + tl.program_id(0) * channels + column, total, mask=column < channels)


class _AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, bias, relu: bool):
        total, channels = y.numel(), y.shape[1]
        _add[(triton.cdiv(total, BLOCK),)](y, bias, total, channels, relu=relu, block=BLOCK)
        ctx.mark_dirty(y)
        if relu:
            ctx.save_for_backward(y)
        ctx.kind = bias.dtype
        return y

    @staticmethod
    def backward(ctx, g):  # type: ignore[override]
        if ctx.saved_tensors:
            g = torch.ops.aten.threshold_backward(g, ctx.saved_tensors[0], 0)
        dbias = None
        if ctx.needs_input_grad[1]:
            g = g.contiguous(memory_format=torch.channels_last)
            channels = g.shape[1]
            pixels, padded = g.numel() // channels, triton.next_power_of_2(channels)
            rows = max(1, TILE // padded)
            programs = min(PROGRAMS, triton.cdiv(pixels, rows))
            partial = g.new_empty(programs, channels, dtype=torch.float32)
            _column_sums[(programs,)](
                g, partial, pixels, triton.cdiv(pixels, programs), channels,
                padded=padded, rows=rows,
            )  # fmt: skip
            dbias = partial.sum(0).to(ctx.kind)
        return g, dbias, None


def add_bias(y: Tensor, bias: Tensor, *, relu: bool = False) -> Tensor:
    """y + bias per channel, rectified if asked, in place; y [batch, channel, height, width]."""
    y = y.contiguous(memory_format=torch.channels_last)
    return _AddBias.apply(y, bias, relu)  # type: ignore[return-value]
