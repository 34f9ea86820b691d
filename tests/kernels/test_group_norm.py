"""The fused group norm is torch's group norm and SiLU, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")
from horizon_imagination.kernels.group_norm import fits, group_norm

pytestmark = pytest.mark.compiled


def both(shape, groups, silu, device, dtype=torch.float32):
    rng = torch.Generator(device).manual_seed(0)
    x = (3 + 2 * torch.randn(shape, generator=rng, device=device)).to(dtype)
    weight = torch.randn(shape[1], generator=rng, device=device)
    bias = torch.randn(shape[1], generator=rng, device=device)
    upstream = torch.randn(shape, generator=rng, device=device).to(dtype)
    results = []
    for fused in (False, True):
        leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
        if fused:
            y = group_norm(*leaves, groups, 1e-6, silu=silu)
        else:
            y = F.group_norm(leaves[0].float(), groups, *leaves[1:], 1e-6)
            y = (F.silu(y) if silu else y).to(dtype)
        y.backward(upstream)
        results.append([y.detach(), *(leaf.grad for leaf in leaves)])
    return results


@pytest.mark.parametrize("silu", [True, False])
@pytest.mark.parametrize(
    "shape,groups", [((2, 32, 8, 8), 8), ((3, 16, 5, 7), 4), ((1, 64, 16, 16), 32)]
)
def test_values_and_gradients_are_those_of_torch(kernel_device, shape, groups, silu):
    plain, fused = both(shape, groups, silu, kernel_device)
    for ours, theirs in zip(fused, plain, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=2e-4)


@pytest.mark.gpu
def test_in_bfloat16_it_rounds_only_its_output(kernel_device):
    plain, fused = both((8, 128, 64, 64), 32, True, kernel_device, torch.bfloat16)
    for ours, theirs in zip(fused, plain, strict=True):
        assert float((ours.float() - theirs.float()).norm() / theirs.float().norm()) < 6e-3


def test_odd_channels_are_refused():
    assert fits(torch.zeros(1, 24, 2, 2), 8) is False
    assert fits(torch.zeros(1, 32, 2, 2), 8) is True
