"""Group norm and SiLU of channels-last images in two passes, forward and backward.

Each sample's pixels are cut into chunks; a first kernel leaves sums per channel and chunk, a second
one adds them up and finishes its chunk. No atomics, so the result does not depend on timing.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

TILE = 8192
"""Numbers that a program holds at a time."""
MAX_CHUNKS = 16


def fits(x: Tensor, groups: int) -> bool:
    """Whether the kernels can take an image: powers of two, channels of at most 1024."""
    channels = x.shape[1]
    return channels & (channels - 1) == 0 and groups & (groups - 1) == 0 and channels <= 1024


@triton.jit
def _groups(values, channels: tl.constexpr, groups: tl.constexpr):
    """Sums over each group of channels, repeated for each of them."""
    size: tl.constexpr = channels // groups
    total = tl.sum(tl.reshape(values, (groups, size)), axis=1)
    return tl.reshape(tl.broadcast_to(total[:, None], (groups, size)), (channels,))


@triton.jit
def _slopes(x_ptr, dy_ptr, place, mask, mean, rstd, weight, bias, silu: tl.constexpr):
    """Some pixels, normalised, and the gradient that comes through the activation."""
    x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
    g = tl.load(dy_ptr + place, mask=mask, other=0.0).to(tl.float32)
    normal = (x - mean[None, :]) * rstd[None, :]
    if silu:
        u = normal * weight[None, :] + bias[None, :]
        gate = tl.sigmoid(u)
        g *= gate * (1 + u * (1 - gate))
    return normal, g


@triton.jit
def _channels(weight_ptr, bias_ptr, stats_ptr, sample, columns, channels: tl.constexpr):
    """Mean, deviation's inverse, weight and bias of every channel of a sample."""
    stats = stats_ptr + sample * 2 * channels + columns
    weight = tl.load(weight_ptr + columns).to(tl.float32)
    bias = tl.load(bias_ptr + columns).to(tl.float32)
    return tl.load(stats), tl.load(stats + channels), weight, bias


@triton.jit
def _sums(x_ptr, partial_ptr, pixels, per_chunk, channels: tl.constexpr, rows: tl.constexpr):
    sample, chunk = tl.program_id(0), tl.program_id(1)
    columns = tl.arange(0, channels)
    total = tl.zeros((channels,), tl.float32)
    squares = tl.zeros((channels,), tl.float32)
    begin = chunk * per_chunk
    end = tl.minimum(begin + per_chunk, pixels)
    for first in range(begin, end, rows):
        row = first + tl.arange(0, rows)
        place = (sample * pixels + row)[:, None] * channels + columns[None, :]
        x = tl.load(x_ptr + place, mask=(row < end)[:, None], other=0.0).to(tl.float32)
        total += tl.sum(x, axis=0)
        squares += tl.sum(x * x, axis=0)
    out = partial_ptr + (sample * tl.num_programs(1) + chunk) * 2 * channels + columns
    tl.store(out, total)
    tl.store(out + channels, squares)


@triton.jit
def _normalize(
    x_ptr, partial_ptr, weight_ptr, bias_ptr, y_ptr, stats_ptr, pixels, per_chunk, eps,
    chunks: tl.constexpr, channels: tl.constexpr, groups: tl.constexpr, rows: tl.constexpr,
    silu: tl.constexpr,
):  # fmt: skip
    sample, chunk = tl.program_id(0), tl.program_id(1)
    columns = tl.arange(0, channels)
    all_chunks = (sample * chunks + tl.arange(0, chunks))[:, None] * 2 * channels + columns[None, :]
    total = _groups(tl.sum(tl.load(partial_ptr + all_chunks), axis=0), channels, groups)
    squares = tl.sum(tl.load(partial_ptr + channels + all_chunks), axis=0)
    count = pixels * (channels // groups)
    mean = total / count
    variance = _groups(squares, channels, groups) / count - mean * mean
    rstd = 1 / tl.sqrt(tl.maximum(variance, 0.0) + eps)
    if chunk == 0:
        tl.store(stats_ptr + sample * 2 * channels + columns, mean)
        tl.store(stats_ptr + sample * 2 * channels + channels + columns, rstd)
    scale = tl.load(weight_ptr + columns).to(tl.float32) * rstd
    shift = tl.load(bias_ptr + columns).to(tl.float32) - mean * scale
    begin = chunk * per_chunk
    end = tl.minimum(begin + per_chunk, pixels)
    for first in range(begin, end, rows):
        row = first + tl.arange(0, rows)
        place = (sample * pixels + row)[:, None] * channels + columns[None, :]
        mask = (row < end)[:, None]
        u = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32) * scale[None, :]
        u += shift[None, :]
        if silu:
            u = u * tl.sigmoid(u)
        tl.store(y_ptr + place, u.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _gradient_sums(
    x_ptr, dy_ptr, weight_ptr, bias_ptr, stats_ptr, partial_ptr, pixels, per_chunk,
    channels: tl.constexpr, rows: tl.constexpr, silu: tl.constexpr,
):  # fmt: skip
    sample, chunk = tl.program_id(0), tl.program_id(1)
    columns = tl.arange(0, channels)
    mean, rstd, weight, bias = _channels(weight_ptr, bias_ptr, stats_ptr, sample, columns, channels)
    dbias = tl.zeros((channels,), tl.float32)
    dweight = tl.zeros((channels,), tl.float32)
    begin = chunk * per_chunk
    end = tl.minimum(begin + per_chunk, pixels)
    for first in range(begin, end, rows):
        row = first + tl.arange(0, rows)
        place = (sample * pixels + row)[:, None] * channels + columns[None, :]
        mask = (row < end)[:, None]
        normal, g = _slopes(x_ptr, dy_ptr, place, mask, mean, rstd, weight, bias, silu)
        dbias += tl.sum(g, axis=0)
        dweight += tl.sum(g * normal, axis=0)
    out = partial_ptr + (sample * tl.num_programs(1) + chunk) * 2 * channels + columns
    tl.store(out, dbias)
    tl.store(out + channels, dweight)


@triton.jit
def _gradient(
    x_ptr, dy_ptr, weight_ptr, bias_ptr, stats_ptr, partial_ptr, dx_ptr, pixels, per_chunk,
    chunks: tl.constexpr, channels: tl.constexpr, groups: tl.constexpr, rows: tl.constexpr,
    silu: tl.constexpr,
):  # fmt: skip
    sample, chunk = tl.program_id(0), tl.program_id(1)
    columns = tl.arange(0, channels)
    mean, rstd, weight, bias = _channels(weight_ptr, bias_ptr, stats_ptr, sample, columns, channels)
    all_chunks = (sample * chunks + tl.arange(0, chunks))[:, None] * 2 * channels + columns[None, :]
    count = pixels * (channels // groups)
    dbias = tl.sum(tl.load(partial_ptr + all_chunks), axis=0)
    dweight = tl.sum(tl.load(partial_ptr + channels + all_chunks), axis=0)
    plain = _groups(dbias * weight, channels, groups) / count
    along = _groups(dweight * weight, channels, groups) / count
    begin = chunk * per_chunk
    end = tl.minimum(begin + per_chunk, pixels)
    for first in range(begin, end, rows):
        row = first + tl.arange(0, rows)
        place = (sample * pixels + row)[:, None] * channels + columns[None, :]
        mask = (row < end)[:, None]
        normal, g = _slopes(x_ptr, dy_ptr, place, mask, mean, rstd, weight, bias, silu)
        dx = rstd[None, :] * (g * weight[None, :] - plain[None, :] - normal * along[None, :])
        tl.store(dx_ptr + place, dx.to(dx_ptr.dtype.element_ty), mask=mask)


class _GroupNormSiLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, groups: int, eps: float, silu: bool):
        x = x.contiguous(memory_format=torch.channels_last)
        samples, channels, height, width = x.shape
        pixels, rows = height * width, max(1, TILE // channels)
        chunks = max(1, min(MAX_CHUNKS, pixels // rows))
        per_chunk = triton.cdiv(pixels, chunks)
        partial = x.new_empty(samples, chunks, 2, channels, dtype=torch.float32)
        stats = x.new_empty(samples, 2, channels, dtype=torch.float32)
        y, grid = torch.empty_like(x), (samples, chunks)
        _sums[grid](x, partial, pixels, per_chunk, channels=channels, rows=rows)
        _normalize[grid](
            x, partial, weight, bias, y, stats, pixels, per_chunk, eps,
            chunks=chunks, channels=channels, groups=groups, rows=rows, silu=silu,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias, stats)
        ctx.sizes = (groups, silu, pixels, per_chunk, chunks, channels, rows)
        return y

    @staticmethod
    def backward(ctx, dy):  # type: ignore[override]
        x, weight, bias, stats = ctx.saved_tensors
        groups, silu, pixels, per_chunk, chunks, channels, rows = ctx.sizes
        dy = dy.contiguous(memory_format=torch.channels_last)
        partial = x.new_empty(len(x), chunks, 2, channels, dtype=torch.float32)
        dx, grid = torch.empty_like(x), (len(x), chunks)
        _gradient_sums[grid](
            x, dy, weight, bias, stats, partial, pixels, per_chunk,
            channels=channels, rows=rows, silu=silu,
        )  # fmt: skip
        _gradient[grid](
            x, dy, weight, bias, stats, partial, dx, pixels, per_chunk,
            chunks=chunks, channels=channels, groups=groups, rows=rows, silu=silu,
        )  # fmt: skip
        dbias, dweight = partial.sum((0, 1)).unbind(0)
        return dx, dweight.to(weight.dtype), dbias.to(bias.dtype), None, None, None


def group_norm(
    x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, *, silu: bool
) -> Tensor:
    """`F.group_norm`, and SiLU if asked, in the type of x; channels-last in and out."""
    return _GroupNormSiLU.apply(x, weight, bias, groups, eps, silu)  # type: ignore[return-value]
