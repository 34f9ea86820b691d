"""Vectors and several numbers as actions: every fast path against the plain one."""

import pytest
import torch
from embedded_world import around

from horizon_imagination.actions import Box, Discrete, MultiDiscrete
from horizon_imagination.engine.draws import plain_actor, sample_draws
from horizon_imagination.engine.dream import Start, dream, imagine_recorded
from horizon_imagination.engine.policy_windows import entry_logits, entry_plan
from horizon_imagination.imagination import (
    Context,
    Imagined,
    change_count,
    late_change_rate,
    policy_entries,
)
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.schedules import horizon_schedule

BATCH, HORIZON, CHANNELS, SIZE = 3, 5, 2, 4
SPACES = {"box": Box((-1.0, 0.0), (1.0, 3.0)), "several": MultiDiscrete((3, 2))}
SCHEDULE = horizon_schedule(HORIZON, 4, 2.0)


def networks(space, seed=0):
    torch.manual_seed(seed)
    denoiser = Denoiser(
        channels=CHANNELS, size=SIZE, action_space=space, layers=2, heads=2, head_dim=12,
        patch_size=2, mlp_ratio=2, prediction="clean", action_tokens=True, normalize=False,
    )  # fmt: skip
    torch.nn.init.normal_(denoiser.modulate.weight, std=0.3)
    actor = Actor(
        outputs=space, channels=CHANNELS, size=SIZE, cnn_channels=8, cnn_out_channels=4, hidden=8,
        use_tau=True, normalize=False,
    )  # fmt: skip
    torch.nn.init.normal_(actor.head.weight)
    return denoiser.eval(), actor.eval()


def contexts(space, length=3):
    rng = torch.Generator().manual_seed(1)
    z = torch.rand(BATCH, length, CHANNELS, SIZE, SIZE, generator=rng) * 2 - 1
    mask = torch.tensor([[False, False, True], [False, True, True], [True, True, True]])
    return Start(z, space.random(BATCH, length, rng=rng), mask[:, -length:])


def dreamed(space, sampler, window, frames=2):
    denoiser, actor = networks(space)
    return dream(
        around(denoiser),
        actor,
        contexts(space),
        SCHEDULE,
        context=frames,
        sampler=sampler,
        window=window,
        rng=torch.Generator().manual_seed(2),
    )


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize(
    "name,sampler",
    [("box", "stable"), ("box", "naive_held"), ("several", "stable"), ("several", "coupled")],
)
def test_the_window_agrees_with_the_plain_loop(name, sampler, frames):
    space = SPACES[name]
    plain, windowed = (dreamed(space, sampler, window, frames) for window in (False, True))
    torch.testing.assert_close(windowed.z, plain.z, atol=1e-5, rtol=1e-5)
    asked = policy_entries(SCHEDULE, clean_level=True)
    for row, column in asked.nonzero().tolist():
        torch.testing.assert_close(windowed.actions[row, :, column], plain.actions[row, :, column])
    torch.testing.assert_close(windowed.actions[-1], plain.actions[-1])


@pytest.mark.parametrize("name", SPACES)
def test_recorded_actions_agree(name):
    space, (denoiser, _) = SPACES[name], networks(SPACES[name])
    rng = torch.Generator().manual_seed(4)
    noise = torch.rand(BATCH, HORIZON, CHANNELS, SIZE, SIZE, generator=rng) * 2 - 1
    context, real = contexts(space).world_model_context(2)
    actions = space.random(BATCH, HORIZON, rng=rng)
    plain, windowed = (
        imagine_recorded(
            around(denoiser), context, actions, noise, SCHEDULE, real=real, window=window
        )
        for window in (False, True)
    )
    torch.testing.assert_close(windowed.z[-1], plain.z[-1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SPACES)
def test_the_denoiser_hears_actions_and_their_absence(name):
    space, (denoiser, _) = SPACES[name], networks(SPACES[name])
    rng = torch.Generator().manual_seed(5)
    z = torch.rand(1, 2, CHANNELS, SIZE, SIZE, generator=rng)
    tau = torch.tensor([[1.0, 0.3]])
    actions = space.random(1, 2, rng=rng)
    context = Context(z, actions)
    absent, _ = Start(z, actions, torch.zeros(1, 2, dtype=torch.bool)).world_model_context(2)
    said = [
        denoiser(z, tau, given)
        for given in (context.prev_actions, space.another(actions, rng), absent.prev_actions)
    ]
    assert not any(torch.allclose(said[0], other) for other in said[1:])


@pytest.mark.parametrize("name", SPACES)
def test_the_policy_gradient_agrees_with_brute_force(name):
    """Brute force evaluates every row over the whole sequence and masks."""
    space, actor = SPACES[name], networks(SPACES[name])[1].double()
    rng = torch.Generator().manual_seed(6)
    rows, length = len(SCHEDULE), 3
    z = torch.rand(rows, BATCH, HORIZON, CHANNELS, SIZE, SIZE, generator=rng, dtype=torch.double)
    z = torch.where((SCHEDULE == 1).view(rows, 1, HORIZON, 1, 1, 1), z[-1:], z)
    actions = space.random(rows, BATCH, HORIZON, rng=rng)
    start = contexts(space, length)
    context, weight = start.z.double(), torch.randn(rows, BATCH, HORIZON, generator=rng).double()
    plan = entry_plan(SCHEDULE, clean_level=True)
    imagined = Imagined(z, actions)
    features = actor.encoder(torch.cat([context, z[-1, :, :-1]], dim=1))
    outputs = entry_logits(actor, plan, SCHEDULE, features, start.mask, imagined)
    scores = space.scores(outputs, actions[plan.rows, :, plan.columns])
    fast = (scores.log_prob * weight[plan.rows, :, plan.columns]).sum() + scores.entropy.sum()
    brute = torch.zeros((), dtype=torch.double)
    for row in range(rows):
        tau = torch.cat([torch.ones(length), SCHEDULE[row, :-1]]).double().expand(BATCH, -1)
        seen = torch.cat([context, z[row, :, :-1]], dim=1)
        ahead = torch.ones(BATCH, HORIZON - 1, dtype=torch.bool)
        out, _ = actor(seen, tau, None, torch.cat([start.mask, ahead], dim=1))
        one = space.scores(out[:, length - 1 :], actions[row])
        counted = policy_entries(SCHEDULE, clean_level=True)[row]
        brute = brute + ((one.log_prob * weight[row] + one.entropy) * counted).sum()
    torch.testing.assert_close(fast, brute)
    for mine, theirs in zip(
        *(torch.autograd.grad(x, list(actor.parameters())) for x in (fast, brute)), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-6)


def test_fixed_noise_moves_actions_less_than_fresh_noise():
    stable, held = (dreamed(SPACES["box"], sampler, True) for sampler in ("stable", "naive_held"))
    naive = dreamed(SPACES["box"], "naive", False)
    moved = [float(change_count(x, SCHEDULE)) for x in (stable, held, naive)]
    assert moved[0] < 0.5 * moved[1] and moved[0] < 0.5 * moved[2]
    assert float(late_change_rate(held, SCHEDULE)) == 0 < float(late_change_rate(naive, SCHEDULE))


def test_movement_of_vectors_is_a_length():
    actions = torch.zeros(2, 1, 2, 2)
    actions[1, 0, 1] = torch.tensor([0.3, 0.4])
    imagined = Imagined(torch.zeros(2, 1, 2, 1, 1, 1), actions)
    schedule = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    assert float(change_count(imagined, schedule)) == pytest.approx(0.25)
    assert float(late_change_rate(imagined, schedule)) == pytest.approx(0.25)


def test_draws_of_a_discrete_space_are_those_of_its_number():
    shape = (2, 3, 1, 2, 2)
    one, other = (
        sample_draws(shape, 4, space, "coupled", torch.Generator().manual_seed(0))
        for space in (5, Discrete(5))
    )
    assert torch.equal(one.dice.omega, other.dice.omega)
    assert one.row_dice and torch.equal(one.row_dice.order, other.row_dice.order)  # type: ignore[union-attr]
    assert callable(plain_actor("coupled", lambda z, tau: z[..., 0, 0], one, Discrete(5)))
