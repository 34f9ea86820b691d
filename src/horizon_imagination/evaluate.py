"""Evaluation episodes in the real environment, many concurrently, repeatable."""

import contextlib
import typing
from collections.abc import Callable, Sequence
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
from horizon_imagination.envs.crew import Crew, Outcome
from horizon_imagination.envs.known import atari_game
from horizon_imagination.envs.make import in_own_process
from horizon_imagination.envs.spaces import action_space, random_action, to_world
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.recurrent import RecurrentState
from horizon_imagination.streams import derive_seed

MOST_THREADS = 32
"""Threads that wait for environments in processes of their own."""
FEW_CORES = 4
"""Up to so many cores the process that asks the agent plays too."""

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
            f"{self.episodes} episodes of {env.id}, seed {self.seed}, "
            f"{min(self.envs, self.episodes)} concurrently",
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
    workers: int = 1,
) -> list[EpisodeResult]:
    """Play episodes with the agent, or at random without one.

    Episode i has its own world and its own dice, whoever plays beside it; when one ends, the next
    takes its place. `films[i]` receives the frames of episode i, `on_steps` the episodes that ended
    and the steps that were taken since the last call. With several `workers` the environments are
    spread over so many processes; the results are the same.
    """
    waiting = iter(range(protocol.episodes))
    results: dict[int, EpisodeResult] = {}
    playing = [_Episode(protocol, number) for number in islice(waiting, protocol.envs)]
    with contextlib.closing(_environments(protocol, workers)) as envs:
        _begin(envs, playing)
        players = _Players(agent, envs.action_space)
        while playing:
            for episode in playing:
                episode.film(films)
            choose = partial(_Episode.choose, space=players.space, greedy=protocol.greedy)
            actions = list(map(choose, playing, players.policies(playing)))
            outcomes = envs.step([episode.number for episode in playing], actions)
            for episode, outcome in zip(playing, outcomes, strict=True):
                episode.take(*outcome)
            ended = [place for place, episode in enumerate(playing) if episode.ended]
            on_steps(len(ended), len(playing))
            begun = []
            for place in reversed(ended):
                done = playing.pop(place)
                envs.end(done.number)
                results[done.number] = done.result()
                done.film(films)
                number = next(waiting, None)
                if number is None:
                    players.leave(place)
                    continue
                begun.append(_Episode(protocol, number))
                playing.insert(place, begun[-1])
                players.forget(place)
            _begin(envs, begun)
    return [results[number] for number in range(protocol.episodes)]


def _begin(envs: "_Here | Crew", episodes: list["_Episode"]) -> None:
    frames = envs.begin([e.number for e in episodes], [e.seed for e in episodes])
    for episode, frame in zip(episodes, frames, strict=True):
        episode.frame = frame


def default_workers(protocol: Protocol, cores: int) -> int:
    """Processes that are worth their start: one a core for long emulated games, else this one."""
    alone = cores <= FEW_CORES or in_own_process(protocol.env)
    return 1 if alone or not atari_game(protocol.env.id) else min(cores, protocol.envs)


def _environments(protocol: Protocol, workers: int) -> "_Here | Crew":
    if workers > 1 and not in_own_process(protocol.env):
        return Crew(protocol.env, min(workers, protocol.envs, protocol.episodes))
    return _Here(protocol.env)


class _Here:
    """What `Crew` is, in this process, or in processes of their own as the config asks; the latter
    work concurrently."""

    def __init__(self, cfg: EnvConfig) -> None:
        self.cfg = cfg
        self._envs: dict[int, gymnasium.Env] = {}
        self._pool = ThreadPoolExecutor(MOST_THREADS) if in_own_process(cfg) else None
        self._each = map if self._pool is None else self._pool.map

    @property
    def action_space(self) -> ActionSpace:
        """That of the environments, once one has begun."""
        return action_space(next(iter(self._envs.values())))

    def begin(self, numbers: Sequence[int], seeds: Sequence[int]) -> list[np.ndarray]:
        """Make environments and reset each with its seed; their first frames."""
        return list(self._each(self._begin, numbers, seeds))

    def step(self, numbers: Sequence[int], actions: Sequence[Any]) -> list[Outcome]:
        """Take an action in each."""
        return list(self._each(lambda n, action: self._envs[n].step(action), numbers, actions))

    def end(self, number: int) -> None:
        """Close one."""
        self._envs.pop(number).close()

    def close(self) -> None:
        """Close all that are open."""
        for env in self._envs.values():
            env.close()
        if self._pool is not None:
            self._pool.shutdown()

    def _begin(self, number: int, seed: int) -> np.ndarray:
        env = self._envs[number] = make_env(self.cfg, seed)
        return env.reset(seed=seed)[0]


class _Episode:
    """One episode that is being played."""

    def __init__(self, protocol: Protocol, number: int) -> None:
        self.number = number
        self.seed = derive_seed(protocol.seed, f"episode {number}") % 2**31
        self.dice = np.random.default_rng(
            derive_seed(protocol.seed, f"actions of episode {number}")
        )
        self.frame = np.zeros(0, dtype=np.uint8)
        self.total, self.length, self.ended = 0.0, 0, ""

    def choose(self, policy: ActionProbs | None, space: ActionSpace, greedy: bool) -> Any:
        """Its next action, by its own dice."""
        return chosen_action(space, policy, self.dice, greedy)

    def take(
        self, frame: np.ndarray, reward: Any, terminated: bool, truncated: bool, info: dict
    ) -> None:
        """What came of the action."""
        self.frame = frame
        self.total += float(reward)
        self.length += 1
        if terminated or truncated:
            self.ended = "terminated" if terminated else "truncated"
            if "failure" in info:
                self.ended = f"failed: {info['failure']}"

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
