"""Sampling of frames, segments and contexts from stored experience."""

from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from horizon_imagination.config import ReplayConfig
from horizon_imagination.data.segment import Segment, shift_right
from horizon_imagination.data.store import Store
from horizon_imagination.envs.spaces import from_world
from horizon_imagination.errors import UsageError
from horizon_imagination.types import Actions, entrywise, no_action


class Rows(NamedTuple):
    """Which row of the store each frame of a batch is; -1 on padding."""

    rows: Int[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]


class Steps(NamedTuple):
    """A segment without its frames."""

    action: Actions
    """Vectors are scaled to [-1, 1]."""
    prev_actions: Actions
    reward: Float[Tensor, "batch time"]
    terminated: Bool[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]


class _Eligible(NamedTuple):
    """The rows that may be drawn, in order of time: a stretch at the head of each episode."""

    version: tuple[int, int | None]
    starts: np.ndarray
    ends: np.ndarray
    before: np.ndarray
    """Eligible rows in all earlier episodes."""
    total: int


class Replay:
    """Draws from the newest `capacity` frames of a store, favouring recent ones.

    Each draw is uniform, or with probability `recent_share` follows Beta(3, 1) over the eligible
    rows in order of time. All randomness comes from the CPU generator passed in.
    """

    def __init__(self, store: Store, config: ReplayConfig) -> None:
        self.store = store
        self.config = config
        self.visible: int | None = None
        """Rows of the store that are drawn from, from its first on; none for all."""
        self._eligible: dict[int, _Eligible] = {}

    def frames(
        self, batch: int, rng: torch.Generator
    ) -> UInt8[Tensor, "batch channel height width"]:
        """Single frames, last frames of episodes included."""
        return self.gather_frames(self.frame_rows(batch, rng))

    def latest(self, length: int) -> Segment:
        """The last frames, at most `length`, of the episode that is going on."""
        if not self.store.is_open:
            raise ValueError("no episode is open, so there is no latest context")
        end = self.store.num_frames
        start = max(int(self.store.starts[-1]), end - length)
        rows = rearrange(torch.arange(start, end), "time -> 1 time")
        return self.gather(rows, torch.ones_like(rows, dtype=torch.bool))

    def frame_rows(self, batch: int, rng: torch.Generator) -> Int[Tensor, " batch"]:
        """The rows that `frames` would gather."""
        return torch.from_numpy(self._sample_rows(batch, 1, rng)[0])

    def segment_rows(
        self, batch: int, length: int, rng: torch.Generator, end_share: float = 0.0
    ) -> Rows:
        """Stretches of one episode each, cut at its end and padded on the right.

        Where their episode terminated, about `end_share` of them begin anywhere from which they
        reach its end.
        """
        shortest = min(self.config.min_segment, length)
        first, start, end = self._sample_rows(batch, shortest, rng)
        if end_share:
            moved, back = torch.rand(2, batch, generator=rng, dtype=torch.float64).numpy()
            earlier = (back * (length - shortest + 1)).astype(np.int64)
            late = np.maximum(start, end - shortest - earlier)
            # The last row of an episode is a frame without an action.
            over = self.store.terminated[end - 2] == 1
            first = np.where(over & (moved < end_share), late, first)
        return stretch(first, np.minimum(end, first + length), length)

    def context_rows(self, batch: int, length: int, rng: torch.Generator) -> Rows:
        """Up to `length` frames that lead to one on which an action was taken."""
        future = self.config.min_future
        last, start, _ = self._sample_rows(batch, 1 + future, rng, field="min_future")
        return stretch(np.maximum(start, last + 1 - length), last + 1, length)

    def gather(self, rows: Int[Tensor, "batch time"], mask: Bool[Tensor, "batch time"]) -> Segment:
        """The segment at these rows; zeros where `mask` is False."""
        steps = self.gather_steps(rows, mask)
        frames = self.store.frames[np.where(mask.numpy(), rows.numpy(), 0)]
        frames[~mask.numpy()] = 0
        return Segment(torch.from_numpy(frames), steps.action, steps.reward, steps.terminated, mask)

    def gather_steps(
        self, rows: Int[Tensor, "batch time"], mask: Bool[Tensor, "batch time"]
    ) -> Steps:
        """What `gather` returns, without the frames, for those who have them as latents."""
        store, real = self.store, mask.numpy()
        index = np.where(real, rows.numpy(), 0)
        action = from_world(store.action_space, store.action[index])
        action = action * entrywise(mask, action)
        return Steps(
            action=action,
            prev_actions=shift_right(action, no_action(action)),
            reward=torch.from_numpy(store.reward[index] * real),
            terminated=torch.from_numpy((store.terminated[index] == 1) & real),
            mask=mask,
        )

    def gather_frames(
        self, rows: Int[Tensor, " batch"]
    ) -> UInt8[Tensor, "batch channel height width"]:
        """The frames at these rows."""
        return torch.from_numpy(self.store.frames[rows.numpy()])

    def _sample_rows(
        self, batch: int, remaining: int, rng: torch.Generator, field: str = "min_segment"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows with at least `remaining` frames left, and start and end of their episodes.

        `field` of the config asks for so many.
        """
        eligible = self._eligible_rows(remaining)
        if not eligible.total:
            raise UsageError(self._too_short(remaining, field))
        uniform, choice = torch.rand(2, batch, generator=rng, dtype=torch.float64).numpy()
        # The cube root of a uniform number follows Beta(3, 1).
        share = np.where(choice < self.config.recent_share, np.cbrt(uniform), uniform)
        place = np.minimum((share * eligible.total).astype(np.int64), eligible.total - 1)
        episode = np.searchsorted(eligible.before, place, side="right") - 1
        start, end = eligible.starts[episode], eligible.ends[episode]
        return start + place - eligible.before[episode], start, end

    def _eligible_rows(self, remaining: int) -> _Eligible:
        """The rows of the newest `capacity` frames with at least `remaining` frames left."""
        cached, version = self._eligible.get(remaining), (self.store.version, self.visible)
        if cached is not None and cached.version == version:
            return cached
        store = self.store
        rows = store.num_frames if self.visible is None else self.visible
        episodes = int(np.searchsorted(store.starts, rows))  # those that begin among these rows
        starts = np.maximum(store.starts[:episodes], rows - self.config.capacity)
        ends = np.minimum(store.ends[:episodes], rows)
        counts = np.maximum(ends - starts - (remaining - 1), 0)
        total = int(counts.sum())
        result = _Eligible(version, starts, ends, np.cumsum(counts) - counts, total)
        self._eligible[remaining] = result
        return result

    def _too_short(self, remaining: int, field: str) -> str:
        rows = self.store.num_frames if self.visible is None else self.visible
        frames = f"{remaining} frame{'s' * (remaining > 1)}"
        value = getattr(self.config, field)
        lower = f", or lower replay.{field} ({value})" if min(remaining, value) > 1 else ""
        return (
            f"{self.store.folder} has no episode of {frames} among its {rows} frames; collect or "
            f"record more{lower}"
        )


def stretch(first: np.ndarray, end: np.ndarray, length: int) -> Rows:
    """Rows `first` to `end`, exclusive, of each sample, padded with -1 to `length`."""
    rows = first[:, None] + np.arange(length)
    real = rows < end[:, None]
    return Rows(torch.from_numpy(np.where(real, rows, -1)), torch.from_numpy(real))
