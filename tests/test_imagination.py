"""Algorithm 1: by oracle (an exact velocity field), by structure, and by each way of acting."""

import pytest
import torch

from horizon_imagination import (
    NO_ACTION,
    Context,
    Dice,
    autoregressive_schedule,
    full_sequence_schedule,
    horizon_schedule,
    imagine,
    moving,
    pyramidal_schedule,
    recorded_actor,
    roll,
    stable_action,
    stable_actor,
    uniform_noise,
)
from horizon_imagination.studies.imagination import exact_velocity, future, render, steer

BATCH, HORIZON = 5, 8
SCHEDULES = {
    **{
        f"horizon {budget} {decay}": horizon_schedule(HORIZON, budget, decay)
        for budget in (1, 3, 8, 13, 40)
        for decay in (1, 2.5, 3, 8)
    },
    "pyramidal": pyramidal_schedule(HORIZON, 12),
    "frame by frame": autoregressive_schedule(HORIZON, 16),
    "together": full_sequence_schedule(HORIZON, 5),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def world_start(length, seed=0):
    """Context frames of the falling dot, the actions that led to them, and the next action."""
    rng = generator(seed)
    line, column = torch.randint(8, (2, BATCH, 1), generator=rng)
    actions = torch.randint(3, (BATCH, length), generator=rng)
    actions[:, 0] = NO_ACTION
    frames = future(render(line, column), actions)
    return Context(frames, actions), torch.randint(3, (BATCH,), generator=rng)


def dice(rng, *rows, num_actions=3):
    return roll(*rows, BATCH, HORIZON - 1, num_actions=num_actions, rng=rng)


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_with_the_exact_velocity_imagination_lands_on_the_data(schedule, length):
    """Recorded actions: the clean row is the true future for every schedule and budget."""
    context, first = world_start(length)
    later = torch.randint(3, (BATCH, HORIZON - 1), generator=generator(1))
    noise = uniform_noise(BATCH, HORIZON, 1, 8, 8, rng=generator(2))
    out = imagine(
        exact_velocity, recorded_actor(later), noise, schedule, context=context, first_action=first
    )
    told = torch.cat([context.prev_actions, first[:, None], later], dim=1)
    truth = future(context.z[:, :1], told)[:, length:]
    torch.testing.assert_close(out.z[-1], truth, atol=1e-5, rtol=0)
    assert torch.equal(out.actions[-1], told[:, length:])
    # The path in between is the straight line from the noise.
    tau = schedule[:, None, :, None, None, None]
    torch.testing.assert_close(out.z, tau * truth + (1 - tau) * noise, atol=1e-5, rtol=0)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_policy_that_reacts_gets_frames_that_follow_the_actions_that_moved_them_last(schedule):
    context, first = world_start(1)
    noise = uniform_noise(BATCH, HORIZON, 1, 8, 8, rng=generator(2))
    actor = stable_actor(steer, dice(generator(3)))
    out = imagine(exact_velocity, actor, noise, schedule, context=context, first_action=first)
    last_move = [int(moves.nonzero()[-1]) for moves in moving(schedule).T]
    for frame, row in enumerate(last_move):
        told = torch.cat([context.prev_actions, out.actions[row]], dim=1)
        truth = future(context.z, told)[:, 1 + frame]
        torch.testing.assert_close(out.z[-1][:, frame], truth, atol=1e-5, rtol=0)


def test_the_dot_is_steered_to_its_column_while_it_is_being_imagined():
    context, first = world_start(1)
    for budget in (8, 16, 32):
        actor = stable_actor(steer, dice(generator(3)))
        noise = uniform_noise(BATCH, HORIZON, 1, 8, 8, rng=generator(2))
        schedule = horizon_schedule(HORIZON, budget, 3)
        out = imagine(exact_velocity, actor, noise, schedule, context=context, first_action=first)
        column = out.z[-1].amax(dim=(2, 3)).argmax(-1)
        distance = (column - 4).abs().float()
        assert distance[:, -1].mean() <= 1.0 < distance[:, 0].mean()


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_frame_whose_time_does_not_move_is_untouched_bit_for_bit(schedule):
    """Even a denoiser that answers nan for frames at rest cannot disturb them."""

    def wild(z, tau, prev_actions):
        return torch.where(tau[..., None, None, None] == 1, torch.nan, torch.ones_like(z))

    noise = uniform_noise(BATCH, HORIZON, 1, 2, 2, rng=generator())
    still = recorded_actor(torch.zeros(BATCH, HORIZON - 1, dtype=torch.long))
    out = imagine(wild, still, noise, schedule)
    moved = (out.z.diff(dim=0) != 0).flatten(3).any(-1)
    assert torch.equal(moved, moving(schedule)[:, None].expand_as(moved))
    assert not out.z.isnan().any()


def test_decay_one_with_budget_h_is_generation_frame_by_frame():
    """A second loop, written as one would without the paper: act, take one step, go on."""
    weight = torch.randn(3, 4, generator=generator(9))

    def denoiser(z, tau, prev_actions):  # frame-causal and non-linear
        seen = torch.tanh(z + prev_actions[..., None, None, None]).cumsum(1)
        return torch.sin(seen + 2 * tau[..., None, None, None])

    def policy(z, tau):
        seen = z.flatten(2).cumsum(1)
        return torch.softmax(torch.einsum("btd,ad->bta", seen, weight), dim=-1)

    context = Context(
        uniform_noise(BATCH, 2, 1, 2, 2, rng=generator(1)), torch.zeros(BATCH, 2, dtype=torch.long)
    )
    first = torch.tensor([0, 1, 2, 0, 1])
    noise, throw = uniform_noise(BATCH, HORIZON, 1, 2, 2, rng=generator(4)), dice(generator(5))
    schedule = horizon_schedule(HORIZON, HORIZON, 1)
    out = imagine(
        denoiser, stable_actor(policy, throw), noise, schedule, context=context, first_action=first
    )

    frames, actions = context.z, torch.cat([context.prev_actions, first[:, None]], dim=1)
    for step in range(HORIZON):
        z = torch.cat([frames, noise[:, step : step + 1]], dim=1)
        tau = torch.cat([torch.ones(BATCH, z.shape[1] - 1), torch.zeros(BATCH, 1)], dim=1)
        frames = torch.cat([frames, z[:, -1:] + denoiser(z, tau, actions)[:, -1:]], dim=1)
        if step + 1 < HORIZON:
            probs = policy(frames[:, 2:], torch.ones(BATCH, step + 1))[:, -1]
            action = stable_action(probs, Dice(throw.omega[:, step], throw.order[:, step]))
            actions = torch.cat([actions, action[:, None]], dim=1)
    torch.testing.assert_close(out.z[-1], frames[:, 2:])
    assert torch.equal(out.actions[-1], actions[:, 2:])


def test_column_t_of_the_actions_leads_to_frame_t():
    """The denoiser sees, at frame t of the sequence, the action taken on frame t - 1."""
    seen = []

    def denoiser(z, tau, prev_actions):
        seen.append(prev_actions)
        return torch.zeros_like(z)

    later = torch.arange(10, 10 + HORIZON - 1).expand(BATCH, -1)
    context = Context(
        torch.zeros(BATCH, 3, 1, 2, 2), torch.tensor([NO_ACTION, 1, 2]).expand(BATCH, -1)
    )
    noise = uniform_noise(BATCH, HORIZON, 1, 2, 2, rng=generator())
    imagine(
        denoiser,
        recorded_actor(later),
        noise,
        horizon_schedule(HORIZON, 2, 2),
        context=context,
        first_action=torch.full((BATCH,), 3),
    )
    assert seen[0][0].tolist() == [NO_ACTION, 1, 2, 3, *range(10, 17)]


def test_without_context_the_first_frame_has_no_previous_action():
    noise = uniform_noise(BATCH, HORIZON, 1, 2, 2, rng=generator())
    still = recorded_actor(torch.zeros(BATCH, HORIZON - 1, dtype=torch.long))
    taus = []

    def denoiser(z, tau, prev_actions):
        taus.append(tau)
        assert (prev_actions[:, 0] == NO_ACTION).all() and prev_actions.shape == tau.shape
        return torch.zeros_like(z)

    schedule = horizon_schedule(HORIZON, 4, 2)
    out = imagine(denoiser, still, noise, schedule)
    assert (out.actions[:, :, 0] == NO_ACTION).all()
    torch.testing.assert_close(torch.stack(taus)[:, 0], schedule[:-1])


def test_a_horizon_of_one_frame_needs_no_policy():
    context, first = world_start(1)
    noise = uniform_noise(BATCH, 1, 1, 8, 8, rng=generator())

    def nobody(*_):
        raise AssertionError("there is no action to choose")

    schedule = horizon_schedule(1, 3, 1)
    out = imagine(exact_velocity, nobody, noise, schedule, context=context, first_action=first)
    truth = future(context.z, torch.cat([context.prev_actions, first[:, None]], dim=1))[:, 1:]
    torch.testing.assert_close(out.z[-1], truth, atol=1e-6, rtol=0)


def test_the_same_generator_state_gives_the_same_imagination():
    context, first = world_start(1)

    def once(seed):
        rng = generator(seed)
        actor = stable_actor(steer, dice(rng))
        noise = uniform_noise(BATCH, HORIZON, 1, 8, 8, rng=rng)
        schedule = horizon_schedule(HORIZON, 6, 3)
        return imagine(exact_velocity, actor, noise, schedule, context=context, first_action=first)

    assert torch.equal(once(1).z, once(1).z) and torch.equal(once(1).actions, once(1).actions)
    assert not torch.equal(once(1).actions, once(2).actions)


def test_context_and_first_action_go_together():
    context, _ = world_start(1)
    noise = uniform_noise(BATCH, HORIZON, 1, 8, 8, rng=generator())
    still = recorded_actor(torch.zeros(BATCH, HORIZON - 1, dtype=torch.long))
    with pytest.raises(ValueError, match="both or neither"):
        imagine(exact_velocity, still, noise, horizon_schedule(HORIZON, 2, 1), context=context)


def with_entry(row, column, value):
    schedule = horizon_schedule(HORIZON, 8, 3)
    schedule[row, column] = value
    return schedule


@pytest.mark.parametrize(
    "schedule,words",
    [
        (with_entry(0, 2, 0.5), "first row of a schedule is exactly 0"),
        (with_entry(-1, 2, 0.5), "last row of a schedule is exactly 1"),
        (with_entry(-1, 2, 0.9999999), "last row of a schedule is exactly 1"),
        (with_entry(3, 0, 0.9999999), "within 1e-06 of 0 or 1"),
        (with_entry(5, 0, 0.25), "times of a schedule never fall: see rows 4 and 5"),
        (with_entry(5, 0, float("nan")), "never fall"),
        (horizon_schedule(HORIZON - 1, 8, 3), r"expected \(rows, 8\), got \(9, 7\)"),
        (horizon_schedule(HORIZON, 8, 3)[-1:], r"got \(1, 8\)"),
    ],
)
def test_a_matrix_that_is_no_schedule_is_refused(schedule, words):
    noise = uniform_noise(BATCH, HORIZON, 1, 8, 8, rng=generator())
    still = recorded_actor(torch.zeros(BATCH, HORIZON - 1, dtype=torch.long))
    with pytest.raises(ValueError, match=words):
        imagine(lambda z, tau, prev_actions: -z, still, noise, schedule)


@pytest.mark.parametrize("logits", [(1.0, 2.0, 3.0), (-1.0, 1.0, 1.0), (0.2, 0.2, 0.2)])
def test_numbers_that_are_no_probabilities_are_refused(logits):
    noise = uniform_noise(BATCH, HORIZON, 1, 8, 8, rng=generator())
    actor = stable_actor(
        lambda z, tau: torch.tensor(logits).expand(*z.shape[:2], 3), dice(generator())
    )
    with pytest.raises(ValueError, match="expected probabilities, apply a softmax"):
        imagine(lambda z, tau, prev_actions: -z, actor, noise, horizon_schedule(HORIZON, 8, 3))


def test_velocities_that_would_be_broadcast_are_refused():
    noise = uniform_noise(BATCH, HORIZON, 2, 8, 8, rng=generator())
    still = recorded_actor(torch.zeros(BATCH, HORIZON - 1, dtype=torch.long))
    with pytest.raises(ValueError, match=r"shape \(5, 8, 1, 8, 8\) for frames of shape"):
        imagine(lambda z, tau, a: -z[:, :, :1], still, noise, horizon_schedule(HORIZON, 8, 3))
