"""Evaluation episodes in the real world, many at once, repeatable."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float64

from horizon_imagination.agent import Agent
from horizon_imagination.config import EnvConfig
from horizon_imagination.device import autocast
from horizon_imagination.envs import make_env
from horizon_imagination.envs.make import atari_game
from horizon_imagination.learn.streams import derive_seed
from horizon_imagination.models.recurrent import State

OnSteps = Callable[[int, int], None]
Policy = Float64[np.ndarray, " action"]
Policies = Float64[np.ndarray, "episode action"]


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
    """Episodes played at once."""

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


def evaluate(
    agent: Agent | None,
    protocol: Protocol,
    *,
    frames_of_first: list[np.ndarray] | None = None,
    on_steps: OnSteps = lambda ended, steps: None,
) -> list[EpisodeResult]:
    """Play episodes with the agent, or at random without one.

    Episode i has its own world and its own dice, whoever plays beside it; when one ends, the next
    takes its place. `frames_of_first` receives the first one's frames, `on_steps` the episodes that
    ended and the steps that were taken since the last call.
    """
    waiting = iter(range(protocol.episodes))
    results: dict[int, EpisodeResult] = {}
    playing: list[_Episode] = []
    try:
        for number in islice(waiting, protocol.envs):
            playing.append(_Episode(protocol, number))
            playing[-1].begin()
        players = _Players(agent)
        while playing:
            if frames_of_first is not None and playing[0].number == 0:
                frames_of_first.append(playing[0].frame.copy())
            policies = players.policies(playing)
            ended = [p for p, e in enumerate(playing) if e.step(policies[p], protocol.greedy)]
            on_steps(len(ended), len(playing))
            for place in reversed(ended):
                done = playing.pop(place)
                done.env.close()
                results[done.number] = done.result()
                if frames_of_first is not None and done.number == 0:
                    frames_of_first.append(done.frame.copy())
                number = next(waiting, None)
                if number is None:
                    players.leave(place)
                    continue
                playing.insert(place, _Episode(protocol, number))
                playing[place].begin()
                players.forget(place)
    finally:
        for episode in playing:
            episode.env.close()
    return [results[number] for number in range(protocol.episodes)]


class _Episode:
    """One episode that is being played."""

    def __init__(self, protocol: Protocol, number: int) -> None:
        self.number = number
        self.seed = derive_seed(protocol.seed, f"episode {number}") % 2**31
        self.dice = np.random.default_rng(
            derive_seed(protocol.seed, f"actions of episode {number}")
        )
        self.env = make_env(protocol.env, self.seed)
        self.frame = np.zeros(0, dtype=np.uint8)
        self.total, self.length, self.ended = 0.0, 0, ""

    def begin(self) -> None:
        """See the first frame."""
        self.frame = self.env.reset(seed=self.seed)[0]

    def step(self, policy: Policy, greedy: bool) -> bool:
        """Take an action; whether it was the last."""
        action = int(policy.argmax()) if greedy else draw(policy, self.dice.random())
        self.frame, reward, terminated, truncated, info = self.env.step(action)
        self.total += float(reward)
        self.length += 1
        if terminated or truncated:
            self.ended = "terminated" if terminated else "truncated"
            if "failure" in info:
                self.ended = f"failed: {info['failure']}"
        return bool(self.ended)

    def result(self) -> EpisodeResult:
        """What came of it."""
        return EpisodeResult(self.seed, self.total, self.length, self.ended)


class _Players:
    """What the agent remembers of several episodes at once; without an agent, nothing."""

    def __init__(self, agent: Agent | None) -> None:
        self.agent = agent
        self.state: State | None = None

    @torch.no_grad()
    def policies(self, playing: list[_Episode]) -> Policies:
        """The probabilities of the actions in every episode."""
        agent = self.agent
        if agent is None:
            num_actions = int(playing[0].env.action_space.n)  # type: ignore[attr-defined]
            return np.full((len(playing), num_actions), 1 / num_actions)
        frames = torch.from_numpy(np.stack([episode.frame for episode in playing]))
        z = agent.encode(rearrange(frames, "b h w c -> b c h w").to(agent.device))
        if self.state is None:
            self.state = agent.actor.lstm.zero_state(len(z), z)
        with autocast(agent.config.runtime, agent.device):
            logits, states = agent.actor(rearrange(z, "b c h w -> b 1 c h w"), None, self.state)
        self.state = states.at(-1)
        return logits[:, -1].double().softmax(-1).cpu().numpy()

    def forget(self, place: int) -> None:
        """Another episode begins here."""
        if self.state is not None:
            for part in self.state:
                part[place] = 0

    def leave(self, place: int) -> None:
        """No other episode begins here."""
        if self.state is not None:
            kept = [p for p in range(len(self.state.h)) if p != place]
            self.state = State(self.state.h[kept], self.state.c[kept])


def draw(policy: Policy, omega: float) -> int:
    """The action whose share of [0, 1) holds omega.

    >>> [draw(np.array([0.25, 0.0, 0.75]), omega) for omega in (0.0, 0.2499, 0.25, 0.9999)]
    [0, 0, 2, 2]
    """
    shares = policy.cumsum()
    return int(np.searchsorted(shares, omega * shares[-1], side="right").clip(max=len(shares) - 1))
