"""On a GPU too, the window over a cache gives the plain loop's numbers."""

import pytest
import torch

from horizon_imagination import horizon_schedule
from horizon_imagination.engine.dream import Start, dream
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.denoiser import Denoiser

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BATCH, ACTIONS = 6, 9


def networks(device):
    torch.manual_seed(0)
    denoiser = Denoiser(
        channels=16, size=8, num_actions=ACTIONS, layers=4, heads=8, head_dim=64, patch_size=2,
        mlp_ratio=4, prediction="velocity", action_tokens=False, normalize=False,
    )  # fmt: skip
    for name, parameter in denoiser.named_parameters():
        if "modulate" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    actor = Actor(
        channels=16, size=8, cnn_channels=64, cnn_out_channels=16, hidden=128, outputs=ACTIONS,
        use_tau=True, normalize=False,
    )  # fmt: skip
    return denoiser.to(device).eval(), actor.to(device)


def dreamed(nu, budget, *, window, dtype, sampler="stable"):
    device = torch.device("cuda")
    denoiser, actor = networks(device)
    rng = torch.Generator(device).manual_seed(1)
    start = Start(
        torch.rand(BATCH, 5, 16, 8, 8, generator=rng, device=device) * 2 - 1,
        torch.randint(ACTIONS, (BATCH, 5), generator=rng, device=device),
        torch.ones(BATCH, 5, dtype=torch.bool, device=device),
    )
    with torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
        return dream(
            denoiser, actor, start, horizon_schedule(32, budget, nu), context=1, sampler=sampler,
            window=window, rng=rng,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def _full_precision_products():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("sampler", ["stable", "coupled", "naive_held"])
@pytest.mark.parametrize("nu,budget", [(4, 16), (4, 32), (1, 32)])
def test_the_window_agrees_with_the_plain_loop_in_float32(nu, budget, sampler):
    plain = dreamed(nu, budget, window=False, dtype=torch.float32, sampler=sampler)
    fast = dreamed(nu, budget, window=True, dtype=torch.float32, sampler=sampler)
    assert torch.equal(fast.actions[-1], plain.actions[-1])
    torch.testing.assert_close(fast.z[-1], plain.z[-1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("nu,budget", [(4, 16), (1, 32)])
def test_in_bfloat16_the_window_is_as_exact_as_the_plain_loop(nu, budget):
    """Trajectories whose actions agree; a probability within rounding of omega may flip one."""
    exact = dreamed(nu, budget, window=False, dtype=torch.float32)
    plain = dreamed(nu, budget, window=False, dtype=torch.bfloat16)
    fast = dreamed(nu, budget, window=True, dtype=torch.bfloat16)
    same = [(x.actions == exact.actions[-1]).all(-1)[-1] for x in (plain, fast)]
    assert all(float(flags.float().mean()) >= 0.5 for flags in same)
    errors = [
        float((x.z[-1][flags] - exact.z[-1][flags]).norm() / exact.z[-1][flags].norm())
        for x, flags in zip((plain, fast), same, strict=True)
    ]
    assert errors[1] <= 2 * errors[0] + 1e-3
