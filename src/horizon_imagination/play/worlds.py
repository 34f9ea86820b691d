"""The worlds a player acts in, frame by frame: the real one, and the world model.

Both are seen through the agent's networks, which read a reward, an end, a value and a policy off
every frame.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.device import autocast
from horizon_imagination.engine.dream import Start, imagine_recorded
from horizon_imagination.envs.spaces import from_world
from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import Context
from horizon_imagination.models.recurrent import RecurrentState
from horizon_imagination.schedules import autoregressive_schedule
from horizon_imagination.timing import call_seconds, choose_threads
from horizon_imagination.types import Actions, Latents, no_action

Picture = UInt8[np.ndarray, "height width channel"]


class Reading(NamedTuple):
    """What the networks say of a frame."""

    reward: float
    """Of the step that led to the frame."""
    end: float
    """Chance that this step ended the episode."""
    value: float
    """Return that the critic expects from here."""
    policy: tuple[float, ...]
    """Probability of every action, or means and deviations of a vector before its tanh."""


@dataclass(frozen=True)
class Moment:
    """A frame of an episode: what led to it, and what the networks say of it."""

    picture: Picture
    reading: Reading
    reward: float
    """Received in the real world, predicted in the model."""
    terminated: bool
    truncated: bool

    @property
    def ended(self) -> bool:
        """Whether no step follows."""
        return self.terminated or self.truncated


@dataclass(frozen=True)
class Track:
    """An episode so far: its latest latents, and what the networks remember of all of them."""

    z: Latents
    prev_actions: Actions
    """The action that led to each of the latents, as the agent has them; none led to the first."""
    memory: tuple[RecurrentState | None, RecurrentState | None, RecurrentState | None]
    """States of actor, critic and reward model after the last frame."""
    reading: Reading

    def start(self, frames: int) -> Start:
        """The last frames as actor and denoiser take them."""
        z, led = self.z[:, -frames:], self.prev_actions[:, -frames:]
        taken = torch.cat([led[:, 1:], torch.zeros_like(led[:, :1])], dim=1)
        return Start(z, taken, torch.ones(z.shape[:2], dtype=torch.bool, device=z.device))

    def context(self, frames: int) -> Context:
        """The last frames as the denoiser takes them; before the first there is no action."""
        led = self.prev_actions[:, -frames:].clone()
        led[:, 0] = no_action(led)
        return Context(self.z[:, -frames:], led)


class PlayedAgent:
    """An agent's networks, asked about one episode at a time."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        cfg = agent.config
        self.context = max(cfg.world_model.segment_length - 1, cfg.imagination.context)
        """Frames the world model looks back on in play: as many as it was trained with."""
        self.kept = max(self.context, cfg.controller.context)

    def led(self, actions: Sequence[Any]) -> Actions:
        """Actions of the world in a row, as the agent has them; None stands for no action."""
        space = self.agent.action_space
        blank = np.zeros(space.shape)
        taken = np.stack([np.asarray(blank if a is None else a) for a in actions])
        found = from_world(space, taken)[None].to(self.agent.device)
        absent = [i for i, action in enumerate(actions) if action is None]
        found[:, absent] = torch.full_like(found[:, absent], no_action(found))
        return found

    @torch.no_grad()
    def track(
        self, frames: UInt8[Tensor, "time channel height width"], actions: Sequence[Any]
    ) -> Track:
        """An episode of which these frames have been seen; an action led to each, or None."""
        z = rearrange(self.agent.encode(frames.to(self.agent.device)), "t c h w -> 1 t c h w")
        return self._seen(z, z, self.led(actions), (None, None, None), first=len(frames) == 1)

    @torch.no_grad()
    def follow(self, track: Track, z: Latents, action: Any) -> Track:
        """The episode one frame later."""
        latest = torch.cat([track.z, z], dim=1)[:, -self.kept :]
        led = torch.cat([track.prev_actions, self.led([action])], dim=1)
        return self._seen(z, latest, led, track.memory, first=False)

    def encode(self, picture: Picture) -> Float[Tensor, "1 1 _ _ _"]:
        """The latent of a frame as a world shows it."""
        frame = torch.from_numpy(np.ascontiguousarray(rearrange(picture, "h w c -> 1 c h w")))
        return rearrange(self.agent.encode(frame.to(self.agent.device)), "b c h w -> b 1 c h w")

    def decode(self, z: Latents) -> UInt8[np.ndarray, "time _ _ _"]:
        """Pictures of the latents of one episode."""
        return rearrange(self.agent.decode(z)[0].cpu().numpy(), "t c h w -> t h w c")

    @torch.no_grad()
    def imagine_next(self, track: Track, action: Any, steps: int, rng: torch.Generator) -> Latents:
        """The frame that an action leads to in the world model, denoised in so many steps."""
        noise = uniform_noise(1, 1, *self.agent.latent_shape, rng=rng)
        with autocast(self.agent.config.runtime, self.agent.device):
            imagined = imagine_recorded(
                self.agent.world_model,
                track.context(self.context),
                self.led([action]),
                noise,
                autoregressive_schedule(1, steps),
            )
        return imagined.z[-1]

    def _seen(
        self,
        z: Latents,
        latest: Float[Tensor, "batch kept channel height width"],
        led: Shaped[Tensor, "batch led *entry"],
        memory: tuple[RecurrentState | None, RecurrentState | None, RecurrentState | None],
        first: bool,
    ) -> Track:
        agent = self.agent
        with autocast(agent.config.runtime, agent.device):
            (policy, acted), (value, judged) = (
                network(z, None, m)
                for network, m in zip((agent.actor, agent.critic), memory, strict=False)
            )
            reward, end, read = self._reward_and_end(z, latest, memory[2])
        logits = policy[0, -1].float()
        reading = Reading(
            reward=0.0 if first else reward,  # no step led to the first frame of an episode
            end=0.0 if first else end,
            value=float(agent.critic.readout.value(value.float())[0, -1]),
            policy=tuple(agent.action_space.policy(logits).tolist()),
        )
        states = acted.at(-1), judged.at(-1), read
        return Track(latest, led[:, -latest.shape[1] :], states, reading)

    def _reward_and_end(
        self,
        z: Latents,
        latest: Float[Tensor, "batch kept channel height width"],
        memory: RecurrentState | None,
    ) -> tuple[float, float, RecurrentState | None]:
        """What is read off the last frame: by the reward model, which remembers the episode, or
        by a given world model, from the frames that are kept."""
        if self.agent.given_world:
            reward, end = self.agent.world_model.reward_and_end(latest)
            return float(reward[0, -1]), float(end[0, -1]), None
        model = self.agent.reward
        out, states = model(z, None, memory)
        raw, logits = model.split(out.float())
        chance = logits.softmax(-1)[0, -1, 1]
        return float(model.readout.value(raw)[0, -1]), float(chance), states.at(-1)


class RealWorld:
    """An environment, followed by the networks; unseen, it follows the actions alone."""

    def __init__(self, env: gymnasium.Env, networks: PlayedAgent) -> None:
        self.env, self.networks = env, networks
        self._seen: deque[tuple[Picture, Any]] = deque(maxlen=networks.kept)
        self._track: Track | None = None
        self.last = (0.0, False, False)
        """Reward and ends of the latest step."""

    @property
    def ended(self) -> bool:
        """Whether no step follows."""
        return self.last[1] or self.last[2]

    @property
    def track(self) -> Track:
        """The episode so far; of what was not seen, the latest frames are looked at now."""
        if self._track is None:
            pictures = np.stack([picture for picture, _ in self._seen])
            frames = torch.from_numpy(rearrange(pictures, "t h w c -> t c h w").copy())
            self._track = self.networks.track(frames, [action for _, action in self._seen])
        return self._track

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode."""
        picture, _ = self.env.reset(seed=seed)
        self._seen.clear()
        self._seen.append((picture.copy(), None))
        self._track, self.last = None, (0.0, False, False)

    def step(self, action: Any, *, seen: bool) -> None:
        """Take an action; the networks look at the frame only if anyone does."""
        before = self.track if seen else None
        picture, reward, terminated, truncated, _ = self.env.step(action)
        self._seen.append((picture.copy(), action))
        self.last = (float(reward), bool(terminated), bool(truncated))
        self._track = None
        if before is not None:
            self._track = self.networks.follow(before, self.networks.encode(picture), action)

    def look(self) -> Moment:
        """The present."""
        return Moment(self._seen[-1][0], self.track.reading, *self.last)


class ModelWorld:
    """The denoiser as a world: every step denoises one frame."""

    def __init__(self, networks: PlayedAgent, seed: int) -> None:
        self.networks, self.steps = networks, 2
        """Denoising steps a frame."""
        self.rng = torch.Generator(networks.agent.device).manual_seed(seed)

    def begin(self, track: Track) -> None:
        """Go on from an episode, real or imagined."""
        self.track = track

    def step(self, action: Any) -> Moment:
        """Imagine the frame that an action leads to."""
        z = self.networks.imagine_next(self.track, action, self.steps, self.rng)
        self.track = self.networks.follow(self.track, z, action)
        reading = self.track.reading
        picture = self.networks.decode(z)[0]
        return Moment(picture, reading, reading.reward, reading.end > 0.5, False)


SLOW = 0.5
"""Seconds of a step from which on no time is spent on a trial."""


def take_threads(networks: PlayedAgent, track: Track, most: int) -> None:
    """On a CPU, take the number of threads that plays fastest beside whatever else runs now."""
    if networks.agent.device.type != "cpu":
        return
    world = ModelWorld(networks, seed=0)

    def step() -> None:
        world.begin(track)
        world.step(np.zeros(networks.agent.action_space.shape))

    if call_seconds(step, networks.agent.device, warm_up=1).wall < SLOW:
        torch.set_num_threads(choose_threads(step, most).threads)
