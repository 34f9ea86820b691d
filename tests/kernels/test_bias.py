"""The fused bias is the bias of a convolution, with and without its rectifier."""

import pytest
import torch

pytest.importorskip("triton")
from horizon_imagination.kernels.bias import add_bias

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("shape", [(2, 8, 5, 3), (3, 3, 4, 4)])
def test_values_and_gradients_are_those_of_an_addition(kernel_device, shape, relu):
    rng = torch.Generator(kernel_device).manual_seed(0)
    x, up = (torch.randn(shape, generator=rng, device=kernel_device) for _ in range(2))
    bias = torch.randn(shape[1], generator=rng, device=kernel_device)
    results = []
    for fused in (False, True):
        image, b = x.clone().requires_grad_(), bias.clone().requires_grad_()
        y = 2 * image
        y = add_bias(y, b, relu=relu) if fused else y + b[:, None, None]
        y = y.relu() if relu and not fused else y
        y.backward(up)
        results.append((y.detach(), image.grad, b.grad))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
