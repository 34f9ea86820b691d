"""How much of a first action stays in a frame that another action ends, in known worlds."""

import json

import pytest
import torch
from embedded_world import around
from test_dreamed_reward import Knows, Pays, experience

from horizon_imagination.actions import Discrete
from horizon_imagination.learn.unheeded_changes import unheeded_changes
from horizon_imagination.schedules import changeable, horizon_schedule, moving

SCHEDULE = horizon_schedule(horizon=3, budget=6, decay_horizon=2)
BATCH = experience([[1, 2, 0, 3], [0, 0, 3, 1]])


class Goes(Knows):
    """Goes on where the first action led, or as far as it is stubborn."""

    def __init__(self, stubborn):
        super().__init__()
        self.stubborn, self.first = stubborn, {}

    def window(self, z, tau, prev_actions, *, cache, start, real=None):
        v = super().window(z, tau, prev_actions, cache=cache, start=start, real=real)
        goal = prev_actions.float() / 10
        for column, time in enumerate(tau[0].tolist()):
            if time in (0, 1):
                self.first[start + column] = goal[:, column]
                continue
            led = torch.lerp(goal[:, column], self.first[start + column], self.stubborn)
            v[:, column] = (led[:, None, None, None] - z[:, column]) / (1 - time)
        return v


def measured(denoiser, schedule=SCHEDULE, batch=BATCH):
    rng = torch.Generator().manual_seed(0)
    return unheeded_changes(around(denoiser, Pays(1.0, 0.0)), batch, schedule, Discrete(4), rng)


def test_a_world_that_follows_the_last_action_heeds_every_change():
    assert measured(Knows())["unheeded_changes"] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(("stubborn", "left"), [(1.0, 1.0), (0.5, 0.25), (0.0, 0.0)])
def test_what_stays_of_the_first_action_is_measured(stubborn, left):
    """Squared: a frame that ends half way between two actions has a quarter of the error."""
    assert measured(Goes(stubborn))["unheeded_changes"] == pytest.approx(left, abs=1e-4)


def test_padding_does_not_count():
    short = experience([[1, 2, 0, 3], [0, 0, 3, 1]], short=2)
    spoiled = short._replace(z=short.z.clone())
    spoiled.z[0, 2:] = 7.0
    assert measured(Goes(0.5), batch=short) == measured(Goes(0.5), batch=spoiled)


def test_a_world_that_hears_no_action_has_nothing_to_heed():
    assert measured(Knows(hears=False))["unheeded_changes"] == 0


def test_nothing_is_said_where_no_action_can_change():
    assert measured(Knows(), horizon_schedule(3, 3, 1)) == {}
    assert measured(Knows(), horizon_schedule(3, 30, 1)) != {}, "many steps a frame are room"


@pytest.mark.parametrize(("horizon", "budget", "decay"), [(32, 16, 4.0), (16, 8, 4.0), (7, 4, 2.0)])
def test_a_change_comes_before_the_last_move_of_a_frame(horizon, budget, decay):
    schedule = horizon_schedule(horizon, budget, decay)
    early, moves = changeable(schedule), moving(schedule)
    assert early.any() and not early[:, 0].any() and not early[-1].any()
    assert (moves | ~early[:-1]).all()
    last = moves.int().cumsum(0).argmax(0)
    assert not early[last, torch.arange(horizon)].any()


def test_every_run_measures_it(trained):
    lines = map(json.loads, (trained / "metrics.jsonl").read_text().splitlines())
    learned = [line for line in lines if "world_model/action_gap" in line]
    assert learned and all("world_model/unheeded_changes" in line for line in learned)
