"""Latents of the stored frames, encoded once per change of the tokenizer.

Frames are encoded in blocks of fixed size and place, so that the latents of a row have the same
bits whenever they are computed: a resumed run sees what the first one saw. On a GPU the frames
themselves are kept beside them, as long as they take a tenth of its memory at most: a tokenizer
that learns in every epoch has everything encoded again in every epoch.
"""

import math
from collections.abc import Callable

import torch
from einops import rearrange
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from horizon_imagination.data import Store
from horizon_imagination.device import to_device
from horizon_imagination.types import Latents

BLOCKS = {"cpu": 64, "mps": 64, "cuda": 512}
"""Frames encoded in one call, by kind of device."""
RESIDENT_SHARE = 0.1

Encode = Callable[[UInt8[Tensor, "batch channel height width"]], Tensor]


class LatentCache:
    """Latents by row of the store, on the device of the networks."""

    def __init__(self, store: Store, encode: Encode, device: torch.device) -> None:
        self._store, self._encode, self._device = store, encode, device
        self.block = BLOCKS[device.type]
        self._latents: Tensor | None = None
        self._rows = 0
        self._resident: Tensor | None = None
        self._uploaded = 0

    def forget(self) -> None:
        """The tokenizer has changed: nothing encoded so far is true any more."""
        self._rows = 0

    def refresh(self) -> None:
        """Encode every row that is new, or all if the tokenizer has changed."""
        total, block = self._store.num_frames, self.block
        if self._rows == total:
            return
        for start in range(self._rows // block * block, total, block):
            latents = self._encode(self._frames(start, total))
            self._latents = _room(self._latents, start + block, latents)
            self._latents[start : start + block] = latents
        self._rows = total

    def _frames(self, start: int, total: int) -> UInt8[Tensor, "batch channel height width"]:
        """A block of frames on the device, zeros after the last one."""
        stop, shape = start + self.block, self._store.frame_shape
        if not self._fits(stop):
            frames = torch.zeros(self.block, *shape, dtype=torch.uint8)
            stored = torch.tensor(self._store.frames[start : min(stop, total)])
            frames[: len(stored)] = stored
            return frames.to(self._device)
        if self._uploaded < min(stop, total):
            first = self._uploaded
            new = torch.tensor(self._store.frames[first : min(stop, total)]).to(self._device)
            self._resident = _room(self._resident, stop, new)
            self._resident[first : first + len(new)] = new
            self._uploaded = first + len(new)
        assert self._resident is not None
        self._resident = _room(self._resident, stop, self._resident)
        return self._resident[start:stop]

    def _fits(self, frames: int) -> bool:
        if self._device.type != "cuda":
            return False
        memory = torch.cuda.get_device_properties(self._device).total_memory
        return 2 * frames * math.prod(self._store.frame_shape) <= RESIDENT_SHARE * memory

    def gather(self, rows: Int[Tensor, "batch time"], mask: Bool[Tensor, "batch time"]) -> Latents:
        """Latents of sampled rows; zero where the mask is False."""
        assert self._latents is not None, "refresh() comes first"
        rows, mask = to_device(rows.clamp(min=0), self._device), to_device(mask, self._device)
        return self._latents[rows] * rearrange(mask, "b t -> b t 1 1 1")


def _room(rows: Tensor | None, count: int, like: Tensor) -> Tensor:
    """The tensor with room for so many rows; it doubles, and new rows are zero."""
    if rows is not None and len(rows) >= count:
        return rows
    grown = like.new_zeros(2 * count, *like.shape[1:])
    if rows is not None:
        grown[: len(rows)] = rows
    return grown
