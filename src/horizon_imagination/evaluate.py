"""Evaluation episodes in the real environment, many concurrently, repeatable."""

import contextlib
import typing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, runtime_checkable

import gymnasium
import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float64
from torch import Tensor

from horizon_imagination.actions import ActionSpace, Box, Discrete, MultiDiscrete
from horizon_imagination.config import Config, EnvConfig
from horizon_imagination.device import autocast
from horizon_imagination.envs import make_env
from horizon_imagination.envs.known import atari_game
from horizon_imagination.envs.make import in_own_process
from horizon_imagination.envs.spaces import action_space, random_action, to_world
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.recurrent import RecurrentState
from horizon_imagination.streams import derive_seed

MOST_THREADS = 32
"""Threads that wait for environments in processes of their own."""

OnSteps = Callable[[int, int], None]
ActionProbs = Float64[np.ndarray, " action"]
EpisodeProbs = Float64[np.ndarray, "episode action"]


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
    """Episodes played concurrently."""

    def __post_init__(self) -> None:
        atari = replace(self.env.atari, end_on_life_loss=False)  # whole games, as people play them
        object.__setattr__(self, "env", replace(self.env, atari=atari))

    def lines(self) -> list[str]:
        """The protocol for people."""
        env, atari = self.env, self.env.atari
        said = [
            f"{self.episodes} episodes of {env.id}, seed {self.seed}, {self.envs} concurrently",
            "actions: " + ("the most probable one" if self.greedy else "sampled from the policy"),
            f"frames: {env.size} x {env.size}{' grey' if env.grey else ''}"
            + (f", at most {env.time_limit} steps" if env.time_limit else ""),
        ]
        if atari_game(env.id):
            said.append(
                f"Atari: frame skip {atari.frame_skip}, up to {atari.max_noops} no-ops (in "
                f"{atari.noop_unit}), sticky {atari.sticky:g}, "
                f"{'all 18' if atari.full_actions else 'minimal'} actions, whole games of at most "
                f"{atari.max_frames:,} frames"
            )
        return said

    def to_json(self) -> dict:
        """As plain values."""
        return asdict(self)


@runtime_checkable
class EvaluatedAgent(typing.Protocol):
    """Who plays: an agent, as far as playing needs it."""

    config: Config
    device: torch.device
    actor: Actor

    def encode(self, frames: Tensor) -> Tensor:
        """Latents of frames [batch, channel, height, width]."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """Episodes that were played, and how."""

    protocol: Protocol
    episodes: list[EpisodeResult]

    @property
    def returns(self) -> list[float]:
        """The return of every episode."""
        return [episode.total_reward for episode in self.episodes]

    @property
    def mean(self) -> float:
        """The mean return."""
        return sum(self.returns) / len(self.returns)


def evaluate(
    agent: EvaluatedAgent | None,
    protocol: Protocol,
    *,
    films: Sequence[list[np.ndarray]] = (),
    on_steps: OnSteps = lambda ended, steps: None,
) -> list[EpisodeResult]:
    """Play episodes with the agent, or at random without one.

    Episode i has its own world and its own dice, whoever plays beside it; when one ends, the next
    takes its place. `films[i]` receives the frames of episode i, `on_steps` the episodes that ended
    and the steps that were taken since the last call.
    """
    waiting = iter(range(protocol.episodes))
    results: dict[int, EpisodeResult] = {}
    playing = [_Episode(protocol, number) for number in islice(waiting, protocol.envs)]
    with contextlib.ExitStack() as closing:
        each = _together(protocol, closing)
        closing.callback(lambda: [episode.close() for episode in playing])
        list(each(_Episode.begin, playing))
        players = _Players(agent, action_space(playing[0].env))
        while playing:
            for episode in playing:
                episode.film(films)
            step = partial(_Episode.step, space=players.space, greedy=protocol.greedy)
            over = each(step, playing, players.policies(playing))
            ended = [place for place, last in enumerate(over) if last]
            on_steps(len(ended), len(playing))
            begun = []
            for place in reversed(ended):
                done = playing.pop(place)
                done.close()
                results[done.number] = done.result()
                done.film(films)
                number = next(waiting, None)
                if number is None:
                    players.leave(place)
                    continue
                begun.append(_Episode(protocol, number))
                playing.insert(place, begun[-1])
                players.forget(place)
            list(each(_Episode.begin, begun))
    return [results[number] for number in range(protocol.episodes)]


def _together(protocol: Protocol, closing: contextlib.ExitStack) -> Callable[..., Iterable[Any]]:
    """`map`; over environments in processes of their own one that lets them work together."""
    if not in_own_process(protocol.env):
        return map
    return closing.enter_context(ThreadPoolExecutor(min(protocol.envs, MOST_THREADS))).map


class _Episode:
    """One episode that is being played."""

    def __init__(self, protocol: Protocol, number: int) -> None:
        self.number = number
        self.seed = derive_seed(protocol.seed, f"episode {number}") % 2**31
        self.dice = np.random.default_rng(
            derive_seed(protocol.seed, f"actions of episode {number}")
        )
        self.protocol = protocol
        self._env: gymnasium.Env | None = None
        self.frame = np.zeros(0, dtype=np.uint8)
        self.total, self.length, self.ended = 0.0, 0, ""

    @property
    def env(self) -> gymnasium.Env:
        """Its own environment, once it has begun."""
        assert self._env is not None
        return self._env

    def begin(self) -> None:
        """Make the environment and see the first frame."""
        self._env = make_env(self.protocol.env, self.seed)
        self.frame = self.env.reset(seed=self.seed)[0]

    def close(self) -> None:
        """Let go of the environment, if there is one."""
        if self._env is not None:
            self._env.close()

    def step(self, policy: ActionProbs | None, space: ActionSpace, greedy: bool) -> bool:
        """Take an action; whether it was the last."""
        action = chosen_action(space, policy, self.dice, greedy)
        self.frame, reward, terminated, truncated, info = self.env.step(action)
        self.total += float(reward)
        self.length += 1
        if terminated or truncated:
            self.ended = "terminated" if terminated else "truncated"
            if "failure" in info:
                self.ended = f"failed: {info['failure']}"
        return bool(self.ended)

    def film(self, films: Sequence[list[np.ndarray]]) -> None:
        """Keep the frame, if this episode is filmed."""
        if self.number < len(films):
            films[self.number].append(self.frame.copy())

    def result(self) -> EpisodeResult:
        """What came of it."""
        return EpisodeResult(self.seed, self.total, self.length, self.ended)


class _Players:
    """The agent's recurrent states of several concurrent episodes; without an agent, nothing."""

    def __init__(self, agent: EvaluatedAgent | None, space: ActionSpace) -> None:
        self.agent, self.space = agent, space
        self.state: RecurrentState | None = None

    @torch.no_grad()
    def policies(self, playing: list[_Episode]) -> EpisodeProbs | list[None]:
        """The policy in every episode: probabilities, or means and deviations; none for random."""
        agent, space = self.agent, self.space
        if agent is None:
            if not isinstance(space, Discrete):
                return [None] * len(playing)
            return np.full((len(playing), space.n), 1 / space.n)
        frames = torch.from_numpy(np.stack([episode.frame for episode in playing]))
        z = agent.encode(rearrange(frames, "b h w c -> b c h w").to(agent.device))
        if self.state is None:
            self.state = agent.actor.lstm.zero_state(len(z), z)
        with autocast(agent.config.runtime, agent.device):
            logits, states = agent.actor(rearrange(z, "b c h w -> b 1 c h w"), None, self.state)
        self.state = states.at(-1)
        return space.policy(logits[:, -1].double()).cpu().numpy()

    def forget(self, place: int) -> None:
        """Another episode begins here."""
        if self.state is not None:
            for part in self.state:
                part[place] = 0

    def leave(self, place: int) -> None:
        """No other episode begins here."""
        if self.state is not None:
            kept = [p for p in range(len(self.state.h)) if p != place]
            self.state = RecurrentState(self.state.h[kept], self.state.c[kept])


def chosen_action(
    space: ActionSpace, policy: ActionProbs | None, dice: np.random.Generator, greedy: bool
) -> Any:
    """An action of the world, by these dice; without a policy a random one."""
    if policy is None:
        return random_action(space, dice)
    if isinstance(space, Box):
        mean, std = np.split(policy, 2)
        value = mean if greedy else mean + std * dice.standard_normal(len(mean))
        return to_world(space, torch.from_numpy(np.tanh(value)))
    parts = [policy] if isinstance(space, Discrete) else np.split(policy, _ends(space))
    chosen = [int(p.argmax()) if greedy else sampled_action(p, dice.random()) for p in parts]
    return chosen[0] if isinstance(space, Discrete) else np.array(chosen)


def _ends(space: MultiDiscrete) -> np.ndarray:
    return np.cumsum(space.factors)[:-1]


def sampled_action(policy: ActionProbs, omega: float) -> int:
    """The action whose share of [0, 1) holds omega.

    >>> policy = np.array([0.25, 0.0, 0.75])
    >>> [sampled_action(policy, omega) for omega in (0.0, 0.2499, 0.25, 0.9999)]
    [0, 0, 2, 2]
    """
    shares = policy.cumsum()
    return int(np.searchsorted(shares, omega * shares[-1], side="right").clip(max=len(shares) - 1))
