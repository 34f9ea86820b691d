"""Videos from contexts, recorded actions and given noise, and how long they take."""

import hashlib
import time
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.data.segment import shift_right
from horizon_imagination.device import autocast
from horizon_imagination.engine.fused import FusedDenoiser
from horizon_imagination.engine.rollout import RecordedActor, imagine_windowed
from horizon_imagination.imagination import Context, imagine, recorded_actor
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.studies.quality_scenes import Scenes, Videos
from horizon_imagination.types import NO_ACTION, Actions, Latents, Schedule

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
    """The videos through encoder and decoder: what a perfect world model would show."""
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
    denoiser = agent.window_denoiser() if engine == "window" else None
    for start in starts:
        inputs = _inputs(agent, scenes, slice(start, start + size))
        begun = _now(agent.device)
        z = follow(agent, *inputs, schedule, denoiser)
        seconds.append(_now(agent.device) - begun)
        if start == 0 and len(scenes.frames) < 2 * size:
            begun = _now(agent.device)
            z = follow(agent, *inputs, schedule, denoiser)
            seconds.append(_now(agent.device) - begun)
        broken += int((~z.isfinite()).flatten(1).any(1).sum())
        videos.append(agent.decode(z.nan_to_num()).cpu())
    whole = len(scenes.frames) // size
    timed = seconds[1 : max(whole, 2)]
    return Generated(torch.cat(videos), median(timed), broken)


def follow(
    agent: Agent,
    context: Context,
    actions: Actions,
    noise: Latents,
    schedule: Schedule,
    denoiser: Denoiser | FusedDenoiser | None,
) -> Latents:
    """The clean latents that a schedule makes of noise under given actions.

    By windows of the denoiser, or without one through the plain loop.
    """
    with autocast(agent.config.runtime, agent.device):
        if denoiser is not None:
            actor = RecordedActor(actions)
            made = imagine_windowed(denoiser, actor, noise, schedule, context, record=False)
        else:
            made = imagine(
                agent.dreamer,
                recorded_actor(actions[:, 1:]),
                noise,
                schedule,
                context=context,
                first_action=actions[:, 0],
            )
    return made.z[-1].float()


def weights_identity(agent: Agent) -> str:
    """A hash of all that generation depends on: tokenizer and the denoiser of imagination."""
    digest = hashlib.sha256()
    for network in (agent.tokenizer, agent.dreamer):
        for name, value in sorted(network.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def device_name(device: torch.device) -> str:
    """What latencies were measured on."""
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
    """The time, once the device has done all it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()
