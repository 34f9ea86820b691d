"""Evaluation episodes in the real world, many at once, repeatable."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import gymnasium
import numpy as np
import torch
from einops import rearrange

from horizon_imagination.agent import Agent
from horizon_imagination.config import EnvConfig
from horizon_imagination.device import autocast
from horizon_imagination.envs import make_env
from horizon_imagination.envs.make import atari_game
from horizon_imagination.learn.streams import derive_seed
from horizon_imagination.models.recurrent import State

OnSteps = Callable[[int, int], None]


@dataclass(frozen=True)
class EpisodeResult:
    """One evaluation episode."""

    seed: int
    total_reward: float
    length: int
    ended: str
    """terminated, truncated, or failed with the reason of the simulator."""


@dataclass(frozen=True)
class Protocol:
    """What was evaluated, and how."""

    env: EnvConfig
    episodes: int
    seed: int
    greedy: bool
    envs: int = 16
    """Episodes played at once; which actions are drawn depends on it."""

    def lines(self) -> list[str]:
        """The protocol for people."""
        env, atari = self.env, self.env.atari
        said = [
            f"{self.episodes} episodes of {env.id}, seed {self.seed}, {self.envs} at once",
            "actions: " + ("the most probable one" if self.greedy else "sampled from the policy"),
            f"frames: {env.size} x {env.size}{' grey' if env.grey else ''}"
            + (f", at most {env.time_limit} steps" if env.time_limit else ""),
        ]
        if atari_game(env.id):
            said.append(
                f"Atari: frame skip {atari.frame_skip}, up to {atari.max_noops} no-ops (in "
                f"{atari.noop_unit}), sticky {atari.sticky:g}, "
                f"{'all 18' if atari.full_actions else 'minimal'} actions, "
                f"{'ends' if atari.end_on_life_loss else 'no end'} on life loss, at most "
                f"{atari.max_frames:,} frames"
            )
        return said

    def to_json(self) -> dict:
        """As plain values."""
        return asdict(self)


@torch.no_grad()
def evaluate(
    agent: Agent | None,
    protocol: Protocol,
    *,
    frames_of_first: list[np.ndarray] | None = None,
    on_steps: OnSteps = lambda ended, steps: None,
) -> list[EpisodeResult]:
    """Play episodes with the agent, or at random without one.

    Episode i has its own environment seed; `frames_of_first` receives the first one's frames,
    `on_steps` the episodes that ended and the steps that were taken since the last call.
    """
    results: list[EpisodeResult] = []
    for first in range(0, protocol.episodes, protocol.envs):
        count = min(protocol.envs, protocol.episodes - first)
        seeds = [derive_seed(protocol.seed, f"episode {first + i}") % 2**31 for i in range(count)]
        film = frames_of_first if first == 0 else None
        results += _play(agent, protocol, seeds, first, film, on_steps)
    return results


def _play(
    agent: Agent | None,
    protocol: Protocol,
    seeds: list[int],
    first: int,
    film: list[np.ndarray] | None,
    on_steps: OnSteps,
) -> list[EpisodeResult]:
    worlds: list[gymnasium.Env] = []
    try:
        for seed in seeds:
            worlds.append(make_env(protocol.env, seed))
        frames = np.stack([env.reset(seed=s)[0] for env, s in zip(worlds, seeds, strict=True)])
        device = agent.device if agent else torch.device("cpu")
        rng = torch.Generator(device)
        rng.manual_seed(derive_seed(protocol.seed, f"actions from episode {first}"))
        state: State | None = None
        results: dict[int, EpisodeResult] = {}
        totals, lengths = np.zeros(len(worlds)), np.zeros(len(worlds), dtype=int)
        while len(results) < len(worlds):
            if film is not None and 0 not in results:
                film.append(frames[0].copy())
            actions, state = _actions(agent, frames, state, rng, protocol.greedy, worlds)
            playing = len(worlds) - len(results)
            for i, env in enumerate(worlds):
                if i in results:
                    continue
                frames[i], reward, terminated, truncated, info = env.step(int(actions[i]))
                totals[i] += float(reward)
                lengths[i] += 1
                if terminated or truncated:
                    ended = "terminated" if terminated else "truncated"
                    ended = f"failed: {info['failure']}" if "failure" in info else ended
                    results[i] = EpisodeResult(seeds[i], float(totals[i]), int(lengths[i]), ended)
                    if i == 0 and film is not None:
                        film.append(frames[0].copy())
            on_steps(playing - (len(worlds) - len(results)), playing)
        return [results[i] for i in range(len(worlds))]
    finally:
        for env in worlds:
            env.close()


def _actions(
    agent: Agent | None,
    frames: np.ndarray,
    state: State | None,
    rng: torch.Generator,
    greedy: bool,
    worlds: list[gymnasium.Env],
) -> tuple[np.ndarray, State | None]:
    if agent is None:
        num_actions = int(worlds[0].action_space.n)  # type: ignore[attr-defined]
        drawn = torch.randint(num_actions, (len(frames),), generator=rng)
        return drawn.numpy(), None
    observed = rearrange(torch.from_numpy(frames), "b h w c -> b c h w").to(agent.device)
    z = agent.encode(observed)
    if state is None:
        state = agent.actor.lstm.zero_state(len(z), z)
    with autocast(agent.config.runtime, agent.device):
        drawn, state = agent.actor.act(
            rearrange(z, "b c h w -> b 1 c h w"), state, rng, greedy=greedy
        )
    return drawn.cpu().numpy(), state
