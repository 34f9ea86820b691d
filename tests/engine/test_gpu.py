"""On a GPU too, the window over a cache gives the plain loop's numbers."""

import pytest
import torch
from embedded_world import around

from horizon_imagination import horizon_schedule
from horizon_imagination.engine.draws import sample_draws
from horizon_imagination.engine.dream import Start, dream
from horizon_imagination.engine.fused import FusedDenoiser
from horizon_imagination.kernels import fuse
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.stable_actions import Dice, thresholds

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BATCH, ACTIONS = 6, 9


def networks(device):
    torch.manual_seed(0)
    denoiser = Denoiser(
        channels=16, size=8, action_space=ACTIONS, layers=4, heads=8, head_dim=64, patch_size=2,
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


def dreamed(nu, budget, *, window, dtype, sampler="stable", fused=False):
    device = torch.device("cuda")
    denoiser, actor = networks(device)
    if fused:
        fuse(actor)
        denoiser = FusedDenoiser(denoiser, dtype)
    rng = torch.Generator(device).manual_seed(1)
    start = Start(
        torch.rand(BATCH, 5, 16, 8, 8, generator=rng, device=device) * 2 - 1,
        torch.randint(ACTIONS, (BATCH, 5), generator=rng, device=device),
        torch.ones(BATCH, 5, dtype=torch.bool, device=device),
    )
    with torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
        return dream(
            around(denoiser), actor, start, horizon_schedule(32, budget, nu), context=1,
            sampler=sampler, window=window, rng=rng,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def _full_precision_products():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("sampler", ["stable", "coupled", "naive_held"])
@pytest.mark.parametrize("nu,budget", [(4, 16), (4, 32), (1, 32)])
def test_the_window_agrees_with_the_plain_loop_in_float32(nu, budget, sampler, fused):
    plain = dreamed(nu, budget, window=False, dtype=torch.float32, sampler=sampler)
    fast = dreamed(nu, budget, window=True, dtype=torch.float32, sampler=sampler, fused=fused)
    assert torch.equal(fast.actions[-1], plain.actions[-1])
    torch.testing.assert_close(fast.z[-1], plain.z[-1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("nu,budget", [(4, 16), (1, 32)])
def test_in_bfloat16_the_window_is_as_exact_as_the_plain_loop(nu, budget, fused):
    """Trajectories whose actions agree; a probability within rounding of omega may flip one."""
    exact = dreamed(nu, budget, window=False, dtype=torch.float32)
    plain = dreamed(nu, budget, window=False, dtype=torch.bfloat16)
    fast = dreamed(nu, budget, window=True, dtype=torch.bfloat16, fused=fused)
    same = [(x.actions == exact.actions[-1]).all(-1)[-1] for x in (plain, fast)]
    assert all(float(flags.float().mean()) >= 0.5 for flags in same)
    errors = [
        float((x.z[-1][flags] - exact.z[-1][flags]).norm() / exact.z[-1][flags].norm())
        for x, flags in zip((plain, fast), same, strict=True)
    ]
    assert errors[1] <= 2 * errors[0] + 1e-3


@pytest.mark.parametrize("dtype,rounding", [(torch.float32, 1e-4), (torch.bfloat16, 3e-2)])
def test_an_action_differs_only_where_a_probability_is_within_rounding_of_its_threshold(
    dtype, rounding, record_property
):
    """The first action of a trajectory that differs; what follows it is another trajectory."""
    schedule = horizon_schedule(32, 16, 4)
    plain = dreamed(4, 16, window=False, dtype=torch.float32)
    fast = dreamed(4, 16, window=True, dtype=dtype, fused=True)
    device = torch.device("cuda")
    _, actor = networks(device)
    rng = torch.Generator(device).manual_seed(1)
    z = torch.rand(BATCH, 5, 16, 8, 8, generator=rng, device=device) * 2 - 1
    torch.randint(ACTIONS, (BATCH, 5), generator=rng, device=device)  # drawn before the dice
    dice: Dice = sample_draws((BATCH, 32, 16, 8, 8), len(schedule), ACTIONS, "stable", rng).dice
    state = actor(z)[1].at(-1)
    flips = 0
    for sample in range(BATCH):
        asked = fast.actions[:, sample] >= 0
        different = ((fast.actions != plain.actions)[:, sample] & asked).nonzero()
        if not len(different):
            continue
        flips += 1
        row, column = (int(x) for x in different[0])
        tau = schedule[row].to(device).expand(BATCH, -1)
        before = type(state)(*(part[sample : sample + 1] for part in state))
        probs = actor.policy(plain.z[row, sample : sample + 1], tau[sample : sample + 1], before)
        order, omega = dice.order[sample, column], dice.omega[sample, column]
        # The earlier of the two actions in that order was taken by one and refused by the other.
        both = fast.actions[row, sample, column], plain.actions[row, sample, column]
        place = min(int((order == action).nonzero()) for action in both)
        alpha = thresholds(probs[0, column - 1][order])
        assert abs(float(alpha[place] - omega[place])) < rounding
    record_property("flips", flips)
    print(f"{dtype}: {flips} of {BATCH} trajectories differ in an action")
