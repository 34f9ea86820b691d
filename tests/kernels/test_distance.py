"""The fused distance is the mean absolute difference."""

import pytest
import torch

pytest.importorskip("triton")
from horizon_imagination.kernels.distance import mean_distance

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 40, 50)])
def test_value_and_gradient_are_the_written_out_ones(kernel_device, shape):
    rng = torch.Generator(kernel_device).manual_seed(0)
    a, b = (torch.randn(shape, generator=rng, device=kernel_device) for _ in range(2))
    a.view(-1)[0] = b.view(-1)[0]  # equal: no slope
    results = []
    for fused in (False, True):
        x = a.clone().requires_grad_()
        distance = mean_distance(x, b) if fused else (x - b).abs().mean()
        (3 * distance).backward()
        results.append((distance.detach(), x.grad))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
