"""Latents of the stored frames, encoded once per change of the tokenizer.

Frames are encoded in blocks of fixed size and place, so that the latents of a row have the same
bits whenever they are computed: a resumed run sees what the first one saw.
"""

from collections.abc import Callable

import torch
from einops import rearrange
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from horizon_imagination.data import Store
from horizon_imagination.types import Latents

BLOCK = 64

Encode = Callable[[UInt8[Tensor, "batch channel height width"]], Tensor]


class LatentCache:
    """Latents by row of the store, on the device of the networks."""

    def __init__(self, store: Store, encode: Encode, device: torch.device) -> None:
        self._store, self._encode, self._device = store, encode, device
        self._latents: Tensor | None = None
        self._rows = 0

    def forget(self) -> None:
        """The tokenizer has changed: nothing encoded so far is true any more."""
        self._rows = 0

    def refresh(self) -> None:
        """Encode every row that is new, or all if the tokenizer has changed."""
        total = self._store.num_frames
        first = self._rows // BLOCK * BLOCK
        for start in range(first if self._rows < total else total, total, BLOCK):
            frames = torch.zeros(BLOCK, *self._store.frame_shape, dtype=torch.uint8)
            stored = torch.tensor(self._store.frames[start : min(start + BLOCK, total)])
            frames[: len(stored)] = stored
            latents = self._encode(frames.to(self._device))
            self._room(start + BLOCK, latents)[start : start + BLOCK] = latents
        self._rows = total

    def gather(self, rows: Int[Tensor, "batch time"], mask: Bool[Tensor, "batch time"]) -> Latents:
        """Latents of sampled rows; zero where the mask is False."""
        assert self._latents is not None, "refresh() comes first"
        rows, mask = rows.clamp(min=0).to(self._device), mask.to(self._device)
        return self._latents[rows] * rearrange(mask, "b t -> b t 1 1 1")

    def _room(self, rows: int, latents: Tensor) -> Tensor:
        if self._latents is None or len(self._latents) < rows:
            grown = latents.new_zeros(max(rows, 2 * rows - BLOCK), *latents.shape[1:])
            if self._latents is not None:
                grown[: len(self._latents)] = self._latents
            self._latents = grown
        return self._latents
