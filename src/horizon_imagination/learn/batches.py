"""Batches for the three learners: sampled from a replay, or random ones of the same shapes."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import UInt8
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.data import Replay
from horizon_imagination.data.replay import Rows
from horizon_imagination.device import to_device
from horizon_imagination.engine.dream import Start, left_padded
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.world_model import Experience
from horizon_imagination.streams import Streams

Frames = UInt8[Tensor, "batch channel height width"]


@runtime_checkable
class Batches(Protocol):
    """What the learners are trained on, on the agent's device."""

    def frames(self, count: int) -> Frames:
        """Single frames, for the tokenizer."""
        ...

    def segments(self, count: int, stream: str = "replay", length: int | None = None) -> Experience:
        """Segments of experience, for the world model; `stream` names the random stream. They have
        the length of training, or another one."""
        ...

    def contexts(self, count: int, stream: str = "replay") -> Start:
        """Real contexts that imagination starts from, for the controller."""
        ...


@dataclass(frozen=True)
class ReplayBatches:
    """Batches of stored experience."""

    agent: Agent
    replay: Replay
    latents: LatentCache
    streams: Streams

    def frames(self, count: int) -> Frames:
        """Single frames."""
        return to_device(self.replay.frames(count, self.streams["replay"]), self.agent.device)

    def segments(self, count: int, stream: str = "replay", length: int | None = None) -> Experience:
        """Segments, their frames as latents; those that are learned from reach to more ends, and
        those that are measured do not."""
        length = length or self.agent.config.world_model.segment_length
        share = self.replay.config.end_share if stream == "replay" else 0.0
        rows = self.replay.segment_rows(count, length, self.streams[stream], share)
        steps = self.replay.gather_steps(*rows)
        move: dict[str, Tensor] = {
            name: to_device(value, self.agent.device) for name, value in steps._asdict().items()
        }
        return Experience(z=self.latents.gather(*rows), **move)

    def contexts(self, count: int, stream: str = "replay") -> Start:
        """Contexts that are long enough before the end of their episode."""
        length = self.agent.config.controller.context
        return self.contexts_at(self.replay.context_rows(count, length, self.streams[stream]))

    def contexts_at(self, rows: Rows) -> Start:
        """The contexts at these rows of the replay."""
        steps = self.replay.gather_steps(*rows)
        with torch.no_grad():
            return left_padded(
                self.latents.gather(*rows),
                to_device(steps.action, self.agent.device),
                to_device(rows.mask, self.agent.device),
            )


@dataclass(frozen=True)
class RandomBatches:
    """Batches of random numbers, to time steps without stored experience."""

    agent: Agent
    rng: torch.Generator
    """On the agent's device."""

    def frames(self, count: int) -> Frames:
        """Noise."""
        cfg = self.agent.config.env
        shape = (count, cfg.frame_channels, cfg.size, cfg.size)
        noise = torch.randint(256, shape, generator=self.rng, device=self.rng.device)
        return noise.to(torch.uint8)

    def segments(self, count: int, stream: str = "replay", length: int | None = None) -> Experience:
        """Full segments that do not end."""
        length = length or self.agent.config.world_model.segment_length
        z, actions = self._sequence(count, length)
        reward = torch.randn(z.shape[:2], generator=self.rng, device=self.rng.device)
        ends = torch.zeros_like(reward, dtype=torch.bool)
        return Experience(z, actions, actions.roll(1, 1), reward, ends, ~ends)

    def contexts(self, count: int, stream: str = "replay") -> Start:
        """Full contexts."""
        z, actions = self._sequence(count, self.agent.config.controller.context)
        return Start(z, actions, torch.ones(z.shape[:2], dtype=torch.bool, device=z.device))

    def _sequence(self, count: int, length: int) -> tuple[Tensor, Tensor]:
        agent, place = self.agent, {"generator": self.rng, "device": self.rng.device}
        z = 2 * torch.rand(count, length, *agent.latent_shape, **place) - 1
        return z, agent.action_space.random(count, length, rng=self.rng)
