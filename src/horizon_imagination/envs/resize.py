"""Antialiased bilinear resizing of 8-bit images, the same numbers as Pillow's.

The weights are a triangle filter as wide as the reduction, and both passes round to 8 bits (the
horizontal one first), so that frames equal those of `PIL.Image.resize(..., BILINEAR)`.
"""

from functools import lru_cache

import numpy as np
from jaxtyping import Float32, UInt8

Image = UInt8[np.ndarray, "height width channel"]


@lru_cache(maxsize=32)
def weights(source: int, target: int) -> Float32[np.ndarray, "target source"]:
    """Row i mixes the source pixels into target pixel i.

    >>> weights(4, 2)
    array([[0.42857143, 0.42857143, 0.14285715, 0.        ],
           [0.        , 0.14285715, 0.42857143, 0.42857143]], dtype=float32)
    """
    scale = source / target
    width = max(scale, 1.0)
    centre = (np.arange(target) + 0.5) * scale
    distance = np.abs(np.arange(source) + 0.5 - centre[:, None]) / width
    triangle = np.maximum(1.0 - distance, 0.0)
    return (triangle / triangle.sum(axis=1, keepdims=True)).astype(np.float32)


def resize(image: Image, size: int) -> Image:
    """The image, `size` pixels high and wide."""
    height, width, channels = image.shape
    if width != size:
        across = image.astype(np.float32).transpose(0, 2, 1).reshape(-1, width)
        across = _rounded(across @ weights(width, size).T)
        image = across.reshape(height, channels, size).transpose(0, 2, 1)
    if height != size:
        flat = np.ascontiguousarray(image).reshape(height, -1).astype(np.float32)
        image = _rounded(weights(height, size) @ flat).reshape(size, size, channels)
    return np.ascontiguousarray(image)


def _rounded(values: Float32[np.ndarray, "row column"]) -> UInt8[np.ndarray, "row column"]:
    # a weighted mean of bytes lies in [0, 255] up to rounding of floats: no clipping needed
    return (values + np.float32(0.5)).astype(np.uint8)
