"""The window over a cache gives the plain loop's numbers."""

import pytest
import torch
from embedded_world import around

from horizon_imagination import (
    Context,
    Dice,
    full_sequence_schedule,
    horizon_schedule,
    imagine,
    pyramidal_schedule,
    recorded_actor,
    stable_action,
)
from horizon_imagination.engine.draws import plain_actor, sample_draws
from horizon_imagination.engine.dream import imagine_recorded
from horizon_imagination.engine.policy_windows import entry_logits, entry_plan
from horizon_imagination.engine.rollout import RecordedActor, WindowedActor, imagine_windowed
from horizon_imagination.imagination import Imagined, policy_entries
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.denoiser import Denoiser

BATCH, HORIZON, ACTIONS, CHANNELS, SIZE = 3, 8, 4, 2, 4
SCHEDULES = {
    "autoregressive": horizon_schedule(HORIZON, HORIZON, 1),
    "two steps a frame": horizon_schedule(HORIZON, 2 * HORIZON, 1),
    "sub-frame": horizon_schedule(HORIZON, 4, 4),
    "one step": horizon_schedule(HORIZON, 1, 3),
    "fractional": horizon_schedule(HORIZON, 7, 2.7),
    "wide": horizon_schedule(HORIZON, 12, 8),
    "pyramidal": pyramidal_schedule(HORIZON, 10),
    "full sequence": full_sequence_schedule(HORIZON, 5),
}


def random_denoiser(prediction="velocity", normalize=False):
    torch.manual_seed(0)
    net = Denoiser(
        channels=CHANNELS, size=SIZE, action_space=ACTIONS, layers=2, heads=2, head_dim=12,
        patch_size=2, mlp_ratio=2, prediction=prediction, action_tokens=True, normalize=normalize,
    )  # fmt: skip
    for name, p in net.named_parameters():
        if "modulate" in name:  # zero gates would hide attention, actions and times
            torch.nn.init.normal_(p, std=0.5)
    return net.eval()


def random_actor():
    torch.manual_seed(1)
    net = Actor(
        channels=CHANNELS, size=SIZE, cnn_channels=8, cnn_out_channels=4, hidden=16,
        outputs=ACTIONS, use_tau=True, normalize=False,
    )  # fmt: skip
    torch.nn.init.normal_(net.head.weight, std=1.5)
    return net


def start(context_length, actor):
    rng = torch.Generator().manual_seed(2)
    z = torch.rand(BATCH, context_length, CHANNELS, SIZE, SIZE, generator=rng) * 2 - 1
    previous = torch.randint(ACTIONS, (BATCH, context_length), generator=rng)
    previous[:, 0] = -1
    logits, states = actor(z)
    return Context(z, previous), logits[:, -1].softmax(-1), states.at(-1)


@pytest.mark.parametrize("context_length", [1, 3])
@pytest.mark.parametrize("sampler", ["stable", "coupled", "naive_held"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_window_agrees_with_the_plain_loop(name, sampler, context_length):
    schedule, denoiser, actor = SCHEDULES[name], random_denoiser(), random_actor()
    with torch.no_grad():
        context, probs, state = start(context_length, actor)
        shape = (BATCH, HORIZON, CHANNELS, SIZE, SIZE)
        draws = sample_draws(
            shape, len(schedule), ACTIONS, sampler, torch.Generator().manual_seed(3)
        )
        first = stable_action(probs, Dice(draws.dice.omega[:, 0], draws.dice.order[:, 0]))
        plain = imagine(
            denoiser,
            plain_actor(
                sampler, lambda z, tau: actor.policy(z, tau, state), draws, actor.action_space
            ),
            draws.noise,
            schedule,
            context=context,
            first_action=first,
        )
        windowed = imagine_windowed(
            around(denoiser),
            WindowedActor(actor, sampler, state, first, draws, schedule),
            draws.noise,
            schedule,
            context,
        )
    torch.testing.assert_close(windowed.z, plain.z, atol=1e-5, rtol=1e-5)
    asked = policy_entries(schedule, clean_level=True)[:, None].expand_as(plain.actions)
    assert torch.equal(windowed.actions[asked], plain.actions[asked])
    assert torch.equal(windowed.actions[-1], plain.actions[-1])


@pytest.mark.parametrize("prediction,normalize", [("clean", True), ("velocity", True)])
@pytest.mark.parametrize("name", SCHEDULES)
def test_recorded_actions_agree_and_only_the_clean_row_is_kept_on_request(
    name, prediction, normalize
):
    schedule, denoiser = SCHEDULES[name], random_denoiser(prediction, normalize)
    context, _, _ = start(2, random_actor())
    rng = torch.Generator().manual_seed(4)
    noise = torch.rand(BATCH, HORIZON, CHANNELS, SIZE, SIZE, generator=rng) * 2 - 1
    actions = torch.randint(ACTIONS, (BATCH, HORIZON), generator=rng)
    plain = imagine(
        denoiser,
        recorded_actor(actions[:, 1:]),
        noise,
        schedule,
        context=context,
        first_action=actions[:, 0],
    )
    windowed = imagine_windowed(
        around(denoiser),
        RecordedActor([actions] * len(schedule)),
        noise,
        schedule,
        context,
        record=False,
    )
    assert len(windowed.z) == 1
    torch.testing.assert_close(windowed.z[-1], plain.z[-1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SCHEDULES)
def test_actions_given_for_every_row_agree(name):
    schedule, denoiser = SCHEDULES[name], random_denoiser("clean", True)
    context, _, _ = start(2, random_actor())
    rng = torch.Generator().manual_seed(4)
    noise = torch.rand(BATCH, HORIZON, CHANNELS, SIZE, SIZE, generator=rng) * 2 - 1
    shape = (len(schedule), BATCH, HORIZON)
    rows = list(torch.randint(ACTIONS, shape, generator=rng))
    for row, tau in zip(rows, schedule, strict=True):  # not for frames that are clean
        row[:, tau == 1] = rows[-1][:, tau == 1]
        row[:, 0] = rows[-1][:, 0]
    world = around(denoiser)
    plain, windowed = (
        imagine_recorded(world, context, rows, noise, schedule, window=window).z[-1]
        for window in (False, True)
    )
    torch.testing.assert_close(windowed, plain, atol=1e-5, rtol=1e-5)
    first = imagine_recorded(world, context, rows[0], noise, schedule).z[-1]
    assert torch.allclose(windowed, first, atol=1e-3) == (name == "one step")


@pytest.mark.parametrize("clean_level", [True, False])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_policy_gradient_agrees_with_brute_force(name, clean_level):
    """Brute force evaluates every row over the whole sequence and masks."""
    schedule, actor = SCHEDULES[name], random_actor().double()
    rng = torch.Generator().manual_seed(5)
    rows, length = len(schedule), 3
    z = torch.rand(rows, BATCH, HORIZON, CHANNELS, SIZE, SIZE, generator=rng, dtype=torch.double)
    settled = (schedule == 1).view(rows, 1, HORIZON, 1, 1, 1)
    z = torch.where(settled, z[-1:], z)  # clean frames do not change any more
    imagined = Imagined(z, torch.randint(ACTIONS, (rows, BATCH, HORIZON), generator=rng))
    context = torch.rand(BATCH, length, CHANNELS, SIZE, SIZE, generator=rng, dtype=torch.double)
    mask = torch.tensor([[False, False, True], [False, True, True], [True, True, True]])
    weight = torch.randn(rows, BATCH, HORIZON, generator=rng, dtype=torch.double)

    plan = entry_plan(schedule, clean_level=clean_level)
    features = actor.encoder(torch.cat([context, z[-1, :, :-1]], dim=1))
    logits = entry_logits(actor, plan, schedule, features, mask, imagined)
    taken = imagined.actions[plan.rows, :, plan.columns]
    chosen = logits.log_softmax(-1).gather(-1, taken[..., None])[..., 0]
    fast = (chosen * weight[plan.rows, :, plan.columns]).sum()
    fast_grad = torch.autograd.grad(fast, list(actor.parameters()))

    entries = policy_entries(schedule, clean_level=clean_level)
    brute = torch.zeros((), dtype=torch.double)
    for row in range(rows):
        tau = torch.cat([torch.ones(length), schedule[row, :-1]]).double().expand(BATCH, -1)
        seen = torch.cat([context, z[row, :, :-1]], dim=1)
        ahead = torch.ones(BATCH, HORIZON - 1, dtype=torch.bool)
        out, _ = actor(seen, tau, None, torch.cat([mask, ahead], dim=1))
        logp = out[:, length - 1 :].log_softmax(-1)
        logp = logp.gather(-1, imagined.actions[row][..., None])[..., 0]
        brute = brute + (logp * weight[row] * entries[row]).sum()
    brute_grad = torch.autograd.grad(brute, list(actor.parameters()))
    torch.testing.assert_close(fast, brute)
    for a, b in zip(fast_grad, brute_grad, strict=True):
        torch.testing.assert_close(a, b)
