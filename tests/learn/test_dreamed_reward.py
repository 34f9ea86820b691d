"""Rewards of recorded actions, dreamed and real, in a world that is known."""

import pytest
import torch
from embedded_world import around
from torch import nn

from horizon_imagination.agent import Agent
from horizon_imagination.learn.dreamed_reward import dreamed_reward
from horizon_imagination.learn.world_model import Experience
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.presets import DEBUG
from horizon_imagination.schedules import horizon_schedule

SCHEDULE = horizon_schedule(horizon=3, budget=3, decay_horizon=2)


class Knows(Denoiser):
    """A denoiser whose frames are full of (previous action) / 10, if it hears actions."""

    def __init__(self, hears=True):
        nn.Module.__init__(self)
        self.hears = hears

    def cache(self, frames):
        return None

    def window(self, z, tau, prev_actions, *, cache, start, real=None):
        told = prev_actions.clamp(min=0).float() / 10 * self.hears
        clean = told[..., None, None, None].expand_as(z)
        left = (1 - tau).clamp(min=1e-6)[..., None, None, None]
        return (clean - z) / left


class Pays(RewardModel):
    """Pays ten times what a frame is full of, at this price; frames full of 0.2 end with this
    chance."""

    def __init__(self, price, chance):
        nn.Module.__init__(self)
        self.price, self.chance = price, chance

    def predict(self, z, mask=None):
        level = z.mean((2, 3, 4)) * 10
        end = torch.where((level - 2).abs() < 0.5, self.chance, 0.0)
        return level * self.price, torch.stack([1 - end, end], dim=-1).log()


def experience(actions, short=None):
    """Taking action a leads to a frame full of a / 10 and pays a."""
    action = torch.tensor(actions)
    prev = torch.cat([torch.full_like(action[:, :1], -1), action[:, :-1]], dim=1)
    z = (prev.clamp(min=0).float() / 10)[..., None, None, None].expand(*prev.shape, 1, 2, 2)
    mask = torch.ones_like(action, dtype=torch.bool)
    if short:
        mask[0, short:] = False
    zero = torch.zeros(action.shape)
    return Experience(z.clone(), action, prev, action.float(), zero.bool(), mask)


def measured(batch, hears=True, price=1.0, chance=0.0, of="reward"):
    rng = torch.Generator().manual_seed(0)
    found = dreamed_reward(around(Knows(hears), Pays(price, chance)), batch, SCHEDULE, rng)
    return {name: value.item() for name, value in found.items() if name.endswith(of)}


def paying(real, late, imagined=1.0, read=1.0):
    """Over all frames and over the last one of three; imagined and read as shares of it."""
    shares = {"imagined_reward": imagined, "read_reward": read, "real_reward": 1.0}
    whole = {name: share * real for name, share in shares.items()}
    return whole | {f"late_{name}": share * late for name, share in shares.items()}


def test_a_world_model_that_knows_the_world_pays_what_the_world_paid():
    # Three of four actions lead to a frame of the segment: 1 + 2 + 0 and 2 + 2 + 2.
    found = measured(experience([[1, 2, 0, 2], [2, 2, 2, 1]]))
    assert found == pytest.approx(paying(4.5, late=1.0), rel=1e-4)


def test_what_is_not_imagined_is_not_paid():
    found = measured(experience([[1, 2, 0, 2], [2, 2, 2, 1]]), hears=False)
    assert found == pytest.approx(paying(4.5, late=1.0, imagined=0), abs=1e-4)


def test_a_reward_model_that_misreads_is_told_from_a_world_model_that_misses():
    found = measured(experience([[1, 2, 0, 2], [2, 2, 2, 1]]), price=0.5)
    assert found == pytest.approx(paying(4.5, late=1.0, imagined=0.5, read=0.5), rel=1e-4)


def test_padding_pays_nothing():
    found = measured(experience([[1, 2, 2, 2], [2, 2, 2, 1]], short=2))
    assert found == pytest.approx(paying(3.5, late=1.0), rel=1e-4)


def ends(imagined, read, real):
    return pytest.approx({"imagined_end": imagined, "read_end": read, "real_end": real}, abs=1e-4)


def test_ends_are_counted_once_a_segment_and_only_where_there_are_frames():
    # Frames full of 0.2: two in the first segment, three in the second, one before its padding in
    # the third. In the world the first two ended, once each, and the third after its last frame.
    batch = experience([[2, 2, 0, 2], [2, 2, 2, 1], [2, 1, 2, 2]])
    batch.terminated[0, 1] = batch.terminated[1, 2] = batch.terminated[2, 2] = True
    batch.mask[2, 2:] = False
    told = ends(imagined=(0.75 + 0.875 + 0.5) / 3, read=(0.75 + 0.875 + 0.5) / 3, real=2 / 3)
    assert measured(batch, chance=0.5, of="end") == told
    lost = ends(imagined=0.0, read=(0.75 + 0.875 + 0.5) / 3, real=2 / 3)
    assert measured(batch, hears=False, chance=0.5, of="end") == lost


def test_a_real_agent_is_measured_in_its_own_shapes():
    agent = Agent(DEBUG, 3, torch.device("cpu"))
    horizon = DEBUG.imagination.horizon
    batch = experience([[0] * (horizon + 1)])
    batch = batch._replace(z=torch.rand(1, horizon + 1, *agent.latent_shape))
    rng = torch.Generator().manual_seed(0)
    found = dreamed_reward(agent.world_model, batch, agent.schedule, rng)
    assert found["real_reward"] == 0 and torch.isfinite(found["imagined_reward"])
