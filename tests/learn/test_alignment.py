"""Every learner sees the right action, reward and end for each frame; one step off is noticed."""

import pytest
import torch
from numbered_world import (
    ENDS,
    LENGTHS,
    action_at,
    codes,
    encode,
    filled,
    frame_at,
    learners,
    reward_at,
)

import horizon_imagination.data.replay as replay_module
import horizon_imagination.learn.batches as batches_module
import horizon_imagination.learn.world_model as world_model_module
from horizon_imagination.engine.dream import Start
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.world_model import reward_terms
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.returns import symlog

MANY = 64


def check_denoiser(folder):
    """The denoiser hears, with every frame, the action that led to it; the first has none."""
    agent, made = learners(folder)
    heard = []
    agent.denoiser.register_forward_pre_hook(lambda _, args: heard.append(args))
    batch = made.world_model.sample(MANY)
    made.world_model.loss(batch)
    z, tau, prev_actions = heard[0]
    _, step, action = codes(batch.z)
    assert (prev_actions[:, 0] == -1).all()
    later = batch.mask.clone()
    later[:, 0] = False
    assert torch.equal(prev_actions[later], action[later])
    clean = (tau == 1) & batch.mask
    assert clean.any() and torch.equal(z[clean], batch.z[clean])
    steps_on = (step[:, 1:] - step[:, :-1])[later[:, 1:]]
    assert (steps_on == 1).all()


class Oracle(RewardModel):
    """Reads off a frame what followed the action that led to it."""

    def forward(self, z, tau=None, state=None, mask=None):
        episode, step, _ = codes(z)
        rewards, ends = torch.zeros(step.shape), torch.zeros(step.shape, dtype=torch.bool)
        for where in (step > 0).nonzero().tolist():
            e, s = int(episode[*where]), int(step[*where])
            rewards[*where] = reward_at(e, s - 1)
            ends[*where] = s == LENGTHS[e] and ENDS[e] == "terminated"
        return torch.stack([symlog(rewards), ~ends * 50.0, ends * 50.0], dim=-1), None


def oracle():
    return Oracle(
        channels=3, size=4, cnn_channels=8, cnn_out_channels=4, hidden=4, normalize=False
    )  # fmt: skip


def check_reward_model(folder):
    """A model that knows the world has no loss: targets are those of the frame's own past."""
    _, made = learners(folder)
    batch = made.world_model.sample(MANY)
    terms, metrics = reward_terms(oracle(), batch)
    assert batch.terminated.any() and (~batch.mask).any()
    assert terms["reward"].total < 1e-5 and terms["end"].total < 1e-5
    assert metrics["end_accuracy"] == 1
    assert metrics["ends_foreseen"] == metrics["ends"] == batch.terminated.sum() > 0
    led_to = batch.mask.sum() - MANY
    assert terms["reward"].count == led_to == terms["end"].count


def check_controller_start(folder):
    """Contexts are stretches of one episode that end on a frame on which an action was taken."""
    _, made = learners(folder)
    start = made.controller.sample(4 * MANY)
    episode, step, _ = codes(start.z)
    assert start.mask[:, -1].all() and not start.mask.all()
    for e, s in zip(episode[:, -1].tolist(), step[:, -1].tolist(), strict=True):
        assert s < LENGTHS[e]
    assert (step[:, -1] == torch.tensor(LENGTHS)[episode[:, -1]] - 1).any(), "the last one too"
    assert (step[:, -1] == 0).any(), "and the first"
    for b in range(len(start.z)):
        real = start.mask[b]
        first = int(real.nonzero()[0])
        assert real[first:].all()
        for t in range(first, real.shape[0]):
            place = int(episode[b, -1]), int(step[b, -1]) - (real.shape[0] - 1 - t)
            assert (int(episode[b, t]), int(step[b, t])) == place
            assert int(start.actions[b, t]) == action_at(*place)
        assert first == 0 or step[b, first] == 0, "shorter only at the start of an episode"


def check_world_model_context(folder):
    """The context of imagination hears the actions behind its frames, none behind the first."""
    _, made = learners(folder)
    start = made.controller.sample(MANY)
    for frames in (1, 2, 4):
        context, real = start.world_model_context(frames)
        _, step, action = codes(context.z)
        assert (step[:, -1] == codes(start.z)[1][:, -1]).all()
        if real is None:
            assert frames == 1 and (context.prev_actions == -1).all()
            continue
        assert torch.equal(real, start.mask[:, -frames:])
        first = real & ~torch.nn.functional.pad(real[:, :-1], (1, 0))
        assert (context.prev_actions[first] == -1).all()
        assert torch.equal(context.prev_actions[real & ~first], action[real & ~first])


CHECKS = {
    "denoiser": check_denoiser,
    "reward model": check_reward_model,
    "controller": check_controller_start,
    "context": check_world_model_context,
}


@pytest.mark.parametrize("name", CHECKS)
def test_each_learner_sees_the_right_step(name, tmp_path):
    CHECKS[name](tmp_path)


def unshifted(x, first):
    return x


def shifted_twice(x, first):
    x = torch.cat([torch.full_like(x[:, :1], first), x[:, :-1]], dim=1)
    return torch.cat([torch.full_like(x[:, :1], first), x[:, :-1]], dim=1)


gather, left_padded, context_of = (
    LatentCache.gather, batches_module.left_padded, Start.world_model_context,
)  # fmt: skip


def late_latents(self, rows, mask):
    return gather(self, (rows + 1).clamp(max=self._store.num_frames - 1), mask)


def early_latents(self, rows, mask):
    return gather(self, (rows - 1).clamp(min=0), mask)


def late_actions(z, actions, mask):
    return left_padded(z, actions.roll(1, dims=1), mask)


def rolled_start(z, actions, mask):
    return Start(*(x.roll(1, dims=1) for x in left_padded(z, actions, mask)))


def unshifted_context(self, frames):
    context, real = context_of(self, frames)
    return context._replace(prev_actions=self.actions[:, -frames:]), real


sample_rows = replay_module.Replay._sample_rows


def sample_ends_too(self, batch, remaining, rng, field):
    return sample_rows(self, batch, 1, rng)


@pytest.mark.parametrize(
    "check,where,name,bug",
    [
        ("denoiser", replay_module, "shift_right", unshifted),
        ("denoiser", replay_module, "shift_right", shifted_twice),
        ("denoiser", LatentCache, "gather", late_latents),
        ("denoiser", LatentCache, "gather", early_latents),
        ("reward model", world_model_module, "shift_right", unshifted),
        ("reward model", world_model_module, "shift_right", shifted_twice),
        ("reward model", LatentCache, "gather", late_latents),
        ("controller", LatentCache, "gather", late_latents),
        ("controller", batches_module, "left_padded", late_actions),
        ("controller", batches_module, "left_padded", rolled_start),
        ("controller", replay_module.Replay, "_sample_rows", sample_ends_too),
        ("context", batches_module, "left_padded", late_actions),
        ("context", Start, "world_model_context", unshifted_context),
    ],
)
def test_a_shift_by_one_step_fails(check, where, name, bug, tmp_path, monkeypatch):
    monkeypatch.setattr(where, name, bug)
    with pytest.raises(AssertionError):
        CHECKS[check](tmp_path)


def test_the_tokenizer_sees_stored_frames_as_they_are(tmp_path):
    _, made = learners(tmp_path)
    assert made.tokenizer is not None
    known = {
        frame_at(e, s).tobytes() for e, length in enumerate(LENGTHS) for s in range(length + 1)
    }
    batch = made.tokenizer.sample(400)
    assert {frame.numpy().tobytes() for frame in batch} <= known
    last = {frame_at(e, length).tobytes() for e, length in enumerate(LENGTHS)}
    assert {frame.numpy().tobytes() for frame in batch} & last, "terminal frames are learned too"


def test_truncation_is_not_an_end(tmp_path):
    _, made = learners(tmp_path)
    batch = made.world_model.sample(4 * MANY)
    episode, step, _ = codes(batch.z)
    truncated = (episode == 1) | (episode == 3)
    assert (truncated & (step == torch.tensor(LENGTHS)[episode] - 1) & batch.mask).any()
    assert not (batch.terminated & truncated).any()


def test_latents_are_encoded_anew_after_a_change_and_only_then(tmp_path):
    store, scale, calls = filled(tmp_path / "data"), [1.0], []

    def encoder(frames):
        calls.append(len(frames))
        return encode(frames) * scale[0]

    cache = LatentCache(store, encoder, torch.device("cpu"))
    cache.refresh()
    rows = torch.tensor([[0, 1, -1]])
    mask = rows >= 0
    before, done = cache.gather(rows, mask), len(calls)
    assert not before[0, 2].any() and codes(before)[1][0, :2].tolist() == [0, 1]
    cache.refresh()
    assert len(calls) == done, "nothing is new"
    scale[0] = 2.0
    cache.forget()
    cache.refresh()
    torch.testing.assert_close(cache.gather(rows, mask), 2 * before)


def test_latents_of_new_frames_join_those_that_are_there(tmp_path):
    store = filled(tmp_path / "data")
    cache = LatentCache(store, encode, torch.device("cpu"))
    cache.refresh()
    for _ in range(3):
        store.begin(frame_at(9, 0))
        for step in range(40):
            store.add(action_at(9, step), 0.0, False, step == 39, frame_at(9, step + 1))
    cache.refresh()
    rows = torch.arange(store.num_frames)[None]
    expected = encode(torch.from_numpy(store.frames[:].copy()))
    assert torch.equal(cache.gather(rows, rows >= 0)[0], expected)
