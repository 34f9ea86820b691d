"""The figure that says whether a world model listens to actions."""

import pytest
import torch
from torch import nn

from horizon_imagination.actions import Discrete
from horizon_imagination.flow import interpolate
from horizon_imagination.learn.action_gap import FRAMES, action_gap
from horizon_imagination.learn.world_model import Experience
from horizon_imagination.models.denoiser import Denoiser

ACTIONS = 3


class Told(Denoiser):
    """Knows the world of `experience`: a frame is full of (action + 1) / 10; off by `error`."""

    def __init__(self, error, hears=True):
        nn.Module.__init__(self)
        self.action_space, self.error, self.hears = Discrete(ACTIONS), error, hears
        self.asked = []

    def forward(self, z, tau, prev_actions):
        self.asked.append((z, tau, prev_actions))
        clean = (prev_actions + 1).float() / 10 if self.hears else torch.zeros_like(tau)
        clean = clean[..., None, None, None].expand_as(z)
        return clean + self.error - z  # the velocity from noise; only frames of noise are asked for


def experience(rows=8, length=5, short=2):
    """Right-padded segments; the first is `short` frames long."""
    rng = torch.Generator().manual_seed(0)
    prev = torch.randint(0, ACTIONS, (rows, length), generator=rng)
    prev[:, 0] = -1
    z = ((prev + 1).float() / 10)[..., None, None, None].expand(rows, length, 2, 2, 2).clone()
    mask = torch.ones(rows, length, dtype=torch.bool)
    mask[0, short:] = False
    zero = torch.zeros(rows, length)
    return Experience(z, prev.clone(), prev, zero, zero.bool(), mask)


def rng():
    return torch.Generator().manual_seed(1)


def test_a_model_that_ignores_actions_has_no_gap():
    assert action_gap(Told(0.1, hears=False), experience, rng()) == 0


def test_a_wrong_action_costs_what_it_moves():
    # Off by 0.1 with the true action; a wrong one adds d in {-0.2, -0.1, 0.1, 0.2}.
    model = Told(0.1)
    gap = action_gap(model, experience, rng()).item()
    true, wrong = 0.0, 0.0
    for (_, tau, told), (_, _, lied) in zip(model.asked[::2], model.asked[1::2], strict=True):
        d = ((lied - told).float() / 10 * (tau == 0)).sum(1)
        assert (d.abs() > 0.05).all()  # never the true one again
        true, wrong = true + 0.01 * len(d), wrong + (0.1 + d).square().sum()
    assert gap == pytest.approx((wrong / true - 1).item(), rel=1e-4) and gap > 0


def test_one_frame_of_noise_is_asked_for_after_clean_ones_and_never_padding():
    model, batch = Told(0.0), experience()
    action_gap(model, lambda: batch, rng())
    assert len(model.asked) == 2 * FRAMES // len(batch.z)
    for z, tau, told in model.asked:
        place = (tau == 0).nonzero()[:, 1]
        assert len(place) == len(z) and (place >= 1).all() and place[0] < 2
        clean = interpolate(torch.zeros_like(batch.z), batch.z, torch.ones_like(tau))
        assert torch.equal(z[tau == 1], clean[tau == 1])
        assert torch.equal(told[tau == 1], batch.prev_actions[tau == 1])
        assert (told[tau == 0] >= 0).all()


def test_without_a_second_frame_there_is_no_gap():
    batch = experience(rows=1, short=1)
    assert action_gap(Told(0.1), lambda: batch, rng()) == 0


def test_segments_of_one_frame_count_for_nothing():
    short = experience(short=1)
    model = Told(0.1)
    action_gap(model, lambda: short, rng())
    spoiled = Experience(short.z.clone(), *short[1:])
    spoiled.z[0] = 50.0
    assert action_gap(model, lambda: spoiled, rng()) == action_gap(model, lambda: short, rng())
