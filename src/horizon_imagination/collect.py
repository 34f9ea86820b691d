"""Acting in the real world and storing what happened."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import autocast
from horizon_imagination.learn.graph import StepGraph
from horizon_imagination.models.recurrent import State


@dataclass
class Collected:
    """What a collection phase saw: episodes that ended in it, and failures of the environment."""

    steps: int = 0
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Collector:
    """Steps one environment and appends to the store.

    The store's open episode is the running one; its last frame is what the agent sees now.
    """

    def __init__(
        self, env: gymnasium.Env, store: Store, replay: Replay, agent: Agent, rng: torch.Generator
    ) -> None:
        self.env, self.store, self.replay, self.agent, self.rng = env, store, replay, agent, rng
        self._decide = StepGraph(self._policy, [rng]) if agent.captured else self._policy

    def collect(
        self, steps: int, *, trained: bool, on_step: Callable[[], None] = lambda: None
    ) -> Collected:
        """Take steps with the policy, or with its prior while it is untrained."""
        seen = Collected(steps=steps)
        state = self._primed() if trained and self.store.is_open else None
        for _ in range(steps):
            if not self.store.is_open:
                observation, info = self.env.reset()
                if "failure" in info:
                    seen.failures.append(f"{info['failure']} (at reset)")
                self.store.begin(_frame(observation))
                state = None
            action, state = self._act(state) if trained else (self._prior(), None)
            observation, reward, terminated, truncated, info = self.env.step(action)
            failure: dict[str, Any] = {"failure": info["failure"]} if "failure" in info else {}
            self.store.add(
                action, float(reward), terminated, truncated, _frame(observation), failure or None
            )
            if failure:
                seen.failures.append(str(failure["failure"]))
            if terminated or truncated:
                self._ended(seen)
            on_step()
        return seen

    def _ended(self, seen: Collected) -> None:
        start = int(self.store.starts[-1])
        seen.returns.append(float(self.store.reward[start:].sum()))
        seen.lengths.append(self.store.num_frames - start - 1)

    @torch.no_grad()
    def _primed(self) -> State | None:
        """The actor's state after the latest real frames, the current one left out."""
        segment = self.replay.latest(self.agent.config.controller.context + 1)
        if segment.frames.shape[1] < 2:
            return None
        z = self.agent.encode(segment.frames[0, :-1].to(self.agent.device))
        with autocast(self.agent.config.runtime, self.agent.device):
            return self.agent.actor(rearrange(z, "t c h w -> 1 t c h w"))[1].at(-1)

    def _act(self, state: State | None) -> tuple[int, State]:
        frame = torch.from_numpy(self.store.frames[self.store.num_frames - 1].copy())
        frames = rearrange(frame, "c h w -> 1 c h w").to(self.agent.device)
        if state is None:
            zero = torch.zeros(1, self.agent.actor.lstm.hidden, device=self.agent.device)
            state = State(zero, zero)
        action, after = self._decide((frames, state))
        return int(action), after

    @torch.no_grad()
    def _policy(self, seen: tuple[Tensor, State]) -> tuple[Tensor, State]:
        frames, state = seen
        z = self.agent.encode(frames)
        with autocast(self.agent.config.runtime, self.agent.device):
            return self.agent.actor.act(rearrange(z, "b c h w -> b 1 c h w"), state, self.rng)

    def _prior(self) -> int:
        """An action from the policy's prior: uniform, but for the actor's bias."""
        bias = self.agent.config.controller.actor_bias or (0.0,) * self.agent.num_actions
        probs = torch.tensor(bias, device=self.rng.device).softmax(0)
        return int(torch.multinomial(probs, 1, generator=self.rng))


def _frame(observation: np.ndarray) -> np.ndarray:
    """Height, width, channel as the environment has it; channel first as the store wants it."""
    return np.ascontiguousarray(rearrange(observation, "h w c -> c h w"))
