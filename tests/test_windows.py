"""The window plan: its totals, and that nothing outside a window could matter."""

import pytest
import torch

from horizon_imagination import (
    autoregressive_schedule,
    frame_evaluations,
    full_sequence_schedule,
    horizon_schedule,
    moving,
    pyramidal_schedule,
    window_plan,
)

SCHEDULES = {
    "sub-frame": horizon_schedule(32, 16, 4),
    "one step": horizon_schedule(5, 1, 2),
    "uneven": horizon_schedule(7, 11, 2.5),
    "pyramidal": pyramidal_schedule(6, 9),
    "frame by frame": autoregressive_schedule(4, 8),
    "together": full_sequence_schedule(4, 3),
    "waiting": torch.tensor([[0.0, 0.0], [0.5, 0.0], [0.5, 0.0], [1.0, 0.0], [1.0, 1.0]]),
}


@pytest.mark.parametrize("decay,budget,total", [(4, 16, 120), (4, 32, 181), (1, 32, 64)])
def test_the_totals_at_the_published_settings(decay, budget, total):
    schedule = horizon_schedule(32, budget, decay)
    assert frame_evaluations(schedule, context=1) == (total, budget * 33)


def test_a_plan_by_hand():
    """Decay 2, budget 2, three frames after two context frames: rows (0 0 0), (1 .5 0)."""
    plan = window_plan(horizon_schedule(3, 2, 2), context=2)
    # row 0 moves frames 0 and 1 and settles the context; row 1 settles frame 0, moves 1 and 2
    assert [tuple(window) for window in plan] == [(0, 0, 4, 2), (1, 2, 5, 3)]
    assert [window.width for window in plan] == [4, 3]


@pytest.mark.parametrize("context", [0, 1, 3])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_every_moving_frame_is_evaluated_and_only_settled_frames_are_skipped(schedule, context):
    tau = torch.cat([torch.ones(len(schedule), context), schedule], dim=1)
    moves = torch.cat([torch.zeros(len(schedule) - 1, context).bool(), moving(schedule)], dim=1)
    plan = window_plan(schedule, context)
    assert len(plan) == len(schedule) - 1
    evaluated_clean = torch.zeros(tau.shape[1], dtype=torch.bool)
    settled = 0
    for window in plan:
        inside = torch.zeros(tau.shape[1], dtype=torch.bool)
        inside[window.start : window.stop] = True
        assert (inside | ~moves[window.row]).all(), "a frame that moves is evaluated"
        assert window.start == settled, "a window begins where the settled frames end"
        assert (tau[window.row, : window.start] == 1).all() and evaluated_clean[:settled].all()
        assert not moves[window.row, window.stop :].any(), "later frames wait"
        evaluated_clean |= inside & (tau[window.row] == 1)
        settled = window.settled
        assert settled >= window.start and settled <= max(window.stop, window.start)
        assert evaluated_clean[:settled].all(), "settled means evaluated once while clean"


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_every_frame_is_evaluated_clean_at_most_once(schedule):
    for context in (0, 1, 3):
        plan = window_plan(schedule, context)
        tau = torch.cat([torch.ones(len(schedule), context), schedule], dim=1)
        clean = torch.zeros(tau.shape[1], dtype=torch.long)
        for window in plan:
            clean[window.start : window.stop] += tau[window.row, window.start : window.stop] == 1
        assert (clean <= 1).all()
