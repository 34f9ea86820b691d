"""The ways of acting, which entries train the policy, and what is counted about changes."""

import pytest
import torch
from scipy import stats

from horizon_imagination import (
    Dice,
    Imagined,
    autoregressive_schedule,
    change_count,
    coupled_action,
    coupled_actor,
    held_actor,
    horizon_schedule,
    imagine,
    late_change_rate,
    moving,
    naive_actor,
    policy_entries,
    recorded_actor,
    roll,
    stable_action,
    stable_actor,
    uniform_noise,
)

BATCH, HORIZON, ACTIONS = 400, 6, 4
SCHEDULE = horizon_schedule(HORIZON, 12, 3)
ROWS = len(SCHEDULE)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def reacting(z, tau):
    """A policy that depends on what it sees and on how noisy that is."""
    weight = torch.randn(ACTIONS, z[0, 0].numel(), generator=generator(42))
    return torch.softmax(torch.einsum("btd,ad->bta", 2 * z.flatten(2), weight), dim=-1)


def fixed(z, tau):
    return torch.tensor([0.1, 0.2, 0.3, 0.4]).expand(*tau.shape, ACTIONS)


def drift(z, tau, prev_actions):
    return torch.sin(3 * z + prev_actions[..., None, None, None])


def throw(*rows, seed=1):
    return roll(*rows, BATCH, HORIZON - 1, num_actions=ACTIONS, rng=generator(seed))


def run(actor, schedule=SCHEDULE):
    noise = uniform_noise(BATCH, HORIZON, 1, 2, 2, rng=generator(7))
    return imagine(drift, actor, noise, schedule)


def probs_at(out, policy, row, schedule=SCHEDULE):
    tau = schedule[row].expand(BATCH, -1)
    return policy(out.z[row][:, :-1], tau[:, :-1])


def test_stable_actions_are_recomputed_at_every_row_from_the_same_dice():
    """Also once the frame they lead to is clean: the clean row's actions are the trajectory's."""
    dice, schedule = throw(), horizon_schedule(HORIZON, 3, 3)
    out = run(stable_actor(reacting, dice), schedule)
    for row in range(len(schedule)):
        expected = stable_action(probs_at(out, reacting, row, schedule), dice)
        assert torch.equal(out.actions[row][:, 1:], expected)
    # So coarse a budget cleans neighbours in one step: the last word falls after the last move.
    assert late_change_rate(out, schedule) > 0.05


def test_stable_actions_of_a_policy_that_stays_never_change():
    out = run(stable_actor(fixed, throw()))
    assert (out.actions == out.actions[0]).all()
    assert change_count(out, SCHEDULE) == 0 and late_change_rate(out, SCHEDULE) == 0


def test_naive_actions_are_drawn_afresh_at_every_row_even_under_clean_frames():
    dice = throw(ROWS)
    out = run(naive_actor(fixed, dice))
    expected = 1 - (0.01 + 0.04 + 0.09 + 0.16)
    changed = (out.actions[1:] != out.actions[:-1])[:, :, 1:].float()
    assert (abs(changed.mean(dim=(1, 2)) - expected) < 0.06).all(), "at every single row"
    assert late_change_rate(out, SCHEDULE) > 0.4
    for row in range(ROWS):
        one = Dice(dice.omega[row], dice.order[row])
        assert torch.equal(out.actions[row][:, 1:], stable_action(probs_at(out, fixed, row), one))


def test_held_actions_stay_once_the_frame_they_lead_to_is_clean():
    out = run(held_actor(fixed, throw(ROWS)))
    changed = out.actions[1:] != out.actions[:-1]
    clean = SCHEDULE[1:] == 1
    assert not changed.any(1)[clean].any()
    fresh = changed.float().mean(1)[:, 1:][~clean[:, 1:]]
    assert (abs(fresh - 0.7) < 0.1).all(), "and are drawn afresh until then"
    assert late_change_rate(out, SCHEDULE) == 0


def test_coupled_actions_are_the_maximal_coupling_of_consecutive_rows():
    first, dice = throw(seed=1), throw(ROWS, seed=2)
    out = run(coupled_actor(reacting, first, dice))
    before, action = None, None
    for row in range(ROWS):
        probs = probs_at(out, reacting, row)
        begun = stable_action(probs, first)
        if action is None:
            action = begun
        else:
            one = Dice(dice.omega[row], dice.order[row])
            kept = coupled_action(action, before, probs, one)
            action = torch.where(SCHEDULE[row, 1:] > 0, kept, begun)
        assert torch.equal(out.actions[row][:, 1:], action)
        before = probs


def test_coupled_actions_of_a_policy_that_stays_never_change():
    out = run(coupled_actor(fixed, throw(seed=1), throw(ROWS, seed=2)))
    assert (out.actions == out.actions[0]).all()


@pytest.mark.parametrize("kind", ["stable", "naive", "held", "coupled"])
def test_every_way_of_acting_follows_the_policy_while_frames_move(kind):
    """Actions leading to a moving frame are distributed as the policy at that row."""
    actor = {
        "stable": lambda: stable_actor(fixed, throw()),
        "naive": lambda: naive_actor(fixed, throw(ROWS)),
        "held": lambda: held_actor(fixed, throw(ROWS)),
        "coupled": lambda: coupled_actor(fixed, throw(seed=1), throw(ROWS, seed=2)),
    }[kind]()
    out = run(actor)
    for row in (3, 6, 10):
        frame = int(moving(SCHEDULE)[row].nonzero()[-1])
        counts = torch.bincount(out.actions[row][:, frame], minlength=ACTIONS)
        expected = [0.1 * BATCH, 0.2 * BATCH, 0.3 * BATCH, 0.4 * BATCH]
        assert stats.chisquare(counts.tolist(), expected).pvalue > 1e-3


def test_every_trajectory_and_step_has_its_own_order_in_an_imagination():
    """One shared order would offer the same action first everywhere: take only first offers."""
    dice = throw()
    first_offer = stable_action(torch.full((BATCH, HORIZON - 1, ACTIONS), 0.25), dice)
    eager = Dice(torch.zeros_like(dice.omega), dice.order)
    out = run(stable_actor(lambda z, tau: torch.full((*tau.shape, ACTIONS), 0.25), eager))
    assert torch.equal(out.actions[0][:, 1:], dice.order[..., 0])
    counts = torch.stack([(dice.order[..., 0] == a).float().mean(0) for a in range(ACTIONS)])
    assert (abs(counts - 0.25) < 0.1).all() and first_offer.unique().numel() == ACTIONS


def test_recorded_actions_are_what_they_are_at_every_row():
    actions = torch.randint(ACTIONS, (BATCH, HORIZON - 1), generator=generator(3))
    out = run(recorded_actor(actions))
    assert (out.actions[:, :, 1:] == actions).all()


@pytest.mark.parametrize("decay,budget,moves", [(4, 16, 90), (4, 32, 150), (1, 32, 32)])
def test_the_policy_trains_where_the_next_frame_moves_and_at_the_clean_level(decay, budget, moves):
    schedule = horizon_schedule(32, budget, decay)
    bare = policy_entries(schedule, clean_level=False)
    full = policy_entries(schedule, clean_level=True)
    assert bare.shape == schedule.shape and int(bare.sum()) == moves
    assert int(full.sum()) == moves + 32
    for row in range(budget):
        assert torch.equal(bare[row], schedule[row + 1] > schedule[row])
        assert torch.equal(full[row], bare[row]), "only the last row differs"
    assert not bare[-1].any() and full[-1].all()


def test_without_a_context_the_first_column_is_no_action():
    entries = policy_entries(SCHEDULE, clean_level=True, first_action=False)
    assert not entries[:, 0].any()
    assert torch.equal(entries[:, 1:], policy_entries(SCHEDULE, clean_level=True)[:, 1:])


def test_changes_are_counted_by_hand():
    """Frame by frame, two frames: frame 0 moves at row 0, frame 1 at row 1; row 2 is clean."""
    actions = torch.tensor([[[0, 0], [0, 0]], [[0, 1], [0, 0]], [[0, 2], [0, 0]]])
    out = Imagined(torch.zeros(3, 2, 2, 1, 1, 1), actions)
    schedule = autoregressive_schedule(2, 2)
    # Only trajectory 0's action to frame 1 changes: 1 -> 2 after that frame's last move at row 1.
    assert late_change_rate(out, schedule).item() == 0.25
    assert change_count(out, schedule).item() == 0.25
