"""Resizing against the formula of the triangle filter, and against Pillow."""

import numpy as np
import pytest
from PIL import Image

from horizon_imagination.envs.resize import resize

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "height,width,size",
    [(210, 160, 64), (210, 160, 32), (250, 160, 64), (40, 56, 64), (400, 600, 84)],
)
def test_frames_equal_pillows_bilinear_within_rounding(height, width, size):
    image = RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)
    reference = np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR))
    difference = np.abs(resize(image, size).astype(int) - reference)
    assert difference.max() <= 1 and (difference > 0).mean() < 0.02


def triangle_weights(source: int, target: int) -> np.ndarray:
    """Row i mixes source pixels into target pixel i: a triangle as wide as the reduction."""
    scale = source / target
    centre = (np.arange(target) + 0.5) * scale
    distance = np.abs(np.arange(source) + 0.5 - centre[:, None]) / max(scale, 1.0)
    rows = np.maximum(1.0 - distance, 0.0)
    return rows / rows.sum(axis=1, keepdims=True)


def test_frames_follow_the_triangle_filter():
    image = RNG.integers(0, 256, (210, 160, 1), dtype=np.uint8)
    exact = triangle_weights(210, 64) @ image[:, :, 0] @ triangle_weights(160, 64).T
    assert np.abs(resize(image, 64)[:, :, 0] - exact).max() <= 1.01  # two roundings of a half


def test_a_frame_of_the_right_size_is_left_alone():
    image = RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    assert np.array_equal(resize(image, 64), image)
