"""From a left-padded real context to imagined frames, over the window and in the plain loop."""

import pytest
import torch
from embedded_world import around
from test_rollout import (
    ACTIONS,
    CHANNELS,
    HORIZON,
    SCHEDULES,
    SIZE,
    random_actor,
    random_denoiser,
)

from horizon_imagination.engine.dream import Start, dream, imagine_recorded, left_padded
from horizon_imagination.engine.policy_windows import entry_plan
from horizon_imagination.imagination import (
    Imagined,
    change_count,
    late_change_rate,
    policy_entries,
)
from horizon_imagination.schedules import horizon_schedule

LENGTHS = (1, 2, 4, 5)


def padded_start(lengths=LENGTHS, frames=5):
    rng = torch.Generator().manual_seed(7)
    z = torch.rand(len(lengths), frames, CHANNELS, SIZE, SIZE, generator=rng) * 2 - 1
    actions = torch.randint(ACTIONS, (len(lengths), frames), generator=rng)
    mask = torch.arange(frames) >= frames - torch.tensor(lengths)[:, None]
    return Start(z, actions, mask)


def run(start, schedule, *, window, context, sampler="stable", seed=0):
    return dream(
        around(random_denoiser()),
        random_actor(),
        start,
        schedule,
        context=context,
        sampler=sampler,
        window=window,
        rng=torch.Generator().manual_seed(seed),
    )


def of_sample(start, b):
    return Start(*(x[b : b + 1] for x in start))


@pytest.mark.parametrize("context", [1, 2, 4])
@pytest.mark.parametrize("sampler", ["stable", "coupled", "naive_held"])
@pytest.mark.parametrize("name", ["sub-frame", "fractional", "autoregressive"])
def test_short_contexts_dream_the_same_over_the_window(name, sampler, context):
    schedule, start = SCHEDULES[name], padded_start()
    plain, windowed = (
        run(start, schedule, window=w, context=context, sampler=sampler) for w in (False, True)
    )
    torch.testing.assert_close(windowed.z, plain.z, atol=1e-5, rtol=1e-5)
    asked = policy_entries(schedule, clean_level=True)[:, None].expand_as(plain.actions)
    assert torch.equal(windowed.actions[asked], plain.actions[asked])
    for figure in (late_change_rate, change_count):
        torch.testing.assert_close(figure(windowed, schedule), figure(plain, schedule))


@pytest.mark.parametrize("window", [True, False])
@pytest.mark.parametrize("context", [1, 4])
def test_what_lies_under_the_padding_does_not_matter(window, context):
    start, schedule = padded_start(), SCHEDULES["sub-frame"]
    hidden = ~start.mask
    other = Start(
        torch.where(hidden[..., None, None, None], torch.tensor(3.0), start.z),
        torch.where(hidden, (start.actions + 1) % ACTIONS, start.actions),
        start.mask,
    )
    a, b = (run(s, schedule, window=window, context=context) for s in (start, other))
    assert torch.equal(a.z, b.z) and torch.equal(a.actions, b.actions)


@pytest.mark.parametrize("window", [True, False])
@pytest.mark.parametrize("sample", range(len(LENGTHS)))
def test_a_short_context_dreams_as_it_would_alone(sample, window):
    start, schedule, length = padded_start(), SCHEDULES["fractional"], LENGTHS[sample]
    padded = of_sample(start, sample)
    alone = Start(*(x[:, -length:] for x in padded))
    a, b = (run(s, schedule, window=window, context=4) for s in (padded, alone))
    torch.testing.assert_close(a.z, b.z, atol=1e-5, rtol=1e-5)
    assert torch.equal(a.actions, b.actions)


@pytest.mark.parametrize("context", [1, 4])
@pytest.mark.parametrize("name", ["sub-frame", "two steps a frame", "pyramidal"])
def test_recorded_actions_are_given_at_every_row_over_the_window_and_in_the_plain_loop(
    name, context
):
    schedule, start = SCHEDULES[name], padded_start()
    acted = run(start, schedule, window=False, context=context)
    actions = acted.actions[-1]
    frames, real = start.world_model_context(context)

    def recorded(given, **how):
        noise = acted.z[0]
        world = around(random_denoiser())
        return imagine_recorded(world, frames, given, noise, schedule, real=real, **how)

    plain = recorded(actions, window=False)
    assert torch.equal(plain.actions, actions.expand_as(plain.actions))
    windowed = recorded(actions, record=True)
    torch.testing.assert_close(windowed.z, plain.z, atol=1e-5, rtol=1e-5)
    assert torch.equal(recorded(actions).z[-1], windowed.z[-1])
    assert len(recorded(actions).z) == 1
    other = recorded((actions + 1) % ACTIONS)
    assert not torch.allclose(other.z[-1], windowed.z[-1], atol=1e-3)
    ended = actions.clone()
    ended[:, 2:] = -1
    nothing = recorded(ended)
    assert torch.equal(nothing.z, recorded(ended.clamp(min=0)).z)


def test_more_context_changes_the_dream():
    start, schedule = padded_start((5, 5)), SCHEDULES["sub-frame"]
    one, four = (run(start, schedule, window=True, context=k) for k in (1, 4))
    assert (one.z[-1] - four.z[-1]).abs().max() > 1e-3


def test_the_same_generator_dreams_the_same_and_another_does_not():
    start, schedule = padded_start(), SCHEDULES["sub-frame"]
    a, b, c = (run(start, schedule, window=True, context=1, seed=s) for s in (1, 1, 2))
    assert torch.equal(a.z, b.z) and not torch.equal(a.z[0], c.z[0])


def test_literal_naive_sampling_runs_in_the_plain_loop():
    start, schedule = padded_start(), SCHEDULES["two steps a frame"]
    naive = run(start, schedule, window=False, context=1, sampler="naive")
    assert naive.actions.shape == (len(schedule), len(LENGTHS), HORIZON)
    assert change_count(naive, schedule) > 0


def test_the_context_of_the_world_model_by_hand():
    z = torch.arange(8.0).view(2, 4, 1, 1, 1)
    actions = torch.tensor([[1, 2, 3, 0], [3, 2, 1, 0]])
    mask = torch.tensor([[True, True, True, True], [False, False, True, True]])
    start = Start(z, actions, mask)
    context, real = start.world_model_context(3)
    assert context.z.flatten().tolist() == [1, 2, 3, 5, 6, 7]
    assert context.prev_actions.tolist() == [[-1, 2, 3], [-1, -1, 1]]
    assert real is not None and real.tolist() == [[True] * 3, [False, True, True]]
    context, real = start.world_model_context(1)
    assert context.prev_actions.tolist() == [[-1], [-1]] and real is None
    assert context.z.flatten().tolist() == [3, 7]


def test_padding_moves_to_the_front():
    z = torch.tensor([[1.0, 2, 0], [3, 4, 5], [6, 0, 0]]).view(3, 3, 1, 1, 1)
    actions = torch.tensor([[1, 2, 0], [3, 1, 2], [3, 0, 0]])
    mask = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    start = left_padded(z, actions, mask)
    assert start.mask.tolist() == [[False, True, True], [True] * 3, [False, False, True]]
    assert start.z[start.mask].flatten().tolist() == [1, 2, 3, 4, 5, 6]
    assert start.actions[start.mask].tolist() == [1, 2, 3, 1, 2, 3]


def test_changes_are_counted_by_hand():
    """Two frames, (nu, B) = (1, 2): frame 0 moves in row 0, frame 1 in row 1."""
    schedule = horizon_schedule(2, 2, 1)
    z = torch.zeros(3, 2, 2, 1, 1, 1)
    actions = torch.tensor([[[0, 9], [0, 9]], [[0, 1], [0, 1]], [[0, 2], [0, 1]]])
    out = Imagined(z, actions)
    # Trajectory 0: the action to frame 1 is 1 while it moves and 2 on the clean row.
    assert late_change_rate(out, schedule) == 0.25 and change_count(out, schedule) == 0.25
    unasked = Imagined(z, torch.where(actions == 9, -1, actions))
    assert change_count(unasked, schedule) == 0.25, "actions nobody asked for yet do not count"


@pytest.mark.parametrize("decay,budget,count", [(4, 16, 90), (4, 32, 150), (1, 32, 32)])
def test_the_plan_has_every_entry_once(decay, budget, count):
    schedule = horizon_schedule(32, budget, decay)
    for clean_level in (False, True):
        plan = entry_plan(schedule, clean_level=clean_level)
        places = list(zip(plan.rows, plan.columns, strict=True))
        assert len(places) == len(set(places)) == count + 32 * clean_level
        entries = policy_entries(schedule, clean_level=clean_level)
        assert sorted(places) == [tuple(p) for p in entries.nonzero().tolist()]
        assert plan.num_clean + len(plan.entry_slots) == len(places)
