"""The parts of a transformer block around its products, for a window of frames over a cache.

No gradients: this is imagination. The residual stream is float32, operands of products are not.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

LOG2_E = 1.4426950408889634


@triton.jit
def _residual_norm(
    x_ptr, y_ptr, modulation_ptr, out_ptr, total, tokens, stride, gate, shift, scale, eps,
    residual: tl.constexpr, dim: tl.constexpr, padded: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, padded)
    inside = (row < total)[:, None] & (column < dim)[None, :]
    place = row[:, None] * dim + column[None, :]
    of_frame = modulation_ptr + (row // tokens)[:, None] * stride + column[None, :]
    x = tl.load(x_ptr + place, mask=inside, other=0.0)
    if residual:
        y = tl.load(y_ptr + place, mask=inside, other=0.0).to(tl.float32)
        x += tl.load(of_frame + gate * dim, mask=inside, other=0.0).to(tl.float32) * y
        tl.store(x_ptr + place, x, mask=inside)
    mean = tl.sum(x, axis=1) / dim
    away = tl.where(inside, x - mean[:, None], 0.0)
    rstd = 1 / tl.sqrt(tl.sum(away * away, axis=1) / dim + eps)
    stretch = 1 + tl.load(of_frame + scale * dim, mask=inside, other=0.0).to(tl.float32)
    move = tl.load(of_frame + shift * dim, mask=inside, other=0.0).to(tl.float32)
    out = away * rstd[:, None] * stretch + move
    tl.store(out_ptr + place, out.to(out_ptr.dtype.element_ty), mask=inside)


def residual_norm(
    x: Tensor,
    branch: Tensor | None,
    modulation: Tensor,
    *,
    gate: int,
    shift: int,
    scale: int,
    out: Tensor,
    eps: float = 1e-5,
) -> Tensor:
    """x += gate * branch, then LN(x) * (1 + scale) + shift into `out`.

    `modulation` [batch, time, parts * dim] holds a vector per frame and part; gate, shift and scale
    are the numbers of their parts. x [batch, time, token, dim] is float32 and changed in place.
    """
    batch, time, tokens, dim = x.shape
    total, rows = batch * time * tokens, 4
    _residual_norm[(triton.cdiv(total, rows),)](
        x, x if branch is None else branch, modulation, out, total, tokens, modulation.shape[-1],
        gate, shift, scale, eps,
        residual=branch is not None, dim=dim, padded=triton.next_power_of_2(dim), rows=rows,
    )  # fmt: skip
    return out


@triton.jit
def _gelu(x_ptr, total, block: tl.constexpr):
    place = tl.program_id(0) * block + tl.arange(0, block)
    inside = place < total
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    x = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(x_ptr + place, x.to(x_ptr.dtype.element_ty), mask=inside)


def gelu_(x: Tensor) -> Tensor:
    """GELU, the exact one, in place."""
    total, block = x.numel(), 2048
    _gelu[(triton.cdiv(total, block),)](x, total, block=block)
    return x


@triton.jit
def _rotate_and_store(
    qkv_ptr, cos_ptr, sin_ptr, keys_ptr, values_ptr, total, window, first, capacity, heads,
    half: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    head = tl.program_id(1)
    pair = tl.arange(0, half)
    inside = (row < total)[:, None]
    position = first + row % window
    turn = position[:, None] * half + pair[None, :]
    cos = tl.load(cos_ptr + turn, mask=inside, other=0.0)
    sin = tl.load(sin_ptr + turn, mask=inside, other=0.0)
    dim = 2 * half
    own = qkv_ptr + row[:, None] * (3 * heads * dim) + head * dim + pair[None, :]
    a = tl.load(own, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(own + half, mask=inside, other=0.0).to(tl.float32)
    tl.store(own, (a * cos - b * sin).to(qkv_ptr.dtype.element_ty), mask=inside)
    tl.store(own + half, (a * sin + b * cos).to(qkv_ptr.dtype.element_ty), mask=inside)
    slot = ((row // window) * heads + head) * capacity + position
    place = slot[:, None] * dim + pair[None, :]
    own += heads * dim
    a = tl.load(own, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(own + half, mask=inside, other=0.0).to(tl.float32)
    tl.store(keys_ptr + place, (a * cos - b * sin).to(qkv_ptr.dtype.element_ty), mask=inside)
    tl.store(keys_ptr + place + half, (a * sin + b * cos).to(qkv_ptr.dtype.element_ty), mask=inside)
    own += heads * dim
    tl.store(values_ptr + place, tl.load(own, mask=inside, other=0.0), mask=inside)
    tl.store(values_ptr + place + half, tl.load(own + half, mask=inside, other=0.0), mask=inside)


@triton.jit
def _attend(
    qkv_ptr, keys_ptr, values_ptr, out_ptr, window, first, capacity, heads, tokens, scale,
    dim: tl.constexpr, queries: tl.constexpr, keys: tl.constexpr,
):  # fmt: skip
    sample, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    query = tl.program_id(0) * queries + tl.arange(0, queries)
    d = tl.arange(0, dim)
    inside = (query < window)[:, None]
    row = sample * window + query
    q = tl.load(
        qkv_ptr + row[:, None] * (3 * heads * dim) + head * dim + d[None, :], mask=inside, other=0.0
    )
    sees = first + (query // tokens + 1) * tokens
    last = tl.minimum((tl.program_id(0) + 1) * queries, window) - 1
    stop = first + (last // tokens + 1) * tokens
    base = (sample * heads + head) * capacity * dim
    top = tl.full((queries,), float("-inf"), tl.float32)
    mass = tl.zeros((queries,), tl.float32)
    total = tl.zeros((queries, dim), tl.float32)
    for begin in range(0, stop, keys):
        key = begin + tl.arange(0, keys)
        known = key < stop
        k = tl.load(
            keys_ptr + base + key[None, :] * dim + d[:, None], mask=known[None, :], other=0.0
        )
        score = tl.dot(q, k, input_precision="ieee") * scale
        score = tl.where(key[None, :] < sees[:, None], score, float("-inf"))
        highest = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp2(score - highest[:, None])
        fade = tl.exp2(top - highest)
        v = tl.load(
            values_ptr + base + key[:, None] * dim + d[None, :], mask=known[:, None], other=0.0
        )
        mass = mass * fade + tl.sum(weight, axis=1)
        total = total * fade[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        top = highest
    out = out_ptr + row[:, None] * (heads * dim) + head * dim + d[None, :]
    tl.store(out, (total / mass[:, None]).to(out_ptr.dtype.element_ty), mask=inside)


def window_attention(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    first: int,
    tokens: int,
) -> Tensor:
    """Frame-causal attention of a window whose first token is number `first`.

    `qkv` [batch, window, 3 * head * dim] is turned by the angles of its positions; keys and values
    go into the caches [batch, head, capacity, dim], of which all up to the own frame are attended.
    """
    batch, window, _ = qkv.shape
    heads, capacity, dim = keys.shape[1:]
    total, rows = batch * window, 16
    _rotate_and_store[(triton.cdiv(total, rows), heads)](
        qkv, cos, sin, keys, values, total, window, first, capacity, heads,
        half=dim // 2, rows=rows,
    )  # fmt: skip
    out = qkv.new_empty(batch, window, heads * dim)
    queries = min(64, max(16, triton.next_power_of_2(window)))
    _attend[(triton.cdiv(window, queries), batch * heads)](
        qkv, keys, values, out, window, first, capacity, heads, tokens, dim**-0.5 * LOG2_E,
        dim=dim, queries=queries, keys=64,
    )  # fmt: skip
    return out
