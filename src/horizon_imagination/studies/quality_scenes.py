"""The real videos of the generation quality study: the same contexts and noise for every point."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.errors import UsageError
from horizon_imagination.flow import uniform_noise
from horizon_imagination.learn.streams import derive_seed

Videos = UInt8[Tensor, "video time channel height width"]


@dataclass(frozen=True)
class Scenes:
    """Stretches of single episodes on the CPU: context frames, then what really followed."""

    frames: Videos
    actions: Int[Tensor, "video step"]
    """`actions[:, t]` was taken on frame t; one less than frames."""
    noise: Float[Tensor, "video horizon latent y x"]
    context: int

    @property
    def truth(self) -> Videos:
        """What is to be generated."""
        return self.frames[:, self.context :]

    @property
    def held(self) -> Videos:
        """The last context frame in place of all that follows: no imagination at all."""
        last = self.frames[:, self.context - 1]
        return repeat(last, "n c h w -> n t c h w", t=self.truth.shape[1])

    def identity(self) -> str:
        """A hash of frames and actions."""
        digest = hashlib.sha256(self.frames.numpy().tobytes())
        digest.update(self.actions.numpy().tobytes())
        return digest.hexdigest()[:16]


def stretches(store: Store, length: int) -> np.ndarray:
    """All rows from which `length` frames follow inside one episode, oldest first."""
    heads = [
        np.arange(start, end - length + 1)
        for start, end in zip(store.starts, store.ends, strict=True)
        if end - start >= length
    ]
    return np.concatenate(heads) if heads else np.zeros(0, dtype=np.int64)


def draw_scenes(
    agent: Agent, store: Store, *, videos: int, horizon: int, context: int, seed: int
) -> Scenes:
    """Different stretches, uniformly among all there are, and their noise.

    Noise is drawn on the CPU for all videos at once, so that it depends on the seed alone.
    """
    _check_fits(agent, store)
    length = context + horizon
    rows = stretches(store, length)
    if len(rows) == 0:
        longest = int((store.ends - store.starts).max()) if len(store.starts) else 0
        raise UsageError(
            f"no episode of {store.folder} has {length} frames (context {context} and horizon "
            f"{horizon}), the longest has {longest}; use --horizon {max(longest - context, 1)} "
            "or less, or other --data"
        )
    if len(rows) < videos:
        raise UsageError(
            f"{store.folder} has only {len(rows)} segments of {length} frames inside an episode, "
            f"{videos} are asked for; use --segments {len(rows)} or less, or collect more"
        )
    rng = torch.Generator().manual_seed(derive_seed(seed, "quality segments"))
    chosen = np.sort(rows[torch.randperm(len(rows), generator=rng)[:videos].numpy()])
    index = rearrange(chosen, "n -> n 1") + np.arange(length)
    rng.manual_seed(derive_seed(seed, "quality noise"))
    return Scenes(
        frames=torch.from_numpy(store.frames[index]),
        actions=torch.from_numpy(store.action[index[:, :-1]]).long(),
        noise=uniform_noise(videos, horizon, *agent.latent_shape, rng=rng),
        context=context,
    )


def _check_fits(agent: Agent, store: Store) -> None:
    env = agent.config.env
    expected = (1 if env.grey else 3, env.size, env.size)
    if store.frame_shape != expected or store.num_actions != agent.num_actions:
        raise UsageError(
            f"{store.folder} has frames {store.frame_shape} and {store.num_actions} actions, "
            f"the agent expects {expected} and {agent.num_actions}; name data of its own world"
        )
