"""Videos from contexts, recorded actions and given noise, and how long they take."""

import hashlib
import time
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np
import torch
from einops import rearrange, repeat
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.data.segment import shift_right
from horizon_imagination.device import autocast
from horizon_imagination.engine.dream import imagine_recorded
from horizon_imagination.envs.spaces import from_world
from horizon_imagination.errors import UsageError
from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import Context
from horizon_imagination.streams import derive_seed
from horizon_imagination.types import NO_ACTION, Actions, Latents, Schedule

Videos = UInt8[Tensor, "video time channel height width"]


@dataclass(frozen=True)
class Scenes:
    """Stretches of single episodes on the CPU: context frames, then what really followed."""

    frames: Videos
    actions: Shaped[Tensor, "video horizon *entry"]
    """`actions[:, t]` was taken on frame t; one less than frames."""
    noise: Float[Tensor, "video horizon latent y x"]
    context: int

    @property
    def truth(self) -> Videos:
        """The real frames after the context."""
        return self.frames[:, self.context :]

    @property
    def held(self) -> Videos:
        """The last context frame, repeated: the baseline that imagines nothing."""
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


def sample_scenes(
    agent: Agent, store: Store, *, videos: int, horizon: int, context: int, seed: int
) -> Scenes:
    """Different stretches, uniformly among all there are, and their noise.

    The noise of all videos is drawn on the CPU in one call: it depends on the seed alone.
    """
    agent.check_fits(str(store.folder), store.frame_shape, store.action_space)
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
        actions=from_world(store.action_space, store.action[index[:, :-1]]),
        noise=uniform_noise(videos, horizon, *agent.latent_shape, rng=rng),
        context=context,
    )


Engine = Literal["window", "plain"]


@dataclass(frozen=True)
class Generated:
    """Videos on the CPU, and what they cost."""

    videos: Videos
    latency: float
    """Median seconds to generate one whole batch of latents, after a warm-up."""
    broken: int
    """Videos with numbers that are not finite."""


@torch.no_grad()
def reconstruct(agent: Agent, videos: Videos, batch: int) -> Videos:
    """Encode and decode the videos: the best a world model over these latents can show."""
    parts = []
    for part in videos.split(batch):
        z = agent.encode(rearrange(part, "n t c h w -> (n t) c h w").to(agent.device))
        parts.append(agent.decode(rearrange(z, "(n t) c h w -> n t c h w", n=len(part))).cpu())
    return torch.cat(parts)


@torch.no_grad()
def generate(
    agent: Agent, scenes: Scenes, schedule: Schedule, *, batch: int, engine: Engine = "window"
) -> Generated:
    """Generate what follows every context, under the recorded actions at every denoising step.

    The first batch warms up and is not timed; where no other whole batch follows it is run again.
    """
    size = min(batch, len(scenes.frames))
    starts = range(0, len(scenes.frames), size)
    videos, seconds, broken = [], [], 0
    window = engine == "window"
    for start in starts:
        inputs = _inputs(agent, scenes, slice(start, start + size))
        begun = _now(agent.device)
        z = clean_latents(agent, *inputs, schedule, window=window)
        seconds.append(_now(agent.device) - begun)
        if start == 0 and len(scenes.frames) < 2 * size:
            begun = _now(agent.device)
            z = clean_latents(agent, *inputs, schedule, window=window)
            seconds.append(_now(agent.device) - begun)
        broken += int((~z.isfinite()).flatten(1).any(1).sum())
        videos.append(agent.decode(z.nan_to_num()).cpu())
    whole = len(scenes.frames) // size
    timed = seconds[1 : max(whole, 2)]
    return Generated(torch.cat(videos), median(timed), broken)


def clean_latents(
    agent: Agent,
    context: Context,
    actions: Actions,
    noise: Latents,
    schedule: Schedule,
    *,
    window: bool,
) -> Latents:
    """What a schedule makes of noise under given actions, by windows or by the plain loop."""
    with autocast(agent.config.runtime, agent.device):
        made = imagine_recorded(agent.world_model, context, actions, noise, schedule, window=window)
    return made.z[-1].float()


def weights_identity(agent: Agent) -> str:
    """A hash of all that generation depends on: tokenizer and the denoiser of imagination."""
    digest = hashlib.sha256()
    for network in (agent.tokenizer, agent.imagination_denoiser):
        for name, value in sorted(network.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def device_name(device: torch.device) -> str:
    """The name of the device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _inputs(agent: Agent, scenes: Scenes, which: slice) -> tuple[Context, Tensor, Tensor]:
    """Context, actions that lead to each generated frame, and noise, on the agent's device."""
    k, device = scenes.context, agent.device
    seen = scenes.frames[which, :k].to(device)
    z = agent.encode(rearrange(seen, "n t c h w -> (n t) c h w")).float()
    actions = scenes.actions[which].to(device)
    context = Context(
        rearrange(z, "(n t) c h w -> n t c h w", t=k), shift_right(actions, NO_ACTION)[:, :k]
    )
    return context, actions[:, k - 1 :], scenes.noise[which].to(device)


def _now(device: torch.device) -> float:
    """The time after synchronising with the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()
