"""Segments that the reward model learns from are shifted, so that it memorises fewer places."""

from dataclasses import replace

import pytest
import torch
from numbered_world import config

from horizon_imagination.config import DenoiserConfig, WorldModelConfig
from horizon_imagination.flow import uniform_noise
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.learn.world_model import (
    Experience,
    reward_terms,
    shift_frames,
    varied_latents,
    world_model_loss,
)
from horizon_imagination.models.reward import RewardModel

SIZE = 8
TAUGHT = [(2, 2), (2, 5), (5, 2), (5, 5)]
"""Places of the pattern in training, as row and column."""
NEW = [(y, x) for y in range(1, 7) for x in range(1, 6) if (y, x) not in TAUGHT]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def make_model(normalize=True, seed=0):
    torch.manual_seed(seed)
    return RewardModel(
        channels=2, size=SIZE, cnn_channels=16, cnn_out_channels=4, hidden=32, normalize=normalize
    )


def latents(batch=3, frames=4, channels=2, size=SIZE, dtype=torch.float32):
    return uniform_noise(batch, frames, channels, size, size, rng=generator()).to(dtype)


def mean_frame(size=SIZE, dtype=torch.float32):
    return uniform_noise(2, size, size, rng=generator(9)).to(dtype)


def experience(batch, places, rng):
    """A bright cell beside a dark one in the second frame; it pays if the bright one is left."""
    left = torch.randint(2, (batch,), generator=rng).float()
    row, column = torch.tensor(places)[torch.randint(len(places), (batch,), generator=rng)].T
    z, n = 0.1 * uniform_noise(batch, 2, 2, SIZE, SIZE, rng=rng), torch.arange(batch)
    z[n, 1, 0, row, column] += 1.8 * left - 0.9
    z[n, 1, 0, row, column + 1] -= 1.8 * left - 0.9
    action, real = torch.zeros(batch, 2, dtype=torch.long), torch.ones(batch, 2, dtype=torch.bool)
    reward = torch.stack([left, torch.zeros(batch)], dim=1)
    return Experience(z, action, action, reward, ~real, real)


def test_a_shift_by_hand():
    """One down, one left: the difference 10 ... 90 moves, the mean frame 1 ... 9 stays."""
    mean = torch.arange(1.0, 10.0).view(1, 3, 3)
    z = (11 * mean)[None, None]
    found = shift_frames(z, torch.tensor([[1, -1]]), mean)
    right = [[1.0, 2.0, 3.0], [4 + 20.0, 5 + 30.0, 6.0], [7 + 50.0, 8 + 60.0, 9.0]]
    assert found[0, 0, 0].tolist() == right
    found = shift_frames(z, torch.tensor([[1, -1]]), torch.zeros_like(mean))
    assert found[0, 0, 0].tolist() == [[0.0, 0.0, 0.0], [22.0, 33.0, 0.0], [55.0, 66.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_shift_is_the_identity_and_keeps_shape_and_type(dtype):
    z, mean = latents(dtype=dtype), mean_frame(dtype=dtype)
    found = shift_frames(z, torch.zeros(3, 2, dtype=torch.long), mean)
    assert found.shape == z.shape and found.dtype == dtype
    torch.testing.assert_close(found, z)
    assert torch.equal(shift_frames(z, torch.zeros(3, 2).long(), torch.zeros_like(mean)), z)


def test_every_segment_moves_by_its_own_shift_and_its_frames_together():
    z, mean = latents(), mean_frame()
    cells = torch.tensor([[2, 0], [0, -3], [-1, 1]])
    found = shift_frames(z, cells, mean) - mean
    for segment in range(3):
        rolled = (z[segment] - mean).roll(cells[segment].tolist(), (-2, -1))
        for frame in range(4):
            same = (found[segment, frame] - rolled[frame]).abs() < 1e-6
            assert (same | (found[segment, frame].abs() < 1e-6)).all()
    assert (found[0, :, :, :2].abs() < 1e-6).all() and (found[1, ..., -3:].abs() < 1e-6).all()


def test_there_and_back_gives_back_the_interior_and_the_mean_at_the_border():
    z, mean = latents(batch=25), mean_frame()
    cells = torch.cartesian_prod(torch.arange(-2, 3), torch.arange(-2, 3))
    back = shift_frames(shift_frames(z, cells, mean), -cells, mean)
    torch.testing.assert_close(back[..., 2:-2, 2:-2], z[..., 2:-2, 2:-2])
    lost = (back - z).abs() > 1e-6
    torch.testing.assert_close(back[lost], mean.expand_as(z)[lost])
    assert lost.any()


def test_the_mean_frame_is_a_fixed_point():
    mean = mean_frame()
    cells = torch.randint(-SIZE, SIZE + 1, (50, 2), generator=generator())
    z = mean.expand(50, 3, -1, -1, -1)
    assert torch.equal(shift_frames(z, cells, mean), z)


def test_a_shift_by_the_whole_side_leaves_the_mean_frame():
    z, mean = latents(batch=4), mean_frame()
    cells = torch.tensor([[SIZE, 0], [0, SIZE], [-SIZE, 0], [0, -SIZE]])
    assert torch.equal(shift_frames(z, cells, mean), mean.expand_as(z))


def test_no_value_is_read_back_to_the_host():
    """Tensors without values cannot be read, so what runs on them can be captured."""
    z, mean, cells = (x.to("meta") for x in (latents(), mean_frame(), torch.zeros(3, 2).long()))
    assert shift_frames(z, cells, mean).shape == z.shape


@pytest.mark.parametrize("most", [1, 2])
def test_all_shifts_occur_equally_often_and_none_beyond(most):
    """A bright cell in the middle shows where its segment went."""
    z = torch.zeros(5000, 1, 2, SIZE, SIZE)
    z[..., 3, 3] = 1
    cfg = WorldModelConfig(reward_shift=most)
    moved = varied_latents(make_model(normalize=False), cfg, z, generator())
    counts = moved[:, 0, 0].sum(0)
    near = slice(3 - most, 4 + most)
    share = counts[near, near] / 5000 * (2 * most + 1) ** 2
    assert counts.sum() == counts[near, near].sum() == 5000
    torch.testing.assert_close(share, torch.ones_like(share), rtol=0, atol=0.3)


def test_the_same_draws_give_the_same_segments():
    model, cfg, z = make_model(), WorldModelConfig(reward_shift=2, reward_noise=0.1), latents(20)
    first, again, other = (varied_latents(model, cfg, z, generator(x)) for x in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_what_is_shifted_is_the_difference_from_the_encoders_mean_frame():
    model, z = make_model(), latents(20)
    assert model.encoder.statistics is not None
    model.encoder.statistics.mean.copy_(mean_frame())
    cells = torch.randint(-2, 3, (20, 2), generator=generator(3))
    found = varied_latents(model, WorldModelConfig(reward_shift=2), z, generator(3))
    assert torch.equal(found, shift_frames(z, cells, mean_frame()))


def test_noise_comes_after_the_shift():
    model, rng, z = make_model(normalize=False), generator(3), latents()
    shifted = varied_latents(model, WorldModelConfig(reward_shift=2), z, rng)
    right = shifted + 0.5 * uniform_noise(*z.shape, rng=rng)
    cfg = WorldModelConfig(reward_shift=2, reward_noise=0.5)
    assert torch.equal(varied_latents(model, cfg, z, generator(3)), right)


def test_without_a_shift_nothing_is_drawn_and_the_loss_is_that_of_the_latents():
    model, rng, batch = make_model(), generator(1), experience(8, TAUGHT, generator())
    assert varied_latents(model, WorldModelConfig(), batch.z, rng) is batch.z
    found = world_model_loss(None, model, WorldModelConfig(), DenoiserConfig(), 1, rng, batch)
    assert torch.equal(rng.get_state(), generator(1).get_state())
    for name, term in reward_terms(model, batch)[0].items():
        assert torch.equal(found.terms[name].total, term.total), name


def test_a_shift_changes_the_loss_but_neither_statistics_nor_targets():
    batch, losses, means = experience(8, TAUGHT, generator()), [], []
    for most in (0, 2):
        model, cfg = make_model(), WorldModelConfig(reward_shift=most)
        found = world_model_loss(None, model, cfg, DenoiserConfig(), 1, generator(1), batch)
        assert model.encoder.statistics is not None
        losses.append(found.terms["reward"])
        means.append(model.encoder.statistics.mean)
    assert not torch.equal(losses[0].total, losses[1].total)
    assert torch.equal(losses[0].count, losses[1].count) and torch.equal(*means)


def test_ranks_draw_for_the_whole_batch_and_take_their_rows(monkeypatch):
    monkeypatch.setattr(Ranks, "sum", lambda self, value: value)
    batch, cfg = experience(7, TAUGHT, generator()), WorldModelConfig(reward_shift=2)

    def total(ranks):
        found = world_model_loss(
            None, make_model(), cfg, DenoiserConfig(), 1, generator(1), batch, ranks
        )
        return found.terms["reward"].total

    shared = total(Ranks(0, 2)) + total(Ranks(1, 2))
    torch.testing.assert_close(shared, total(Ranks()))


def test_a_shift_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"reward_shift \(-1\) .* must be at least 0"):
        WorldModelConfig(reward_shift=-1)
    small = config()  # latent frames of 4 x 4 cells
    assert replace(small, world_model=WorldModelConfig(reward_shift=3))
    with pytest.raises(ValueError, match="reward_shift 4 must be < 8 / 2 cells"):
        replace(small, world_model=WorldModelConfig(reward_shift=4))


def readings(most, seed):
    """Mean readings at new places of what pays and of what does not, after training at few."""
    model, rng, cfg = make_model(seed=seed), generator(seed), WorldModelConfig(reward_shift=most)
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(150):
        batch = experience(32, TAUGHT, rng)
        terms = world_model_loss(None, model, cfg, DenoiserConfig(), 1, rng, batch).terms
        optimiser.zero_grad()
        (terms["reward"].total / terms["reward"].count).backward()
        optimiser.step()
    with torch.no_grad():
        known, new = (experience(256, places, generator(99)) for places in (TAUGHT, NEW))
        read, seen = model.predict(known.z)[0][:, 1], model.predict(new.z)[0][:, 1]
    assert (read - known.reward[:, 0]).abs().mean() < 0.1, "it has learned what it was taught"
    pays = new.reward[:, 0] == 1
    return seen[pays].mean().item(), seen[~pays].mean().item()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_shifted_reward_model_reads_a_pattern_at_places_it_never_saw(seed):
    """Four places teach. Without shifts what pays and what does not look alike elsewhere."""
    memorised, learned = readings(0, seed), readings(2, seed)
    assert memorised[0] - memorised[1] < 0.2, memorised
    assert learned[0] > 0.9 and abs(learned[1]) < 0.1, learned
