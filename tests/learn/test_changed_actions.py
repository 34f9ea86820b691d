"""Frames that were begun under other actions, and what a denoiser learns from them."""

from dataclasses import replace

import pytest
import torch
from einops import rearrange
from test_world_model import REWARD_SHAPE, experience, make_denoiser

from horizon_imagination.config import DenoiserConfig, WorldModelConfig
from horizon_imagination.flow import interpolate, uniform_noise
from horizon_imagination.imagination import Context, imagine, recorded_actor
from horizon_imagination.learn.learner import sum_terms
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.learn.world_model import (
    begun_otherwise,
    changed_frames,
    denoiser_terms,
    with_changes,
    world_model_loss,
)
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.schedules import horizon_schedule

CLEAN = DenoiserConfig(loss_weight="noise_squared")
CHANGED = WorldModelConfig(segment_length=4, horizon_times=1.0, change_every=2)


def towards_the_action(z, tau, actions):
    """The velocity to a frame whose every pixel is a tenth of the action."""
    goal = (actions / 10)[..., None, None, None].float()
    return (goal - z) / (1 - tau).clamp(min=1e-4)[..., None, None, None]


def test_a_frame_is_begun_where_the_other_action_leads():
    rng = torch.Generator().manual_seed(0)
    batch = experience(3, 4, rng)
    noise = uniform_noise(*batch.z.shape, rng=rng)
    tau = torch.tensor([[1.0, 0.25, 0.5, 0.0], [1.0, 0.9, 0.1, 0.0], [0.3, 0.3, 0.3, 0.3]])
    begun = torch.tensor([[0, 1, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0]]).bool()
    others = torch.full_like(batch.prev_actions, 7)
    found = begun_otherwise(towards_the_action, batch, tau, noise, others, begun)
    assert torch.equal(found[~begun], noise[~begun])
    noisy = interpolate(found, batch.z, tau)
    by_hand = 0.75 * float(noise[0, 1, 0, 0, 0]) + 0.25 * 0.7
    assert float(noisy[0, 1, 0, 0, 0]) == pytest.approx(by_hand, abs=1e-6)
    expected = interpolate(noise, torch.full_like(batch.z, 0.7), tau)
    torch.testing.assert_close(noisy[begun], expected[begun])
    left = (1 - tau)[..., None, None, None]
    straight = (batch.z - noisy) / left
    torch.testing.assert_close((batch.z - found)[begun], straight[begun])


def of_an_additive_world(coin, rng):
    """Segments whose frames are a tenth of the action plus a coin, and what each would be else."""
    batch = experience(*coin.shape, rng)
    brought = rearrange(coin, "b t -> b t 1 1 1").expand_as(batch.z)

    def led(actions):
        return rearrange(actions / 10, "b t -> b t 1 1 1") + brought

    return batch._replace(z=led(batch.prev_actions)), led


def test_by_effect_a_frame_is_what_the_other_action_would_have_led_to_with_the_same_chance():
    """In a world where action and chance add up, and the denoiser knows the mean of chance."""
    rng = torch.Generator().manual_seed(0)
    batch, led = of_an_additive_world(torch.randn(3, 4, generator=rng), rng)
    noise, tau = uniform_noise(*batch.z.shape, rng=rng), torch.rand(3, 4, generator=rng)
    begun = torch.rand(3, 4, generator=rng) < 0.5
    others = batch.prev_actions.roll(1, 0)
    found = begun_otherwise(towards_the_action, batch, tau, noise, others, begun, "effect")
    shown = torch.where(begun[..., None, None, None], led(others), batch.z)
    torch.testing.assert_close(interpolate(found, batch.z, tau), interpolate(noise, shown, tau))
    assert torch.equal(found[~begun], noise[~begun])


def test_by_frame_nothing_tells_what_chance_has_brought_and_by_effect_it_shows():
    """So by frame the best guess of an uncertain thing stays its mean, however late the time."""
    rng = torch.Generator().manual_seed(0)
    coin = torch.randint(0, 2, (400, 2), generator=rng).float()
    batch, _ = of_an_additive_world(coin, rng)
    noise, tau = uniform_noise(*batch.z.shape, rng=rng), torch.full((400, 2), 0.8)
    begun, others = torch.ones(400, 2).bool(), batch.prev_actions.roll(1, 0)

    def told(by):
        found = begun_otherwise(towards_the_action, batch, tau, noise, others, begun, by)
        seen = interpolate(found, batch.z, tau).mean((2, 3, 4)) - 0.8 * others / 10
        return torch.corrcoef(torch.stack([seen.flatten(), coin.flatten()]))[0, 1].item()

    assert abs(told("frame")) < 0.1
    assert told("effect") > 0.9


def test_the_other_action_is_seen_in_the_frame_alone_that_was_begun_with_it():
    rng = torch.Generator().manual_seed(0)
    batch, seen = experience(2, 4, rng), []

    def denoiser(z, tau, actions):
        seen.append((z, tau, actions))
        return torch.zeros_like(z)

    noise, tau = uniform_noise(*batch.z.shape, rng=rng), torch.full((2, 4), 0.5)
    begun = torch.tensor([[False, True, False, True]]).expand(2, -1)
    begun_otherwise(denoiser, batch, tau, noise, torch.full((2, 4), 5), begun)
    ((z, times, actions),) = seen
    assert torch.equal(times, torch.tensor([[0.5, 0.0, 0.5, 0.0]]).expand(2, -1))
    assert torch.equal(actions[:, 1::2], torch.full((2, 2), 5))
    assert torch.equal(actions[:, ::2], batch.prev_actions[:, ::2])
    assert torch.equal(z[:, 1::2], noise[:, 1::2])
    torch.testing.assert_close(z[:, ::2], (noise + batch.z)[:, ::2] / 2)


@pytest.mark.parametrize("every", [1, 3])
def test_half_of_the_noisy_frames_of_one_sample_in_so_many_change(every):
    rng = torch.Generator().manual_seed(0)
    batch = experience(300, 5, rng)
    noise = uniform_noise(*batch.z.shape, rng=rng)
    tau = torch.tensor([1.0, 0.8, 0.6, 0.4, 0.2]).expand(300, -1)
    begun = changed_frames(tau, every, rng)
    assert not begun[:, 0].any()
    assert begun[::every, 1:].float().mean().item() == pytest.approx(0.5, abs=0.06)
    begun[::every] |= tau[::every] < 0.3
    assert begun.any(1).tolist() == [row % every == 0 for row in range(300)]
    others, rows = torch.full_like(batch.prev_actions, 7), slice(None, None, every)
    found = with_changes(towards_the_action, batch, tau, noise, others, begun, rows)
    assert found.isfinite().all()
    assert torch.equal((found != noise).flatten(2).any(-1), begun)


@pytest.mark.parametrize(
    ("samples", "world", "every"), [(8, 2, 2), (7, 3, 2), (4, 4, 2), (9, 2, 3)]
)
def test_ranks_begin_the_frames_of_one_process(samples, world, every):
    """Each its own rows; some may have none."""
    rng, lengths = torch.Generator().manual_seed(0), []

    def denoiser(z, tau, actions):
        lengths.append(len(z))
        return torch.zeros_like(z) if len(z) else pytest.fail("asked about nothing")

    def loss(ranks):
        rng.manual_seed(1)
        batch = experience(samples, 4, rng)
        noise, tau = uniform_noise(*batch.z.shape, rng=rng), torch.full((samples, 4), 0.5)
        begun = changed_frames(tau, every, rng)
        own = ranks.share((batch, tau, noise, batch.prev_actions.roll(1, 0), begun))
        rows = slice(-ranks.rows(samples).start % every, None, every)
        return with_changes(denoiser, *own, rows)

    whole = loss(Ranks())
    asked = sum(lengths)
    lengths.clear()
    parts = [loss(Ranks(rank, world)) for rank in range(world)]
    torch.testing.assert_close(torch.cat(parts), whole)
    assert sum(lengths) == asked == -(-samples // every)


def test_under_a_uniform_weight_changed_frames_count_by_their_clean_error():
    rng, net = torch.Generator().manual_seed(0), make_denoiser()
    batch = experience(2, 3, rng)
    noise, tau = uniform_noise(*batch.z.shape, rng=rng), torch.tensor([[1.0, 0.5, 0.2]] * 2)
    begun = torch.tensor([[False, True, False], [False, False, False]])
    v = net(interpolate(noise, batch.z, tau), tau, batch.prev_actions)
    error = (v - (batch.z - noise)).square().mean((2, 3, 4))
    by_hand = error[0, 1] / 4 + error[0, 2] + error[1, 1] + error[1, 2]
    term = denoiser_terms(net, DenoiserConfig(), batch, tau, noise, begun=begun)["denoiser"]
    torch.testing.assert_close(term.total, by_hand)
    clean = (denoiser_terms(net, CLEAN, batch, tau, noise, begun=x) for x in (begun, None))
    assert len({terms["denoiser"].total.item() for terms in clean}) == 1


def wrong_frames(every, steps=400):
    """Share of wrong frames in dreams of a world of two states, as actions stay and as they
    change after their frames have begun."""
    rng, denoiser = torch.Generator().manual_seed(0), make_denoiser()
    torch.manual_seed(1)
    model, cfg = RewardModel(**REWARD_SHAPE), replace(CHANGED, change_every=every)
    optimizer = torch.optim.Adam(denoiser.parameters(), lr=3e-3)
    for _ in range(steps):
        losses = world_model_loss(denoiser, model, cfg, CLEAN, 1, rng, experience(32, 4, rng))
        optimizer.zero_grad()
        losses.terms["denoiser"].total.div(losses.terms["denoiser"].count).backward()
        optimizer.step()
    batch = experience(256, 4, rng)
    noise, schedule = uniform_noise(256, 3, 1, 2, 2, rng=rng), horizon_schedule(3, 6, 2.0)
    start = Context(batch.z[:, :1], batch.prev_actions[:, :1])
    actions = batch.prev_actions[:, 1:]

    # The other action until a frame is half clean.
    changing = [torch.where(tau < 0.5, 1 - actions, actions)[:, 1:] for tau in schedule]
    found, first = [], actions[:, 0]
    for given in (actions[:, 1:], changing):
        actor = recorded_actor(given)
        dream = imagine(denoiser, actor, noise, schedule, context=start, first_action=first)
        off = (dream.z[-1] - batch.z[:, 1:]).abs().mean((2, 3, 4)) > 0.5
        found.append(off[:, 1:].float().mean().item())
    return found


def test_a_denoiser_learns_that_the_last_action_counts():
    (still, changing), (still_too, heard) = wrong_frames(0), wrong_frames(1)
    assert still < 0.05 and still_too < 0.05
    assert heard < 0.1 * changing and changing > 0.2


def test_gradients_are_whole_in_half_precision():
    """Weights that were converted without gradients must not lose theirs."""
    gradients = []
    for half in (False, True):
        rng, denoiser = torch.Generator().manual_seed(0), make_denoiser()
        torch.nn.init.normal_(denoiser.modulate.weight, std=0.02)
        torch.manual_seed(0)
        model, batch = RewardModel(**REWARD_SHAPE), experience(8, 4, rng)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            terms = world_model_loss(denoiser, model, CHANGED, CLEAN, 1, rng, batch).terms
        sum_terms(terms).backward()
        gradients.append({name: p.grad for name, p in denoiser.named_parameters()})
    for name, full in gradients[0].items():
        found = gradients[1][name]
        assert full is not None and found is not None, name
        assert float((found - full).norm()) < 0.3 * float(full.norm()), name


def test_a_number_below_zero_is_refused():
    with pytest.raises(ValueError, match=r"change_every \(-1\) must be at least 0"):
        replaced(DEBUG, world_model={"change_every": -1})
