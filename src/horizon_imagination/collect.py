"""Acting in the real world and storing what happened."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from horizon_imagination.actions import Discrete
from horizon_imagination.agent import Agent
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import autocast
from horizon_imagination.engine.graph import StepGraph
from horizon_imagination.envs.atari import LIFE_LOST
from horizon_imagination.envs.spaces import single, to_world
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.recurrent import RecurrentState

Decide = Callable[[tuple[Tensor, RecurrentState]], tuple[Tensor, RecurrentState]]
"""Frames and the memory before them -> actions and the memory after them."""


@dataclass
class Collected:
    """What a collection phase saw: games that ended in it, and failures of the environment."""

    steps: int = 0
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    failures: int = 0


@dataclass
class Unfinished:
    """A collection phase that is under way: all that it needs to go on as if never interrupted."""

    seen: Collected
    state: RecurrentState | None = None
    """The actor's memory of the episode."""
    pending: Any = None
    """The action that was drawn and not answered yet by the environment."""


class Collector:
    """Steps one environment and appends to the store.

    The store's open episode is the running one; its last frame is what the agent sees now.
    Whatever interrupts a collection, `unfinished` is what the next call goes on with.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        store: Store,
        replay: Replay,
        agent: Agent,
        rng: torch.Generator,
        actor: Actor | None = None,
    ) -> None:
        """`actor` is the agent's, or a copy of it that acts while the agent's own learns."""
        self.env, self.store, self.replay, self.agent, self.rng = env, store, replay, agent, rng
        self.actor = agent.actor if actor is None else actor
        self._decide = decider(agent, self.actor, rng)
        self.unfinished: Unfinished | None = None

    def collect(
        self,
        steps: int,
        *,
        trained: bool,
        on_step: Callable[[], None] = lambda: None,
        on_failure: Callable[[str], None] = lambda text: None,
    ) -> Collected:
        """Take steps with the policy, or with its prior while it is untrained."""
        self.advance(steps, trained=trained, on_step=on_step, on_failure=on_failure)
        return self.finish()

    def finish(self) -> Collected:
        """What the collection saw; the next one begins anew."""
        now, self.unfinished = self.unfinished, None
        return now.seen if now is not None else Collected()

    def advance(
        self,
        steps: int,
        *,
        trained: bool,
        on_step: Callable[[], None] = lambda: None,
        on_failure: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Go on until the collection has so many steps."""
        if self.unfinished is None:
            state = self._primed() if trained and self.store.is_open else None
            self.unfinished = Unfinished(Collected(), state)
        now = self.unfinished
        while now.seen.steps < steps:
            if not self.store.is_open:
                self._begin(now, on_failure)
            if now.pending is None and trained:
                now.pending, now.state = self._act(now.state)
            elif now.pending is None:
                now.pending = self._prior()
            self._step(now, now.pending, on_failure)
            on_step()

    def _begin(self, now: Unfinished, on_failure: Callable[[str], None]) -> None:
        observation, info = self.env.reset()
        if "failure" in info:
            now.seen.failures += 1
            on_failure(f"{info['failure']} (at reset)")
        self.store.begin(_frame(observation))
        now.state = now.pending = None

    def _step(self, now: Unfinished, action: Any, on_failure: Callable[[str], None]) -> None:
        observation, reward, terminated, truncated, info = self.env.step(action)
        kept = {key: info[key] for key in ("failure", LIFE_LOST) if key in info}
        self.store.add(action, float(reward), terminated, truncated, _frame(observation), kept)
        now.pending = None
        now.seen.steps += 1
        if "failure" in kept:
            now.seen.failures += 1
            on_failure(str(kept["failure"]))
        if (terminated or truncated) and LIFE_LOST not in kept:
            self._ended(now.seen)

    def _ended(self, seen: Collected) -> None:
        """Count the game that is over: its last episode and, where a lost life ends one, those of
        the lives before."""
        starts = self.store.starts
        first = len(starts) - 1
        while first > 0 and LIFE_LOST in self.store.info(int(starts[first - 1])):
            first -= 1
        start = int(starts[first])
        seen.returns.append(float(self.store.reward[start:].sum()))
        seen.lengths.append(self.store.num_frames - start - (len(starts) - first))

    @torch.no_grad()
    def _primed(self) -> RecurrentState | None:
        """The actor's state after the latest real frames, the current one left out."""
        segment = self.replay.latest(self.agent.config.controller.context + 1)
        if segment.frames.shape[1] < 2:
            return None
        z = self.agent.encode(segment.frames[0, :-1].to(self.agent.device))
        with autocast(self.agent.config.runtime, self.agent.device):
            return self.actor(rearrange(z, "t c h w -> 1 t c h w"))[1].at(-1)

    def _act(self, state: RecurrentState | None) -> tuple[Any, RecurrentState]:
        frame = torch.from_numpy(self.store.frames[self.store.num_frames - 1].copy())
        frames = rearrange(frame, "c h w -> 1 c h w").to(self.agent.device)
        if state is None:
            like = torch.empty(0, device=self.agent.device)
            state = self.actor.lstm.zero_state(1, like)
        action, after = self._decide((frames, state))
        return single(to_world(self.agent.action_space, action.cpu())), after

    def _prior(self) -> Any:
        """An action from the policy's prior: uniform, but for the actor's bias."""
        space, bias = self.agent.action_space, self.agent.config.controller.actor_bias
        if not isinstance(space, Discrete):
            return single(to_world(space, space.random(1, rng=self.rng).cpu()))
        bias = bias or (0.0,) * space.n
        probs = torch.tensor(bias, device=self.rng.device).softmax(0)
        return int(torch.multinomial(probs, 1, generator=self.rng))


def decider(agent: Agent, actor: Actor, rng: torch.Generator) -> Decide:
    """How an actor decides on new frames of the agent's world; captured where its steps are."""

    @torch.no_grad()
    def decide(seen: tuple[Tensor, RecurrentState]) -> tuple[Tensor, RecurrentState]:
        frames, state = seen
        z = agent.encode(frames)
        with autocast(agent.config.runtime, agent.device):
            return actor.act(rearrange(z, "b c h w -> b 1 c h w"), state, rng)

    return StepGraph(decide, [rng]) if agent.captured else decide


def _frame(observation: np.ndarray) -> np.ndarray:
    """Height, width, channel as the environment has it; channel first as the store wants it."""
    return np.ascontiguousarray(rearrange(observation, "h w c -> c h w"))
