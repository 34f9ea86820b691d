"""What the policy gradient is made of, and what it must not be made of."""

import json

import pytest
import torch
from told_world import (
    ACTIONS,
    CONTEXT,
    ToldDenoiser,
    ToldReward,
    make_loss,
    make_start,
    place,
)

from horizon_imagination.imagination import Imagined
from horizon_imagination.learn import controller
from horizon_imagination.learn.learner import sum_terms
from horizon_imagination.learn.replayed_reward import replayed_reward
from horizon_imagination.returns import symlog

H, BATCH = 5, 12
ENDS = [99, 3, 99, 1, 5, 99, 2, 99, 4, 99, 99, 99]
"""Index of the first frame that is an end; 99: none."""


def gradients(loss, twist):
    loss.world.denoiser.twist = twist
    loss.rng.manual_seed(5)
    loss.return_scale = torch.tensor(torch.nan)
    loss.actor.zero_grad()
    loss.critic.zero_grad()
    sum_terms(loss(make_start(BATCH)).terms).backward()
    networks = (loss.actor, loss.critic)
    return [p.grad.clone() for n in networks for p in n.parameters() if p.grad is not None]


@pytest.mark.parametrize("engine", ["window", "plain"])
def test_nothing_after_the_first_end_trains_anything(engine):
    """Two worlds that differ only from the end frame on give the same gradients."""
    loss = make_loss(
        H, BATCH, told=False, end_at=ENDS, budget=4, decay_horizon=3.0, engine=engine,
        controller={"entropy_weight": 0.5},
    )  # fmt: skip
    index, ends = torch.arange(H + 1), torch.tensor(ENDS)[:, None]
    same = torch.zeros(BATCH, H + 1)
    plain = gradients(loss, same)
    assert len(plain) == len(list(loss.actor.parameters())) + len(list(loss.critic.parameters()))
    after = gradients(loss, torch.where(index >= ends, 0.9, same))
    for a, b in zip(plain, after, strict=True):
        torch.testing.assert_close(a, b, atol=1e-7, rtol=1e-5)
    before = gradients(loss, torch.where((index >= ends - 1) & (index > 0), 0.9, same))
    assert max((a - b).abs().max() for a, b in zip(plain, before, strict=True)) > 1e-4


def test_the_critic_sees_clean_frames_alone_and_each_term_trains_its_own_network():
    loss = make_loss(H, BATCH, told=False, budget=3, decay_horizon=2.0)
    seen = []
    loss.critic.encoder.register_forward_pre_hook(lambda _, args: seen.append(args))
    loss.rng.manual_seed(1)
    imagined = loss.imagine(make_start(BATCH))
    loss.rng.manual_seed(1)
    terms = loss(make_start(BATCH)).terms
    assert len(seen) == len(seen[0]) == 1, "no noise level"
    assert torch.equal(seen[0][0][:, CONTEXT:], imagined.z[-1])
    for name, other in (("actor", loss.critic), ("entropy", loss.critic), ("critic", loss.actor)):
        found = torch.autograd.grad(
            terms[name].total, list(other.parameters()), retain_graph=True, allow_unused=True
        )
        assert all(g is None for g in found), name


def bandit(reward):
    """One decision: the context, an action, a frame."""
    loss = make_loss(1, ACTIONS, told=False, controller={"clean_level": False})
    loss.world.reward.table = torch.tensor([[0.0] * ACTIONS, reward])
    return loss


def test_the_policy_gradient_of_a_bandit_is_that_of_the_expected_reward():
    reward = torch.tensor([1.0, -2.0, 0.5])
    loss, start = bandit(reward.tolist()), make_start(ACTIONS)
    parameters = list(loss.actor.parameters())
    every_action = torch.arange(ACTIONS).view(1, ACTIONS, 1).expand(2, -1, -1)
    imagined = Imagined(torch.zeros(2, ACTIONS, 1, 3, 4, 4), every_action)
    valid = torch.ones(ACTIONS, 1, dtype=torch.bool)
    probs = loss.actor(start.z)[0][0, -1].softmax(-1)
    # Each action's sample gradient, weighted by its probability: the expectation, exactly.
    weighted = reward * probs.detach()
    features = loss.encode(start, imagined, imagined).actor
    terms, _ = loss.actor_terms(start, imagined, features, weighted[:, None], valid)
    sampled = torch.autograd.grad(terms["actor"].total, parameters, allow_unused=True)
    exact = torch.autograd.grad(-(probs * reward).sum(), parameters, allow_unused=True)
    for a, b in zip(sampled, exact, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)
    assert terms["actor"].count == ACTIONS


def test_the_controller_learns_the_best_arm():
    batch = 16
    loss = make_loss(
        4, batch, told=False, budget=2, decay_horizon=2.0, engine="window",
        controller={"entropy_weight": 0.001},
    )  # fmt: skip
    loss.world.reward.table = torch.tensor([[-1.0, 1.0, 0.0]]).expand(5, -1)
    parameters = [*loss.actor.parameters(), *loss.critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    start, lengths = make_start(batch), []
    for _ in range(40):
        losses = loss(start)
        optimizer.zero_grad()
        sum_terms(losses.terms).backward()
        optimizer.step()
        lengths.append(losses.metrics["imagined_return"].item())
    assert sum(lengths[:3]) / 3 < 2.5 and sum(lengths[-5:]) / 5 > 3.5  # the best is 4


def test_without_reward_the_entropy_term_alone_raises_entropy():
    loss, start = make_loss(3, 4, told=False, controller={"entropy_weight": 1.0}), make_start(4)
    loss.world.reward.table = torch.zeros(4, ACTIONS)

    def entropy():
        probs = loss.actor(start.z)[0][:, -1].softmax(-1)
        return -(probs * probs.log()).sum(-1).mean()

    before = entropy().item()
    optimizer = torch.optim.SGD(loss.actor.parameters(), lr=0.1)
    for _ in range(5):
        term = loss(start).terms["entropy"]
        optimizer.zero_grad()
        sum_terms({"entropy": term}).backward()
        optimizer.step()
    assert entropy() > before


class BlendDenoiser(ToldDenoiser):
    """Moves channel 2 by the action of every step: a frame that two actions move lies between."""

    def window(self, z, tau, prev_actions, *, cache, start, real=None):
        v = super().window(z, tau, prev_actions, cache=cache, start=start, real=real)
        v[:, :, 2] = (prev_actions == 1).float()[..., None, None]
        return v


class BlendReward(ToldReward):
    """Pays where channel 2 has moved half of the way, which no single action can do."""

    def forward(self, z, tau=None, state=None, mask=None):
        out, states = super().forward(z, tau, state, mask)
        moved = z[:, :, 2, 0, 0]
        out[..., 0] = symlog(4.0 * ((moved > 0.2) & (moved < 0.8)) * (place(z) > 0))
        return out, states


def in_a_world_that_pays_for_blends(rewarded):
    loss = make_loss(
        4, 32, told=False, budget=4, decay_horizon=3.0, engine="window",
        controller={"entropy_weight": 0.01, "rewarded": rewarded},
    )  # fmt: skip
    loss.world.denoiser.__class__, loss.world.reward.__class__ = BlendDenoiser, BlendReward
    return loss


@pytest.fixture
def still_noise(monkeypatch):
    """Channel 2 starts at zero, so that where a frame starts does not decide what it pays."""
    drawn = controller.sample_draws

    def sample(*args):
        draws = drawn(*args)
        draws.noise[:, :, 2] = 0
        return draws

    monkeypatch.setattr(controller, "sample_draws", sample)


def trained_in(loss, updates=40):
    parameters = [*loss.actor.parameters(), *loss.critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    for _ in range(updates):
        losses = loss(make_start(32))
        optimizer.zero_grad()
        sum_terms(losses.terms).backward()
        optimizer.step()
    return losses.metrics


def test_dreams_pay_a_policy_for_changing_actions_while_frames_are_denoised(still_noise):
    loss = in_a_world_that_pays_for_blends("dream")
    metrics = trained_in(loss)
    assert metrics["imagined_return"] > 6 and metrics["action_changes"] > 0.4, "16 is the most"
    rewards = replayed_reward(loss, make_start(32), torch.Generator().manual_seed(2))
    assert rewards["dreamed_reward"] > 6 and rewards["replayed_reward"] == 0


def test_dreams_that_are_replayed_do_not_pay_for_changing_actions(still_noise):
    loss = in_a_world_that_pays_for_blends("replay")
    assert trained_in(loss)["action_changes"] < 0.1
    rewards = replayed_reward(loss, make_start(32), torch.Generator().manual_seed(2))
    assert rewards["dreamed_reward"] < 2


def test_every_run_measures_what_the_last_actions_of_its_dreams_pay(trained):
    lines = map(json.loads, (trained / "metrics.jsonl").read_text().splitlines())
    names = {"controller/dreamed_reward", "controller/replayed_reward"}
    learned = [line for line in lines if "controller/actor" in line]
    assert learned and all(names <= line.keys() for line in learned)
