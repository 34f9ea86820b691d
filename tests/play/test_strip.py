"""The whole horizon while it is denoised."""

import numpy as np
import pytest
import torch

from horizon_imagination.engine.dream import dream
from horizon_imagination.play.strip import (
    SAMPLERS,
    _changes,
    budgets,
    imagine_strip,
)
from horizon_imagination.schedules import horizon_schedule, schedule_of_kind
from horizon_imagination.types import NO_ACTION


@pytest.fixture
def start(game):
    return game.track.start(4)


@pytest.fixture
def strips(networks, start):
    schedule = horizon_schedule(7, 6, 3.0)
    return {s: imagine_strip(networks, start, schedule, s, seed=8) for s in SAMPLERS}


def test_a_strip_has_every_row_and_frame(strips):
    for strip in strips.values():
        assert strip.frames.shape == (7, 7, 64, 64, 3) and strip.policy.shape == (7, 7, 3)
        assert strip.actions.shape == strip.changed.shape == (7, 7)
        assert strip.reward.shape == strip.end.shape == strip.value.shape == (7,)
        assert strip.milliseconds > 0


def test_all_samplers_begin_with_the_same_noise_and_the_same_first_action(strips):
    first = strips["stable"]
    for strip in strips.values():
        assert (strip.frames[0] == first.frames[0]).all()
        assert (strip.actions[:, 0] == first.actions[0, 0]).all()


def test_frames_stay_as_they_are_once_they_are_clean(strips):
    schedule = horizon_schedule(7, 6, 3.0).numpy()
    frames = strips["stable"].frames
    for row, frame in np.argwhere(schedule[:-1] == 1):
        assert (frames[row, frame] == frames[-1, frame]).all()


def test_the_same_seed_gives_the_same_strip_and_another_seed_another(networks, start):
    schedule = horizon_schedule(7, 4, 2.0)
    one, two, other = (
        imagine_strip(networks, start, schedule, "stable", seed) for seed in (1, 1, 2)
    )
    assert (one.frames == two.frames).all() and (one.frames[0] != other.frames[0]).any()


def test_the_policy_shown_is_the_one_the_action_was_drawn_from(networks, start):
    """With the dice of the strip read again, its policy gives its actions."""
    from horizon_imagination.engine.draws import sample_draws
    from horizon_imagination.stable_actions import stable_action

    schedule = horizon_schedule(7, 4, 2.0)
    strip = imagine_strip(networks, start, schedule, "stable", seed=11)
    rng = torch.Generator().manual_seed(11)
    dice = sample_draws((1, 7, *networks.agent.latent_shape), len(schedule), 3, "stable", rng).dice
    for row in range(len(schedule)):
        again = stable_action(torch.from_numpy(strip.policy[row])[None], dice)[0].numpy()
        asked = strip.actions[row] != NO_ACTION
        assert (again[asked] == strip.actions[row][asked]).all()


def test_what_a_strip_shows_is_what_imagination_gives(networks, start):
    schedule = horizon_schedule(7, 4, 2.0)
    strip = imagine_strip(networks, start, schedule, "naive", seed=4)
    imagined = dream(
        networks.agent.world_model,
        networks.agent.actor,
        start,
        schedule,
        context=1,
        sampler="naive",
        window=False,
        rng=torch.Generator().manual_seed(4),
    )
    assert (imagined.actions[:, 0].numpy() == strip.actions).all()
    shown = networks.agent.decode(imagined.z[:, 0]).permute(0, 1, 3, 4, 2).numpy()
    assert (shown == strip.frames).all()


def test_changes_count_once_a_frame_has_been_denoised_under_another_action():
    schedule = torch.tensor([[0.0, 0, 0], [1, 0.5, 0], [1, 1, 0.5], [1, 1, 1]])
    actions = torch.tensor([[1, 0, -1], [1, 2, -1], [1, 0, 0], [1, 1, 2]])
    changed, late = _changes(actions, schedule)
    assert changed.int().tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 1]]
    assert late.int().tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 1]]


@pytest.mark.parametrize("kind", ["horizon", "pyramidal", "autoregressive", "full"])
@pytest.mark.parametrize("horizon", [1, 7, 32])
def test_every_budget_that_is_offered_is_a_schedule(kind, horizon):
    limits = budgets(horizon)[kind]
    for budget in range(limits["least"], limits["most"] + 1, limits["step"]):
        schedule = schedule_of_kind(kind, horizon, budget, 1.0)
        assert schedule.shape == (budget + 1, horizon)
        assert (schedule[0] == 0).all() and (schedule[-1] == 1).all()


def test_a_budget_that_is_not_offered_is_refused():
    with pytest.raises(ValueError, match="multiple of the horizon"):
        schedule_of_kind("autoregressive", 7, 8, 1.0)
