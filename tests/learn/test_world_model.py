"""The losses of denoiser and reward model, and that they learn what they should."""

import pytest
import torch
from numbered_world import config, learner

from horizon_imagination.config import DenoiserConfig, WorldModelConfig
from horizon_imagination.flow import trainable, uniform_noise
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learner import Learner
from horizon_imagination.learn.tokenizer import tokenizer_loss
from horizon_imagination.learn.world_model import (
    Experience,
    denoiser_terms,
    reward_terms,
    sample_training_times,
    world_model_loss,
)
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.models.tokenizer import Tokenizer
from horizon_imagination.schedules import horizon_schedule

CFG = DenoiserConfig()
REWARD_SHAPE = {
    "channels": 1, "size": 2, "cnn_channels": 8, "cnn_out_channels": 4, "hidden": 16,
    "normalize": False,
}  # fmt: skip


def experience(batch, frames, rng, channels=1, size=2):
    """Two states: action 1 flips, action 0 stays; a flip is worth its new sign."""
    action = torch.randint(2, (batch, frames), generator=rng)
    first = torch.randint(2, (batch, 1), generator=rng)
    state = (first + torch.nn.functional.pad(action[:, :-1], (1, 0)).cumsum(1)) % 2
    z = (state - 0.5)[..., None, None, None].expand(-1, -1, channels, size, size)
    reward = action * (1 - 2 * state).float() * 3
    previous = torch.nn.functional.pad(action[:, :-1], (1, 0), value=-1)
    real = torch.ones(batch, frames, dtype=torch.bool)
    return Experience(z, action, previous, reward, torch.zeros_like(real), real)


def make_denoiser():
    torch.manual_seed(0)
    return Denoiser(
        channels=1, size=2, action_space=2, layers=2, heads=2, head_dim=16, patch_size=2,
        mlp_ratio=2, prediction="velocity", action_tokens=False, normalize=False,
    )  # fmt: skip


def test_the_denoisers_loss_by_hand_over_frames_that_teach():
    rng = torch.Generator().manual_seed(0)
    batch, net = experience(3, 4, rng), make_denoiser()
    mask = batch.mask.clone()
    mask[0, 3] = False
    batch = batch._replace(mask=mask)
    tau = torch.tensor([[1.0, 0.2, 0.5, 0.1], [0.0, 1.0, 0.9, 0.3], [0.4, 0.4, 0.4, 0.4]])
    noise = uniform_noise(*batch.z.shape, rng=rng)
    t = tau[..., None, None, None]
    v = net(t * batch.z + (1 - t) * noise, tau, batch.prev_actions)
    error = (v - (batch.z - noise)).square().mean((2, 3, 4))
    teaches = mask & (tau < 1)
    term = denoiser_terms(net, CFG, batch, tau, noise)["denoiser"]
    assert term.count == 9
    torch.testing.assert_close(term.total, error[teaches].sum())
    weighted = DenoiserConfig(loss_weight="noise_squared")
    term = denoiser_terms(net, weighted, batch, tau, noise)["denoiser"]
    torch.testing.assert_close(term.total, (error * (1 - tau) ** 2)[teaches].sum())


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_pure_noise_far_ahead_teaches_nothing(ahead):
    rng = torch.Generator().manual_seed(0)
    batch, net = experience(2, 6, rng), make_denoiser()
    tau = torch.tensor([[1.0, 0.6, 0.1, 0.0, 0.0, 0.0], [0.3, 0.7, 0.2, 0.9, 0.4, 0.5]])
    noise = uniform_noise(*batch.z.shape, rng=rng)
    arguments = {"noise": noise, "noise_ahead": ahead}
    spoiled = batch._replace(z=batch.z.clone())
    spoiled.z[0, 3 + ahead :] = 7.0
    term, same = (
        denoiser_terms(net, CFG, x, tau, **arguments)["denoiser"] for x in (batch, spoiled)
    )
    assert term.count == 2 + ahead + 6, "independent times teach at every frame"
    torch.testing.assert_close(term.total, same.total)
    whole = denoiser_terms(net, CFG, spoiled, tau, noise)["denoiser"]
    assert whole.total > 2 * term.total


@pytest.mark.parametrize(
    ("horizon", "budget", "decay"), [(32, 16, 4.0), (16, 8, 4.0), (32, 32, 1.0)]
)
def test_three_frames_of_noise_ahead_are_what_imagination_asks_for(horizon, budget, decay):
    """Every frame that a row of the schedule moves is one that teaches."""
    schedule = horizon_schedule(horizon, budget, decay)
    moved = schedule[1:] > schedule[:-1]
    taught = trainable(schedule[:-1], torch.ones_like(moved), noise_ahead=3)
    assert (taught | ~moved).all()
    assert not trainable(schedule[:1], torch.ones_like(moved[:1]), noise_ahead=3)[:, 3:].any()


def test_the_config_says_how_much_noise_ahead_teaches():
    counts = []
    for ahead in (None, 1):
        rng = torch.Generator().manual_seed(0)
        cfg = WorldModelConfig(horizon_times=1.0, noise_ahead=ahead)
        batch, model = experience(50, 9, rng), RewardModel(**REWARD_SHAPE)
        found = world_model_loss(make_denoiser(), model, cfg, CFG, 1, rng, batch)
        counts.append(int(found.terms["denoiser"].count))
    assert counts[1] < 0.7 * counts[0], counts


def test_padding_teaches_nothing():
    rng = torch.Generator().manual_seed(0)
    batch, net = experience(3, 5, rng), make_denoiser()
    torch.manual_seed(0)
    model = RewardModel(**REWARD_SHAPE)
    mask = torch.arange(5) < torch.tensor([[5], [3], [2]])
    spoiled = batch._replace(
        z=torch.where(mask[..., None, None, None], batch.z, torch.tensor(7.0)),
        reward=torch.where(mask, batch.reward, torch.tensor(99.0)),
        mask=mask,
    )
    noise, tau = uniform_noise(*batch.z.shape, rng=rng), torch.rand(3, 5, generator=rng)
    for part in (
        lambda x: denoiser_terms(net, CFG, x, tau, noise),
        lambda x: reward_terms(model, x)[0],
    ):
        clean, dirty = part(batch._replace(mask=mask)), part(spoiled)
        for name, term in clean.items():
            torch.testing.assert_close(term.total, dirty[name].total)
            assert term.count == dirty[name].count


@pytest.mark.parametrize("context", [1, 3])
def test_times_are_independent_or_shaped_like_a_sweep(context):
    rng = torch.Generator().manual_seed(0)
    swept = sample_training_times(500, 9, context, WorldModelConfig(horizon_times=1.0), rng)
    assert (swept[:, :context] == 1).all()
    assert (swept[:, context:].diff(dim=1) <= 0).all(), "later frames are never cleaner"
    free = sample_training_times(500, 9, context, WorldModelConfig(clean_prob=0.0), rng)
    assert free.mean().item() == pytest.approx(0.5, abs=0.02) and (free < 1).all()
    mixed = sample_training_times(
        2000, 9, context, WorldModelConfig(horizon_times=0.5, clean_prob=0.0), rng
    )
    share = (mixed[:, context:].diff(dim=1) <= 0).all(1).float().mean().item()
    assert share == pytest.approx(0.5, abs=0.05)


def test_a_frozen_denoiser_is_left_out():
    rng = torch.Generator().manual_seed(0)
    model = RewardModel(**REWARD_SHAPE)
    arguments = (WorldModelConfig(), CFG, 1, rng, experience(2, 4, rng))
    assert set(world_model_loss(None, model, *arguments).terms) == {"reward", "end"}
    both = world_model_loss(make_denoiser(), model, *arguments)
    assert set(both.terms) == {"reward", "end", "denoiser"}


def test_statistics_follow_the_clean_latents():
    rng = torch.Generator().manual_seed(0)
    model = RewardModel(**(REWARD_SHAPE | {"normalize": True}))
    batch = experience(16, 4, rng)
    world_model_loss(None, model, WorldModelConfig(), CFG, 1, rng, batch)
    assert model.encoder.statistics is not None
    torch.testing.assert_close(model.encoder.statistics.mean, batch.z.mean((0, 1)))


def train(name, cfg, sample, loss, networks, folder, steps):
    parameters = {key: list(net.parameters()) for key, net in networks.items()}
    made = Learner(name, cfg, sample, loss, parameters, Guard(folder, every=1))
    return [made.step() for _ in range(steps)]


def test_the_world_model_learns_a_world_of_two_states(tmp_path):
    rng = torch.Generator().manual_seed(0)
    denoiser = make_denoiser()
    torch.manual_seed(1)
    reward = RewardModel(**REWARD_SHAPE)
    cfg = WorldModelConfig(segment_length=4, clean_prob=1.0, max_clean=0.3)  # one clean frame

    def loss(batch):
        return world_model_loss(denoiser, reward, cfg, CFG, 1, rng, batch)

    metrics = train(
        "world_model", learner(batch_size=32, learning_rate=5e-3, weight_decay=0.0),
        lambda n: experience(n, 4, rng), loss, {"denoiser": denoiser, "reward": reward},
        tmp_path, steps=250,
    )  # fmt: skip
    first, last = (
        {key: sum(float(m[key]) for m in part) / 10 for key in metrics[0]}
        for part in (metrics[:10], metrics[-10:])
    )
    # v = 0 costs 1/4 + 1/3; a model that knows the state knows the noise too.
    assert first["world_model/denoiser"] > 0.4 and last["world_model/denoiser"] < 0.1
    assert last["world_model/reward"] < 0.1 * first["world_model/reward"]

    batch = experience(256, 4, rng)
    noise = uniform_noise(*batch.z.shape, rng=rng)
    tau = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(256, -1)

    def next_frame_error(previous):
        z = torch.where(tau[..., None, None, None] == 1, batch.z, noise)
        with torch.no_grad():
            v = denoiser(z, tau, previous)
        return (v - (batch.z - noise)).square().mean((2, 3, 4))[:, 1].mean().item()

    wrong = batch.prev_actions.clone()
    wrong[:, 1] = 1 - wrong[:, 1]
    # Without the action the next state is a coin: 1/4.
    assert next_frame_error(batch.prev_actions) < 0.08 < 0.5 < next_frame_error(wrong)


def test_the_tokenizer_learns_to_rebuild(tmp_path):
    torch.manual_seed(0)
    cfg = config().tokenizer
    tokenizer = Tokenizer(
        size=16, image_channels=3, patch_size=1, channels=8, multipliers=(1, 1),
        encoder_blocks=1, decoder_blocks=1, attention_at=(), latent_channels=4, norm_groups=4,
    )  # fmt: skip
    rng = torch.Generator().manual_seed(0)

    def sample(n):
        """A bright square on dark ground."""
        frames = torch.zeros(n, 3, 16, 16, dtype=torch.uint8)
        for frame, (y, x) in zip(frames, torch.randint(12, (n, 2), generator=rng), strict=True):
            frame[:, y : y + 4, x : x + 4] = torch.tensor([250, 180, 90]).view(3, 1, 1)
        return frames

    def loss(frames):
        return tokenizer_loss(tokenizer, None, cfg.latent_noise, rng, frames)

    metrics = train(
        "tokenizer", learner(batch_size=16, learning_rate=5e-3), sample, loss,
        {"tokenizer": tokenizer}, tmp_path, steps=50,
    )  # fmt: skip
    errors = [float(m["tokenizer/reconstruction"]) for m in metrics]
    flat = sample(64).float().div(127.5).var(0).mean().item()  # the mean frame's error
    assert errors[-1] < 0.3 * errors[0] and sum(errors[-5:]) / 5 < 0.7 * flat


def test_the_tokenizers_loss_by_hand():
    torch.manual_seed(0)
    tokenizer = Tokenizer(
        size=8, image_channels=1, patch_size=1, channels=4, multipliers=(1,), encoder_blocks=1,
        decoder_blocks=1, attention_at=(), latent_channels=2, norm_groups=2,
    )  # fmt: skip
    rng = torch.Generator().manual_seed(0)
    frames = torch.randint(256, (3, 1, 8, 8), generator=rng, dtype=torch.uint8)
    images = frames.float() / 127.5 - 1
    rebuilt = tokenizer.decode_images(tokenizer.encode_images(images))

    def features(a, b):
        return (a - b).abs().mean()

    terms = tokenizer_loss(tokenizer, features, 0.0, rng, frames).terms
    means = {name: term.total / term.count for name, term in terms.items()}
    torch.testing.assert_close(means["reconstruction"], (rebuilt - images).square().mean())
    torch.testing.assert_close(means["perceptual"], (rebuilt - images).abs().mean())


def test_noise_on_the_reward_models_latents_reaches_no_other_loss():
    rng = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    net, model, batch = make_denoiser(), RewardModel(**REWARD_SHAPE), experience(4, 6, rng)

    def losses(noise):
        cfg = WorldModelConfig(reward_noise=noise)
        rng.manual_seed(1)
        return world_model_loss(None, model, cfg, CFG, 1, rng, batch).terms

    quiet, noisy = losses(0.0), losses(0.5)
    assert not torch.equal(quiet["reward"].total, noisy["reward"].total)
    seen = []
    net.register_forward_hook(lambda _, inputs, out: seen.append(inputs[0]))
    cfg = WorldModelConfig(reward_noise=50.0)
    world_model_loss(net, model, cfg, CFG, 1, rng, batch)
    assert seen[0].abs().max() < 10, "the denoiser's latents are as they were"
