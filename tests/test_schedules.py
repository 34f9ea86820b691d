"""Schedules: by hand, by their equation, by their ends, and by what bad input says."""

from fractions import Fraction

import pytest
import torch

from horizon_imagination import (
    autoregressive_schedule,
    frames_in_flight,
    full_sequence_schedule,
    horizon_schedule,
    moving,
    pyramidal_schedule,
)
from horizon_imagination.schedules import schedule_of_kind

DECAYS = [1, 1.5, 2, 2.7182818, 3, 4, 5, 6, 7.3, 12, 16]
GRID = [
    (horizon, budget, decay)
    for horizon in (1, 2, 16, 33)
    for budget in (1, 2, 3, 7, 16, 33, 100, 999)
    for decay in DECAYS
    if decay <= horizon
]
KINDS = [
    *[(f"horizon{case}", horizon_schedule(*case)) for case in GRID],
    *[(f"pyramidal{case}", pyramidal_schedule(*case)) for case in [(1, 1), (5, 5), (7, 20)]],
    *[(f"one by one{case}", autoregressive_schedule(*case)) for case in [(1, 3), (5, 15)]],
    *[(f"full{case}", full_sequence_schedule(*case)) for case in [(1, 1), (5, 3), (4, 49)]],
]


def entry(horizon, budget, decay, row, frame):
    """Equation 3 in exact arithmetic."""
    nu = Fraction(decay)
    line = -Fraction(frame) / nu + Fraction(row, budget) * (1 + Fraction(horizon - 1) / nu)
    return min(max(line, Fraction(0)), Fraction(1))


@pytest.mark.parametrize("horizon,budget,decay", GRID[::3])
def test_the_horizon_schedule_is_equation_3(horizon, budget, decay):
    schedule = horizon_schedule(horizon, budget, decay)
    expected = torch.tensor(
        [
            [float(entry(horizon, budget, decay, row, frame)) for frame in range(horizon)]
            for row in range(budget + 1)
        ]
    )
    torch.testing.assert_close(schedule, expected, rtol=0, atol=1.1e-6)


def test_a_horizon_schedule_by_hand():
    schedule = horizon_schedule(horizon=4, budget=4, decay_horizon=2)
    hand = torch.tensor(
        [[0, 0, 0, 0], [0.625, 0.125, 0, 0], [1, 0.75, 0.25, 0], [1, 1, 0.875, 0.375], [1] * 4]
    )
    assert torch.equal(schedule, hand)


@pytest.mark.parametrize("schedule", [k for _, k in KINDS], ids=[name for name, _ in KINDS])
def test_ends_are_exact_and_leave_no_crumbs(schedule):
    """`tau == 1` and `dtau > 0` must mean what they say, so nothing lies next to 0 or 1."""
    assert schedule.dtype == torch.float32
    assert (schedule[0] == 0).all() and (schedule[-1] == 1).all()
    inside = schedule[(schedule > 0) & (schedule < 1)]
    assert (inside >= 1e-6).all() and (inside <= 1 - 1e-6).all()


@pytest.mark.parametrize("schedule", [k for _, k in KINDS], ids=[name for name, _ in KINDS])
def test_time_never_falls_and_nearer_frames_are_never_behind(schedule):
    assert (schedule.diff(dim=0) >= 0).all()
    assert (schedule.diff(dim=1) <= 0).all()


@pytest.mark.parametrize("decay", DECAYS)
def test_a_frame_is_exactly_noise_before_it_begins_and_exactly_clean_after(decay):
    """Single precision leaves 1e-8 where the front only touches a frame; see decay 3 or 12."""
    for horizon, budget in [(16, 17), (32, 15), (32, 16), (33, 32)]:
        schedule = horizon_schedule(horizon, budget, decay).tolist()
        for row, times in enumerate(schedule):
            for frame, tau in enumerate(times):
                exact = entry(horizon, budget, decay, row, frame)
                assert (tau == 0) == (exact == 0) and (tau == 1) == (exact == 1)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("horizon", [1, 3, 32])
def test_decay_one_is_autoregressive(horizon, steps):
    one_by_one = autoregressive_schedule(horizon, steps * horizon)
    assert torch.equal(horizon_schedule(horizon, steps * horizon, 1), one_by_one)
    assert frames_in_flight(one_by_one).tolist() == [1] * (steps * horizon)


def test_a_bigger_budget_refines_the_same_sweep():
    coarse, fine = horizon_schedule(32, 16, 4), horizon_schedule(32, 64, 4)
    torch.testing.assert_close(fine[::4], coarse)


@pytest.mark.parametrize("horizon,budget", [(4, 4), (4, 9), (32, 32), (32, 64)])
def test_a_pyramidal_frame_takes_its_steps_one_after_its_predecessor(horizon, budget):
    moves = moving(pyramidal_schedule(horizon, budget))
    assert moves.sum(0).tolist() == [budget - horizon + 1] * horizon
    assert moves.int().argmax(0).tolist() == list(range(horizon))


def test_the_decay_of_pyramidal_drifts_with_the_budget_and_that_of_horizon_does_not():
    """The paper's comparison: frames strictly inside (0, 1) while the front is in the middle."""

    def noisy(schedule):
        return int(((schedule > 0) & (schedule < 1)).sum(1).max())

    assert [noisy(horizon_schedule(16, budget, 3)) for budget in (16, 24, 32, 64)] == [3, 3, 3, 3]
    assert [noisy(pyramidal_schedule(16, budget)) for budget in (16, 24, 32)] == [0, 8, 16]


def test_the_full_sequence_moves_as_one():
    schedule = full_sequence_schedule(5, 4)
    assert torch.equal(schedule, torch.linspace(0, 1, 5)[:, None].expand(5, 5))


@pytest.mark.parametrize(
    "decay,budget,total", [(4, 16, 90), (4, 32, 150), (1, 32, 32)], ids=["sub", "full", "one"]
)
def test_frames_in_flight_at_the_published_settings(decay, budget, total):
    assert int(frames_in_flight(horizon_schedule(32, budget, decay)).sum()) == total


@pytest.mark.parametrize(
    "call,said",
    [
        (lambda: horizon_schedule(4, 4, 0), "decay_horizon must lie in"),
        (lambda: horizon_schedule(4, 4, 0.99), "decay_horizon must lie in"),
        (lambda: horizon_schedule(4, 4, 4.01), "decay_horizon must lie in"),
        (lambda: horizon_schedule(4, 4, float("nan")), "decay_horizon must lie in"),
        (lambda: horizon_schedule(4, 4, float("inf")), "decay_horizon must lie in"),
        (lambda: horizon_schedule(4, 0, 1), "at least 1"),
        (lambda: horizon_schedule(0, 4, 1), "at least 1"),
        (lambda: horizon_schedule(4, -3, 1), "at least 1"),
        (lambda: pyramidal_schedule(4, 3), "at least the horizon"),
        (lambda: pyramidal_schedule(4, 0), "at least 1"),
        (lambda: autoregressive_schedule(4, 6), "multiple of the horizon"),
        (lambda: autoregressive_schedule(4, 0), "at least 1"),
        (lambda: full_sequence_schedule(4, 0), "at least 1"),
    ],
)
def test_bad_numbers_are_refused_with_what_was_expected(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_a_schedule_has_the_name_of_its_kind():
    for kind, schedule in {
        "horizon": horizon_schedule(3, 6, 2.0),
        "pyramidal": pyramidal_schedule(3, 6),
        "autoregressive": autoregressive_schedule(3, 6),
        "full": full_sequence_schedule(3, 6),
    }.items():
        assert torch.equal(schedule_of_kind(kind, 3, 6, 2.0), schedule)
