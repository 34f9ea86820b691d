"""Cached device copies of small host tensors and index lists.

Copying them at every use would synchronise host and device, and cannot be captured in a CUDA graph.
"""

from functools import lru_cache

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

_copies: dict[tuple[int, torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}


@lru_cache(maxsize=1024)
def device_index(values: tuple[int, ...], device: torch.device) -> Int[Tensor, " n"]:
    """An index tensor on a device, cached."""
    return torch.tensor(values, dtype=torch.long, device=device)


def device_copy(value: Shaped[Tensor, "..."], like: Tensor) -> Shaped[Tensor, "..."]:
    """A cached copy of a small host tensor, with device and dtype of `like`. Do not write to it."""
    if value.device == like.device and value.dtype == like.dtype:
        return value
    key = (id(value), like.device, like.dtype)
    if key not in _copies:
        if len(_copies) > 256:
            _copies.clear()
        _copies[key] = (value, value.to(like))  # holds the original, so that its id stays taken
    return _copies[key][1]
