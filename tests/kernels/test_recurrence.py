"""The fused LSTM gives the states and the gradients of the written-out one."""

import pytest
import torch

pytest.importorskip("triton")
from horizon_imagination.kernels.recurrence import lstm_sequence
from horizon_imagination.models.recurrent import LSTM, RecurrentState

pytestmark = pytest.mark.compiled


def run(fused, device, *, masked, batch=3, time=5, size=4, hidden=8):
    torch.manual_seed(0)
    lstm = LSTM(size, hidden).to(device)
    x = torch.randn(batch, time, size).to(device).requires_grad_()
    h, c = (torch.randn(batch, hidden).to(device).requires_grad_() for _ in range(2))
    mask = None
    if masked:
        mask = torch.rand(batch, time).to(device) < 0.6
    if fused:
        gates = torch.nn.functional.linear(x, lstm.weight_ih, lstm.bias_ih + lstm.bias_hh)
        out = lstm_sequence(gates, lstm.weight_hh, h, c, mask)
    else:
        out = lstm(x, RecurrentState(h, c), mask)
    up = [torch.randn(batch, time, hidden).to(device) for _ in range(2)]
    (out[0] * up[0] + out[1] * up[1]).sum().backward()
    leaves = [x, h, c, *lstm.parameters()]
    return [out[0].detach(), out[1].detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("masked", [False, True])
def test_states_and_gradients_are_those_of_the_plain_lstm(kernel_device, masked):
    plain, fused = (run(flag, kernel_device, masked=masked) for flag in (False, True))
    for ours, theirs in zip(fused, plain, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
