"""Scalars as symlogs and as distributions over bins."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from horizon_imagination.models.actor_critic import Critic
from horizon_imagination.models.readout import CategoricalReadout, SymlogReadout, two_hot
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.returns import symexp, symlog

SHAPE = dict(
    channels=2, size=2, cnn_channels=8, cnn_out_channels=4, hidden=8, normalize=False
)  # fmt: skip


def best_logits(readout, targets):
    """The outputs with the least mean error on some targets, found by gradient descent."""
    out = torch.zeros(readout.size, requires_grad=True)
    optimizer = torch.optim.Adam([out], lr=0.05)
    for _ in range(800):
        optimizer.zero_grad()
        readout.error(out.expand(len(targets), -1), targets).mean().backward()
        optimizer.step()
    return out.detach()


@given(st.floats(-150_000, 150_000))
def test_the_mean_of_a_two_hot_target_is_the_scalar(x):
    bins = CategoricalReadout().bins.double()
    weights = two_hot(torch.tensor([x], dtype=torch.float64), bins)
    assert (weights >= 0).all() and (weights > 0).sum() <= 2
    assert weights.sum().item() == pytest.approx(1, abs=1e-9)
    assert (weights * bins).sum().item() == pytest.approx(x, rel=1e-6, abs=1e-4)


def test_scalars_beyond_the_last_bin_count_as_the_last_bin():
    bins = CategoricalReadout().bins
    weights = two_hot(torch.tensor([1e9, -1e9]), bins)
    assert weights[0, -1] == 1 and weights[1, 0] == 1
    assert bins[-1].item() == pytest.approx(math.exp(12) - 1, rel=1e-5) and bins[64] == 0


def test_the_mean_of_two_values_comes_out_right_where_symlog_regression_underpays_it():
    targets = torch.tensor([0.0, 20.0])
    categorical, regressed = CategoricalReadout(), SymlogReadout()
    mean = categorical.value(best_logits(categorical, targets))
    assert mean.item() == pytest.approx(10, rel=0.02)
    underpaid = math.exp(math.log(21) / 2) - 1
    regressed_mean = regressed.value(best_logits(regressed, targets))
    assert regressed_mean.item() == pytest.approx(underpaid, rel=0.01)
    assert underpaid == pytest.approx(3.58, abs=0.01)


def test_the_cross_entropy_is_the_one_computed_by_hand():
    readout = CategoricalReadout()
    out = torch.zeros(readout.size)
    out[64], out[65] = 2.0, 1.0
    total = math.log(127 + math.exp(2) + math.exp(1))
    half = readout.bins[65] / 2  # half way between the bin of zero and the next one
    found = readout.error(out, half)
    assert found.item() == pytest.approx(total - (2 + 1) / 2, rel=1e-5)


def test_symlog_outputs_are_read_and_scored_as_before():
    out, target = torch.tensor([[0.5], [-2.0]]), torch.tensor([3.0, 0.0])
    readout = SymlogReadout()
    assert torch.equal(readout.value(out), symexp(out[:, 0]))
    assert torch.equal(readout.error(out, target), (out[:, 0] - symlog(target)).square())


def test_new_categorical_heads_predict_nearly_nothing_and_keep_their_end_logits():
    torch.manual_seed(0)
    z = torch.rand(2, 5, 2, 2, 2) * 2 - 1
    reward, end = RewardModel(readout="categories", **SHAPE).predict(z)
    assert reward.abs().max() < 0.01 and end.shape == (2, 5, 2) and end.std() > 0
    critic = Critic(readout="categories", **SHAPE)
    assert critic.readout.value(critic(z)[0]).abs().max() < 0.01


def test_bins_are_no_weights_of_a_snapshot():
    model = RewardModel(readout="categories", **SHAPE)
    assert not any("bins" in name for name in model.state_dict())
