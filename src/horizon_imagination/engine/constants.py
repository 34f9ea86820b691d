"""Numbers that the host knows, as tensors on a device, made once.

Making them where they are used would make the host wait for the device, and could not be captured
in a graph.
"""

from functools import lru_cache

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

_copies: dict[tuple[int, torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}


@lru_cache(maxsize=1024)
def index(values: tuple[int, ...], device: torch.device) -> Int[Tensor, " n"]:
    """Whole numbers to index with."""
    return torch.tensor(values, dtype=torch.long, device=device)


def copied(value: Shaped[Tensor, "..."], like: Tensor) -> Shaped[Tensor, "..."]:
    """A small tensor of the host on the device and in the type of another; do not write to it."""
    if value.device == like.device and value.dtype == like.dtype:
        return value
    key = (id(value), like.device, like.dtype)
    if key not in _copies:
        if len(_copies) > 256:
            _copies.clear()
        _copies[key] = (value, value.to(like))  # holds the original, so that its id stays taken
    return _copies[key][1]
