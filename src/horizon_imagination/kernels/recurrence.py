"""An LSTM over time with its state after every step: one product and one kernel a step.

Cells are kept in float32 whatever the type of the products. Where the mask is False the state
stays, and gradients pass by.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

COLUMNS = 128
"""Hidden units of a program."""


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _step(
    gates_x_ptr, product_ptr, h_ptr, c_ptr, mask_ptr, gates_ptr, out_h_ptr, out_c_ptr,
    stride_x, stride_h, stride_c, stride_mask, stride_gates, stride_out,
    hidden, masked: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Pre-activations of the input and of the state -> the next state and the gates."""
    row = tl.program_id(0)
    unit = tl.program_id(1) * block + tl.arange(0, block)
    inside = unit < hidden
    x, p = gates_x_ptr + row * stride_x + unit, product_ptr + row * 4 * hidden + unit
    c = tl.load(c_ptr + row * stride_c + unit, mask=inside, other=0.0)
    i = tl.sigmoid(
        tl.load(x, mask=inside, other=0.0).to(tl.float32)
        + tl.load(p, mask=inside, other=0.0).to(tl.float32)
    )
    f = tl.sigmoid(
        tl.load(x + hidden, mask=inside, other=0.0).to(tl.float32)
        + tl.load(p + hidden, mask=inside, other=0.0).to(tl.float32)
    )
    g = _tanh(
        tl.load(x + 2 * hidden, mask=inside, other=0.0).to(tl.float32)
        + tl.load(p + 2 * hidden, mask=inside, other=0.0).to(tl.float32)
    )
    o = tl.sigmoid(
        tl.load(x + 3 * hidden, mask=inside, other=0.0).to(tl.float32)
        + tl.load(p + 3 * hidden, mask=inside, other=0.0).to(tl.float32)
    )
    new_c = f * c + i * g
    new_h = o * _tanh(new_c)
    if masked:
        real = tl.load(mask_ptr + row * stride_mask) != 0
        old_h = tl.load(h_ptr + row * stride_h + unit, mask=inside, other=0.0).to(tl.float32)
        new_c = tl.where(real, new_c, c)
        new_h = tl.where(real, new_h, old_h)
    gates = gates_ptr + row * stride_gates + unit
    tl.store(gates, i, mask=inside)
    tl.store(gates + hidden, f, mask=inside)
    tl.store(gates + 2 * hidden, g, mask=inside)
    tl.store(gates + 3 * hidden, o, mask=inside)
    out = row * stride_out + unit
    tl.store(out_h_ptr + out, new_h.to(out_h_ptr.dtype.element_ty), mask=inside)
    tl.store(out_c_ptr + out, new_c, mask=inside)


@triton.jit
def _step_back(
    dh_out_ptr, dc_out_ptr, dh_ptr, dc_ptr, passed_ptr, gates_ptr, c_before_ptr, c_ptr, mask_ptr,
    dgates_ptr,
    stride_out, stride_gates, stride_before, stride_c, stride_mask, stride_dgates,
    hidden, first: tl.constexpr, masked: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Gradients of the state after a step -> of its gates, and of the cell before it.

    `dh` is what the next step's product sent back, `passed` what went around it where it was
    masked; `first` is the last step in time, which has nothing after it.
    """
    row = tl.program_id(0)
    unit = tl.program_id(1) * block + tl.arange(0, block)
    inside = unit < hidden
    own = row * hidden + unit
    dh = tl.load(dh_out_ptr + row * stride_out + unit, mask=inside, other=0.0).to(tl.float32)
    dc = tl.load(dc_out_ptr + row * stride_out + unit, mask=inside, other=0.0).to(tl.float32)
    if not first:
        dh += tl.load(dh_ptr + own, mask=inside, other=0.0).to(tl.float32)
        dc += tl.load(dc_ptr + own, mask=inside, other=0.0)
        if masked:
            dh += tl.load(passed_ptr + own, mask=inside, other=0.0)
    gates = gates_ptr + row * stride_gates + unit
    i = tl.load(gates, mask=inside, other=0.0)
    f = tl.load(gates + hidden, mask=inside, other=0.0)
    g = tl.load(gates + 2 * hidden, mask=inside, other=0.0)
    o = tl.load(gates + 3 * hidden, mask=inside, other=0.0)
    before = tl.load(c_before_ptr + row * stride_before + unit, mask=inside, other=0.0)
    squashed = _tanh(tl.load(c_ptr + row * stride_c + unit, mask=inside, other=0.0))
    inner = dc + dh * o * (1 - squashed * squashed)
    di, df = inner * g * i * (1 - i), inner * before * f * (1 - f)
    dg, do = inner * i * (1 - g * g), dh * squashed * o * (1 - o)
    dc_before = inner * f
    if masked:
        real = tl.load(mask_ptr + row * stride_mask) != 0
        tl.store(passed_ptr + own, tl.where(real, 0.0, dh), mask=inside)
        dc_before = tl.where(real, dc_before, dc)
        di, df = tl.where(real, di, 0.0), tl.where(real, df, 0.0)
        dg, do = tl.where(real, dg, 0.0), tl.where(real, do, 0.0)
    tl.store(dc_ptr + own, dc_before, mask=inside)
    out = dgates_ptr + row * stride_dgates + unit
    tl.store(out, di.to(dgates_ptr.dtype.element_ty), mask=inside)
    tl.store(out + hidden, df.to(dgates_ptr.dtype.element_ty), mask=inside)
    tl.store(out + 2 * hidden, dg.to(dgates_ptr.dtype.element_ty), mask=inside)
    tl.store(out + 3 * hidden, do.to(dgates_ptr.dtype.element_ty), mask=inside)


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gates_x, weight, h, c, mask):
        batch, time, width = gates_x.shape
        hidden = width // 4
        gates_x, h, c = (
            gates_x.contiguous(),
            h.to(gates_x.dtype).contiguous(),
            c.float().contiguous(),
        )
        masked = mask is not None
        flags = (mask if masked else gates_x.new_ones(1, 1, dtype=torch.bool)).contiguous()
        weight_t = weight.t()
        # Time first, so that the state after a step is one block of memory.
        all_h = gates_x.new_empty(time, batch, hidden)
        all_c = gates_x.new_empty(time, batch, hidden, dtype=torch.float32)
        gates = gates_x.new_empty(time, batch, width, dtype=torch.float32)
        product = gates_x.new_empty(batch, width)
        grid = (batch, triton.cdiv(hidden, COLUMNS))
        before_h, before_c = h, c
        for t in range(time):
            torch.mm(before_h, weight_t, out=product)
            _step[grid](
                gates_x[:, t], product, before_h, before_c, flags[:, t] if masked else flags,
                gates[t], all_h[t], all_c[t],
                gates_x.stride(0), hidden, hidden, flags.stride(0), width, hidden,
                hidden, masked=masked, block=COLUMNS,
            )  # fmt: skip
            before_h, before_c = all_h[t], all_c[t]
        ctx.save_for_backward(weight, h, c, flags, all_h, all_c, gates)
        ctx.masked = masked
        return all_h.transpose(0, 1), all_c.transpose(0, 1)

    @staticmethod
    def backward(ctx, dh_out, dc_out):  # type: ignore[override]
        weight, h, c, flags, all_h, all_c, gates = ctx.saved_tensors
        time, batch, hidden = all_h.shape
        width, masked = 4 * hidden, ctx.masked
        dh_out, dc_out = dh_out.contiguous(), dc_out.contiguous()
        dgates = all_h.new_empty(batch, time, width)
        dh, dc = all_h.new_zeros(batch, hidden), c.new_zeros(batch, hidden)
        passed = torch.zeros_like(dc)
        grid = (batch, triton.cdiv(hidden, COLUMNS))
        for t in reversed(range(time)):
            before = all_c[t - 1] if t else c
            _step_back[grid](
                dh_out[:, t], dc_out[:, t], dh, dc, passed, gates[t], before, all_c[t],
                flags[:, t] if masked else flags, dgates[:, t],
                dh_out.stride(0), width, hidden, hidden, flags.stride(0), dgates.stride(0),
                hidden, first=t == time - 1, masked=masked, block=COLUMNS,
            )  # fmt: skip
            torch.mm(dgates[:, t], weight, out=dh)
        states = torch.cat([h[None], all_h[:-1]]).transpose(0, 1).reshape(batch * time, hidden)
        dweight = dgates.view(batch * time, width).t() @ states
        return dgates, dweight, dh.float() + passed, dc, None


def lstm_sequence(
    gates_x: Tensor, weight: Tensor, h: Tensor, c: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Outputs and cells after every step of [batch, time, 4 hidden] input pre-activations.

    `weight` [4 hidden, hidden] has the type of `gates_x`; gates are ordered i, f, g, o.
    """
    return _Sequence.apply(gates_x, weight, h, c, mask)  # type: ignore[return-value]
