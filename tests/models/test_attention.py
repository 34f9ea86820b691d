"""Rotary positions and the mask of frame-causal attention."""

import math

import pytest
import torch

from horizon_imagination.models.attention import rotary_angles, rotate, window_mask

CPU = torch.device("cpu")


def test_the_angles_are_position_times_frequency():
    # Head of 12: six pairs, two each for time, y and x; frequencies 1 and 1 / 100.
    cos, sin = rotary_angles(12, start=3, frames=1, size=2)
    token = 1 * 2 + 0  # y = 1, x = 0
    expected = [3, 3 / 100, 1, 1 / 100, 0, 0]
    torch.testing.assert_close(cos[token], torch.tensor([math.cos(a) for a in expected]))
    torch.testing.assert_close(sin[token], torch.tensor([math.sin(a) for a in expected]))


def test_a_head_of_64_gives_time_the_pairs_that_space_leaves():
    cos, _ = rotary_angles(64, start=5, frames=1, size=2)
    turned_by_time = (cos[0] != 1).sum()  # token (0, 0): only time turns it
    assert cos.shape == (4, 32) and turned_by_time == 32 - 2 * (64 // 6)


def test_rotation_turns_each_pair_and_keeps_its_length():
    x = torch.tensor([1.0, 0.0, 0.0, 2.0]).view(1, 1, 1, 4)  # pairs (1, 0) and (0, 2)
    angle = torch.tensor([[math.pi / 2, math.pi]])
    y = rotate(x, (angle.cos(), angle.sin()))
    torch.testing.assert_close(y.flatten(), torch.tensor([0.0, 0.0, 1.0, -2.0]))


@pytest.mark.parametrize("shift", [1, 7])
def test_scores_depend_on_the_distance_of_frames_alone(shift):
    rng = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 3 * 4, 12, generator=rng, dtype=torch.double)

    def scores(start):
        rotary = rotary_angles(12, start, 3, 2)
        return rotate(q, rotary) @ rotate(k, rotary).mT

    torch.testing.assert_close(scores(0), scores(shift), atol=1e-5, rtol=1e-5)
    there = rotate(q, rotary_angles(12, 0, 3, 2)) @ rotate(k, rotary_angles(12, shift, 3, 2)).mT
    assert (there - scores(0)).abs().max() > 0.1, "a different distance must give other scores"


def test_a_window_sees_the_cache_and_its_own_past():
    mask = window_mask(2, 2, 1, None, CPU)
    assert mask is not None
    assert mask.int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert window_mask(5, 1, 4, None, CPU) is None


def test_padding_is_hidden_from_all_and_sees_itself():
    real = torch.tensor([[False, True, True], [True, True, True]])
    mask = window_mask(0, 3, 1, real, CPU)
    assert mask is not None
    assert mask[0, 0].int().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert mask[1, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
