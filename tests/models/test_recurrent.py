"""Actor, critic and reward model: the LSTM, its padding, times and priors."""

import dataclasses

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.config import Config, ControllerConfig
from horizon_imagination.models.actor_critic import Actor, Critic
from horizon_imagination.models.recurrent import (
    LSTM,
    RecurrentState,
    noise_features,
    smooth_noise_features,
)
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.networks import build_controller
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.returns import symexp

SHAPE = {
    "channels": 2, "size": 4, "cnn_channels": 8, "cnn_out_channels": 4, "hidden": 6,
    "normalize": False,
}  # fmt: skip


def make_actor(**changes):
    torch.manual_seed(0)
    return Actor(**(SHAPE | {"outputs": 3, "use_tau": True} | changes))


def latents(batch=2, frames=5, seed=1):
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(batch, frames, 2, 4, 4, generator=rng) * 2 - 1


def random_state(batch=2, hidden=6):
    rng = torch.Generator().manual_seed(2)
    return RecurrentState(*torch.randn(2, batch, hidden, generator=rng))


def test_the_lstm_equals_torchs_with_the_same_weights():
    torch.manual_seed(0)
    mine, theirs = LSTM(7, 6), torch.nn.LSTM(7, 6, batch_first=True)
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(mine, name).copy_(getattr(theirs, f"{name}_l0"))
    x, state = torch.randn(2, 5, 7), random_state()
    states = mine(x, state)
    out, (h, c) = theirs(x, (state.h[None], state.c[None]))
    torch.testing.assert_close(states.h, out)
    torch.testing.assert_close(states.at(-1).h, h[0])
    torch.testing.assert_close(states.at(-1).c, c[0])


def test_a_state_after_each_frame_continues_the_sequence():
    actor, z = make_actor(), latents()
    whole, states = actor(z)
    for cut in range(1, 5):
        rest, _ = actor(z[:, cut:], None, states.at(cut - 1))
        torch.testing.assert_close(rest, whole[:, cut:])


def test_padding_leaves_the_state_as_it_is():
    actor, z, state = make_actor(), latents(), random_state()
    mask = torch.tensor([[False, False, True, True, True], [True, False, True, True, False]])
    logits, states = actor(z, None, state, mask)
    assert torch.equal(states.h[0, 1], state.h[0]) and torch.equal(states.c[0, 1], state.c[0])
    assert torch.equal(states.h[1, 1], states.h[1, 0])
    assert torch.equal(states.c[1, 4], states.c[1, 3])
    alone, _ = actor(z[:1, 2:], None, RecurrentState(state.h[:1], state.c[:1]))
    torch.testing.assert_close(logits[:1, 2:], alone)


def test_padding_has_no_gradient():
    actor, z = make_actor(), latents().requires_grad_()
    mask = torch.tensor([[False, False, True, True, True]]).expand(2, -1)
    logits, _ = actor(z, None, None, mask)
    (grad,) = torch.autograd.grad(logits[:, 2:].square().sum(), z)
    assert (grad[:, :2] == 0).all() and (grad[:, 2:].abs().sum((2, 3, 4)) > 0).all()


def test_no_frame_sees_the_future():
    actor, z = make_actor(), latents().requires_grad_()
    logits, _ = actor(z)
    (grad,) = torch.autograd.grad(logits[:, 2].square().sum(), z)
    assert (grad[:, 3:] == 0).all() and (grad[:, :3].abs().sum((2, 3, 4)) > 0).all()


def test_the_actor_hears_the_time_unless_told_not_to():
    z, noisy = latents(), torch.full((2, 5), 0.3)
    with_tau, without = make_actor(), make_actor(use_tau=False)
    assert (with_tau(z, noisy)[0] - with_tau(z)[0]).abs().max() > 1e-3
    assert torch.equal(without(z, noisy)[0], without(z)[0])
    assert torch.equal(with_tau(z, torch.ones(2, 5))[0], with_tau(z)[0])  # default: clean


def test_clean_frames_are_told_nothing_of_noise():
    actor = make_actor()
    z, clean, half = latents(), torch.ones(2, 5), torch.full((2, 5), 0.5)
    before = actor(z, clean)[0], actor(z, half)[0]
    with torch.no_grad():
        actor.encoder.tau.weight.mul_(3)
    assert torch.equal(before[0], actor(z, clean)[0])
    assert not torch.allclose(before[1], actor(z, half)[0])


def test_a_new_actor_of_the_paper_sees_small_changes_of_a_static_scene():
    """Without statistics the scene is a constant 25 times as large as what moves in it."""
    torch.manual_seed(0)
    network = dataclasses.asdict(ControllerConfig().network)
    del network["readout"]  # the critic's
    actor = Actor(channels=16, size=8, outputs=8, use_tau=True, **network)
    scene = torch.rand(16, 8, 8) * 1.6 - 0.8
    z = scene + 0.15 * torch.randn(8, 12, 16, 8, 8)
    if actor.encoder.statistics:
        actor.encoder.statistics.update(z, torch.ones(8, 12, dtype=torch.bool))
    with torch.no_grad():
        h = actor(z)[1].h[:, 4:].flatten(0, 1)
    constant, moving = h.mean(0).norm(), (h - h.mean(0)).norm(dim=-1).mean()
    assert moving > constant / 3


def test_smooth_features_of_time_vanish_at_clean_frames_and_change_slowly_near_them():
    """A nearly clean frame (63/64) gets a small part of what pure noise gets; sinusoids of
    1000 tau give it most of that."""
    tau = torch.tensor([[1.0, 63 / 64, 0.5, 0.0]])
    smooth, sharp = smooth_noise_features(tau)[0], noise_features(tau)[0]
    assert smooth[0].abs().max() == 0 and smooth.shape == (4, 16)
    assert smooth[1].norm() < 0.15 * smooth[3].norm() < sharp[1].norm()
    assert sharp[1].norm() > 0.5 * sharp[3].norm()
    # by hand: k = 1 at pure noise is a quarter turn
    assert smooth[3, 0].item() == pytest.approx(1) and smooth[3, 8].item() == pytest.approx(1)


def test_an_actor_with_smooth_time_starts_by_hearing_little_of_it():
    torch.manual_seed(0)
    loud = Actor(outputs=3, use_tau=True, **SHAPE).encoder
    torch.manual_seed(0)
    quiet = Actor(outputs=3, use_tau=True, smooth_tau=True, **SHAPE).encoder
    half = torch.full((1, 1), 0.5)
    assert quiet.tau(quiet.features(half)).norm() < 0.3 * loud.tau(loud.features(half)).norm()


def pushed(center: bool):
    """Features of frames, mean and movement, after steps of Adam that ask for one larger output."""
    torch.manual_seed(0)
    shape = {"channels": 16, "size": 8, "cnn_channels": 16, "cnn_out_channels": 64, "hidden": 64}
    critic = Critic(**shape, normalize=True, center=center)
    z = torch.rand(1, 1, 16, 8, 8) + 0.1 * torch.rand(2, 10, 16, 8, 8)  # a nearly static scene
    mask = torch.ones(2, 10, dtype=torch.bool)
    optimizer = torch.optim.Adam(critic.parameters(), 3e-4)
    for _ in range(30):
        critic.encoder.follow(z, mask)
        (critic(z)[0].mean() - 5).square().backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        features = critic.encoder(z, torch.ones(2, 10)).flatten(0, 1)
        mean = features.mean(0)
        return mean.norm().item(), (features - mean).norm(dim=-1).mean().item()


def test_centred_features_do_not_drift_where_learning_asks_for_a_constant():
    """A critic whose values are all too low: without centring, its features drift away together."""
    mean, moving = pushed(center=False)
    assert mean > 10 * moving
    centred_mean, centred_moving = pushed(center=True)
    assert centred_mean < 3 * centred_moving


def test_centred_features_have_no_mean_and_padding_does_not_count():
    actor, z = make_actor(center=True), latents()
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    actor.encoder.follow(torch.where(mask[..., None, None, None], z, 1e3), mask)
    statistics = actor.encoder.center
    flat = actor.encoder.cnn(z.flatten(0, 1))[mask.flatten()]
    torch.testing.assert_close(statistics.mean, flat.mean(0))
    centred = statistics.normalize(flat)
    torch.testing.assert_close(centred.mean(0), torch.zeros(64), atol=1e-5, rtol=0)
    assert centred.square().mean().item() == pytest.approx(1, rel=1e-4)


def test_the_config_says_whether_actor_and_critic_centre_their_features():
    for center in (False, True):
        cfg = Config(controller=ControllerConfig(center_features=center))
        for network in build_controller(cfg, 3, channels=2, size=4):
            assert (network.encoder.center is not None) == center


def test_the_critic_and_the_reward_model_hear_no_time():
    torch.manual_seed(0)
    assert Critic(**SHAPE).encoder.tau is None and RewardModel(**SHAPE).encoder.tau is None


def test_heads_keep_the_digits_that_half_precision_would_drop():
    torch.manual_seed(0)
    critic = Critic(**SHAPE)
    with torch.no_grad():
        critic.head.bias.fill_(5.0)  # a value of 147: its neighbours in bfloat16 are 143 and 152
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values, _ = critic(latents())
    assert values.dtype == torch.float32
    assert not torch.equal(values, values.bfloat16().float())
    full, _ = critic(latents())
    torch.testing.assert_close(values, full, atol=4e-3, rtol=0)


def test_frames_that_are_encoded_already_give_the_same_also_in_half_precision():
    actor, z = make_actor(), latents()
    mask = torch.tensor([[True] * 5, [False, False, True, True, True]])
    for half in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            said, states = actor(z, torch.ones(2, 5), None, mask)
            again, same = actor.from_features(actor.encoder(z), None, mask)
        assert same.c.dtype == torch.float32
        for a, b in zip((said, *states), (again, *same), strict=True):
            assert torch.equal(a, b)


def test_the_bias_is_the_prior_of_the_policy():
    actor = make_actor(bias=(0.0, 2.0, -1.0))
    with torch.no_grad():
        actor.head.weight.zero_()
        probs = actor.policy(latents(), torch.ones(2, 5), random_state())
    expected = torch.tensor([0.0, 2.0, -1.0]).softmax(0)
    torch.testing.assert_close(probs, expected.expand(2, 5, 3))


def test_a_bias_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="actor_bias has 2 numbers, the environment has 3"):
        make_actor(bias=(0.0, 1.0))


def test_acting_draws_from_the_policy_and_greedy_takes_its_mode():
    actor = make_actor()
    torch.nn.init.normal_(actor.head.weight, std=2.0)
    z, state = latents(1, 1), random_state(1)
    probs = actor.policy(z, torch.ones(1, 1), state)[0, 0].detach()
    many = RecurrentState(state.h.expand(4000, -1), state.c.expand(4000, -1))
    rng = torch.Generator().manual_seed(3)
    actions, after = actor.act(z.expand(4000, -1, -1, -1, -1), many, rng)
    share = torch.bincount(actions, minlength=3) / 4000
    assert (share - probs).abs().max() < 0.03
    greedy, _ = actor.act(z, state, rng, greedy=True)
    assert greedy.item() == probs.argmax().item()
    torch.testing.assert_close(after.h[:1], actor(z, None, state)[1].h[:, -1])


def test_the_reward_model_splits_its_head_into_reward_and_end():
    torch.manual_seed(0)
    model, z = RewardModel(**SHAPE), latents()
    reward, end = model.predict(z)
    out, _ = model(z)
    assert torch.equal(reward, symexp(out[..., 0])) and torch.equal(end, out[..., 1:])
    assert end.shape == (2, 5, 2)


def test_a_policy_exported_with_the_zero_state_acts_like_the_network_for_fifty_steps():
    """An export takes one tensor given twice for one input: output and cell must be two."""

    class OneStep(torch.nn.Module):
        def __init__(self, actor):
            super().__init__()
            self.lstm, self.head = actor.lstm, actor.head

        def forward(self, x, h, c):
            states = self.lstm(x, RecurrentState(h, c))
            return self.head(states.h), states.h[:, -1], states.c[:, -1]

    actor, x = make_actor(), torch.randn(50, 2, 1, 6)
    zero = actor.lstm.zero_state(2, x)
    with torch.no_grad():
        exported = torch.export.export(OneStep(actor), (x[0], *zero)).module()
        mine, theirs = zero, zero
        for features in x:
            logits, *mine = OneStep(actor)(features, *mine)
            found, *theirs = exported(features, *theirs)
            torch.testing.assert_close(found, logits)


def test_an_agent_with_centred_features_is_saved_with_their_statistics(tmp_path):
    config = replaced(DEBUG, controller={"center_features": True})
    agent = Agent(config, 3, torch.device("cpu"))
    z = 2 * torch.rand(2, 5, *agent.latent_shape) - 1
    for network in (agent.actor, agent.critic):
        network.encoder.follow(z, torch.ones(2, 5, dtype=torch.bool))
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent", "cpu")
    assert again.actor.encoder.center.steps == 1
    assert torch.equal(agent.actor(z)[0], again.actor(z)[0])
    assert torch.equal(agent.critic(z)[0], again.critic(z)[0])
