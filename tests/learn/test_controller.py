"""The controller's losses by hand, by brute force, and by what must not matter."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered_world import config, learners
from told_world import ACTIONS, CONTEXT, make_loss, make_start

import horizon_imagination.learn.controller as controller_module
from horizon_imagination.config import ControllerConfig, ImaginationConfig
from horizon_imagination.engine.dream import imagine_recorded
from horizon_imagination.imagination import policy_entries
from horizon_imagination.learn.learner import sum_terms
from horizon_imagination.schedules import horizon_schedule

H, BATCH = 5, 12
ENDS = [99, 3, 99, 1, 5, 99, 2, 99, 4, 99, 99, 99]
"""Index of the frame that is an end; 99: none."""


def symlog(x):
    return math.copysign(math.log1p(abs(x)), x)


def symexp(x):
    return math.copysign(math.expm1(abs(x)), x)


def by_hand(loss, actions):
    """Actor, entropy and critic terms in the told world, in plain Python."""
    cfg = loss.config
    values = [symexp(v) for v in loss.critic.table[CONTEXT - 1 :].tolist()]
    returns, steps = {}, []
    for b, row in enumerate(actions.tolist()):
        last = min(ENDS[b], H)  # the step into the end is the last that counts
        g = values[H]
        for t in reversed(range(H)):
            reward = loss.world.reward.table[t + 1, row[t]].item()
            ended = t + 1 == ENDS[b]
            blend = (1 - cfg.lambda_) * values[t + 1] + cfg.lambda_ * g
            g = reward + (0 if ended else cfg.discount * blend)
            returns[b, t] = g
        steps += [(b, t) for t in range(last)]
    low, high = np.percentile([returns[s] for s in steps], [5, 95])
    scale = high - low
    log_probs = loss.actor.table[CONTEXT - 1 :].log_softmax(-1)
    actor = entropy = critic = 0.0
    for b, t in steps:
        advantage = (returns[b, t] - values[t]) / max(1, scale)
        actor -= advantage * log_probs[t, actions[b, t]].item()
        entropy -= sum(math.exp(p) * p for p in log_probs[t].tolist())
        critic += (symlog(values[t]) - symlog(returns[b, t])) ** 2
    return {
        "actor": actor / len(steps), "entropy": entropy / len(steps),
        "critic": critic / len(steps), "scale": scale, "steps": len(steps),
    }  # fmt: skip


def told_loss():
    return make_loss(H, BATCH, end_at=ENDS)


def check_told_world():
    loss, start = told_loss(), make_start(BATCH)
    actions = loss.imagine(start).actions[-1]
    assert len(actions.unique()) == ACTIONS
    loss.rng.manual_seed(1)
    losses = loss(start)
    expected = by_hand(loss, actions)
    means = {name: (term.total / term.count).item() for name, term in losses.terms.items()}
    for name, value in means.items():
        assert value == pytest.approx(expected[name], rel=1e-3), name
    assert loss.return_scale.item() == pytest.approx(expected["scale"], rel=1e-3)
    assert losses.terms["critic"].count == expected["steps"]
    assert losses.terms["actor"].count == 2 * expected["steps"], "moving and clean entries"
    assert losses.terms["entropy"].weight == -loss.config.entropy_weight


def test_all_terms_equal_the_hand_calculation():
    check_told_world()


real_judge, real_values, real_entries, real_until = (
    controller_module.ControllerLoss.judge,
    controller_module.ControllerLoss.values,
    controller_module.entry_logits,
    controller_module.until_first_end,
)


def late_rewards(self, start, imagined):
    out = real_judge(self, start, imagined)
    return out._replace(reward=out.reward.roll(1, dims=1))


def late_ends(self, start, imagined):
    out = real_judge(self, start, imagined)
    return out._replace(terminated=out.terminated.roll(1, dims=1))


def late_values(self, start, features):
    return real_values(self, start, features).roll(-1, dims=1)


def late_logits(actor, plan, schedule, features, mask, imagined):
    logits = real_entries(actor, plan, schedule, features, mask, imagined)
    return logits.roll(1, dims=0)


def valid_too_short(terminated):
    return real_until(terminated) & ~terminated


@pytest.mark.parametrize(
    "where,name,bug",
    [
        (controller_module.ControllerLoss, "judge", late_rewards),
        (controller_module.ControllerLoss, "judge", late_ends),
        (controller_module.ControllerLoss, "values", late_values),
        (controller_module, "entry_logits", late_logits),
        (controller_module, "until_first_end", valid_too_short),
    ],
)
def test_a_shift_by_one_step_fails(where, name, bug, monkeypatch):
    monkeypatch.setattr(where, name, bug)
    with pytest.raises(AssertionError):
        check_told_world()


def test_the_first_action_is_the_policys_at_the_last_context_frame():
    loss, start = told_loss(), make_start(BATCH)
    with torch.no_grad():
        loss.actor.table.fill_(0)
        loss.actor.table[CONTEXT - 1, 2] = 50
        loss.actor.table[CONTEXT - 2, 1] = 50
        loss.actor.table[CONTEXT, 0] = 50
    actions = loss.imagine(start).actions
    assert (actions[:, :, 0] == 2).all() and (actions[-1, :, 1] == 0).all()


def test_values_are_those_of_the_last_context_frame_and_every_imagined_one():
    loss, start = told_loss(), make_start(BATCH)
    imagined = loss.imagine(start)
    features = loss.encode(start, imagined, imagined)
    values = loss.values(start, features.critic)
    assert torch.equal(values[..., 0], loss.critic.table[CONTEXT - 1 :].expand(BATCH, H + 1))


def test_the_return_scale_starts_at_the_first_range_and_follows_slowly():
    loss, start = told_loss(), make_start(BATCH)
    scales = []
    for seed in (1, 2):
        loss.rng.manual_seed(seed)
        actions = loss.imagine(start).actions[-1]
        loss.rng.manual_seed(seed)
        loss(start)
        scales.append(by_hand(loss, actions)["scale"])
    expected = 0.995 * scales[0] + 0.005 * scales[1]
    assert scales[0] != pytest.approx(scales[1], rel=1e-3)
    assert loss.return_scale.item() == pytest.approx(expected, rel=1e-5)


def test_a_first_large_reward_does_not_count_a_hundredfold():
    """After many small returns the average scale is small; the batch's own deviation counts."""
    sizes = {}
    for by_deviation in (False, True):
        loss, start = told_loss(), make_start(BATCH)
        loss.config = replace(loss.config, scale_by_deviation=by_deviation)
        loss.return_scale = torch.tensor(1.0)
        loss.world.reward.table[3, 1] = 1000.0
        loss.rng.manual_seed(1)
        found = loss(start)
        sizes[by_deviation] = abs((found.terms["actor"].total / found.terms["actor"].count).item())
        assert loss.return_scale < 20, "the average itself follows slowly"
    assert sizes[True] < sizes[False] / 20


def replayed(loss, start, imagined):
    """The last actions from the start, by the plain loop; some frames must not be the dream's."""
    context, real = start.world_model_context(1)
    last = imagined.actions[-1]
    again = imagine_recorded(
        loss.world, context, last, imagined.z[0], loss.schedule, real=real, window=False
    )
    assert (again.z[-1] - imagined.z[-1]).abs().max() > 1e-3
    return again


@pytest.mark.parametrize(
    ("clean_level", "rewarded"), [(True, "dream"), (False, "dream"), (True, "replay")]
)
def test_the_loss_equals_brute_force_over_every_row(tmp_path, clean_level, rewarded):
    """Real networks, a sub-frame budget, short contexts: every row evaluated, then masked."""
    cfg = config(
        controller=ControllerConfig(
            shared_encoder=False,  # the actor's gradient alone
            context=5,
            network=config().controller.network,
            clean_level=clean_level,
            rewarded=rewarded,
        ),
        imagination=ImaginationConfig(horizon=6, budget=4, decay_horizon=2.5),
    )
    agent, made = learners(tmp_path, cfg)
    for network in (agent.actor, agent.critic, agent.reward):
        torch.nn.init.normal_(network.head.weight, std=1.0)
    torch.nn.init.normal_(agent.denoiser.modulate.weight, std=0.3)  # it hears its actions
    loss, start = made.controller_loss, made.controller.sample(8)
    assert not start.mask.all()
    loss.rng.manual_seed(3)
    imagined = loss.imagine(start)
    paid = imagined if rewarded == "dream" else replayed(loss, start, imagined)
    outcome = loss.judge(start, paid)
    assert outcome.terminated.any() and outcome.valid.any() and not outcome.valid.all()
    features = loss.encode(start, imagined, paid)
    raw = loss.values(start, features.critic)[..., 0]
    values = torch.tensor([[symexp(v) for v in row] for row in raw.tolist()])
    returns = controller_module.lambda_returns(
        outcome.reward, outcome.terminated, values, discount=0.99, lambda_=0.95
    )
    low, high = np.percentile(returns[outcome.valid].numpy(), [5, 95])
    advantage = (returns - values[:, :-1]) / max(1, high - low)
    schedule = horizon_schedule(6, 4, 2.5)
    entries = policy_entries(schedule, clean_level=clean_level)
    actor, entropy, count = torch.zeros(()), torch.zeros(()), 0
    ahead = torch.ones(8, 5, dtype=torch.bool)
    for row in range(len(schedule)):
        tau = torch.cat([torch.ones(5), schedule[row, :-1]]).expand(8, -1)
        seen = torch.cat([start.z, imagined.z[row, :, :-1]], dim=1)
        logits, _ = agent.actor(seen, tau, None, torch.cat([start.mask, ahead], dim=1))
        log_probs = logits[:, 4:].log_softmax(-1)
        counted = outcome.valid & entries[row]
        chosen = log_probs.gather(-1, imagined.actions[row].clamp(min=0)[..., None])[..., 0]
        actor = actor - (chosen * advantage * counted).sum()
        entropy = entropy - ((log_probs.exp() * log_probs).sum(-1) * counted).sum()
        count += int(counted.sum())
    parameters = list(agent.actor.parameters())
    brute = torch.autograd.grad((actor - 0.001 * entropy) / count, parameters)

    loss.rng.manual_seed(3)
    terms = loss(start).terms
    assert terms["actor"].count == count == terms["entropy"].count
    torch.testing.assert_close(terms["actor"].total, actor, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(terms["entropy"].total, entropy, atol=1e-4, rtol=1e-4)
    for a, b in zip(torch.autograd.grad(sum_terms(terms), parameters), brute, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-3)


def test_the_figures_tell_what_was_imagined():
    loss, start = told_loss(), make_start(BATCH)
    metrics = loss(start).metrics
    steps = [min(end, H) for end in ENDS]
    assert metrics["imagined_length"].item() == pytest.approx(sum(steps) / BATCH)
    assert metrics["ended"].item() == pytest.approx(sum(end <= H for end in ENDS) / BATCH)
    assert metrics["late_changes"] == 0, "autoregressive actions settle at once"


def information(probs, counted):
    return (
        told_loss()
        .state_action_information(probs, torch.special.entr(probs).sum(-1), counted)
        .item()
    )


def test_state_action_information_is_the_entropy_of_the_mean_policy_minus_the_mean_entropy():
    two = torch.tensor([[[0.8, 0.2], [0.4, 0.6]]])
    counted = torch.ones(1, 2, dtype=torch.bool)
    entropy = lambda *probs: -sum(p * math.log(p) for p in probs)  # noqa: E731
    by_hand = entropy(0.6, 0.4) - (entropy(0.8, 0.2) + entropy(0.4, 0.6)) / 2
    assert information(two, counted) == pytest.approx(by_hand, abs=1e-6)
    assert information(two, torch.tensor([[True, False]])) == pytest.approx(0, abs=1e-6)


@given(st.integers(2, 8), st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_state_action_information_lies_between_a_blind_policy_and_one_action_per_state(
    actions, seed
):
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(1, actions, actions, generator=rng)
    counted = torch.ones(1, actions, dtype=torch.bool)
    assert -1e-6 <= information(logits.softmax(-1), counted) <= math.log(actions)
    blind = logits[:, :1].expand_as(logits).softmax(-1)
    assert information(blind, counted) == pytest.approx(0, abs=1e-5)
    each_its_own = torch.eye(actions)[None]
    assert information(each_its_own, counted) == pytest.approx(math.log(actions), rel=1e-4)


@pytest.mark.parametrize("context", [1, 2])
def test_the_reward_model_begins_where_the_world_model_does(context):
    loss, start = make_loss(H, BATCH, told=False, context=context), make_start(BATCH)
    loss.world.reward.table = torch.zeros(H + context, ACTIONS)
    seen = []
    loss.world.reward.register_forward_pre_hook(lambda _, args: seen.append(args))
    imagined = loss.imagine(start)
    loss.judge(start, imagined)
    z, tau, state, _ = seen[0]
    assert tau is None and state is None
    assert torch.equal(z, torch.cat([start.z[:, -context:], imagined.z[-1]], dim=1))


def test_imagined_ends_are_sampled_from_their_probability(monkeypatch):
    """Not read off at one half, which would never end an episode that ends one time in three."""
    loss, start = make_loss(H, BATCH, told=False), make_start(BATCH)
    imagined = loss.imagine(start)
    logits = torch.tensor([0.0, math.log(0.3 / 0.7)]).expand(BATCH, H + 1, 2)
    said = torch.zeros(BATCH, H + 1), logits
    monkeypatch.setattr(loss.world.reward, "predict", lambda *_: said)
    ends = torch.stack([loss.judge(start, imagined).terminated for _ in range(500)])
    assert ends.float().mean().item() == pytest.approx(0.3, abs=0.03)
