"""Returns of a policy step, whoever computes it, on the episodes that `horizon evaluate` plays."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, UInt8
from torch import nn

from horizon_imagination.actions import Box
from horizon_imagination.envs import make_env
from horizon_imagination.envs.spaces import action_space
from horizon_imagination.evaluate import Protocol, chosen_action
from horizon_imagination.export.onnx_file import session
from horizon_imagination.export.policy_graph import GAUSSIAN, PolicyStep
from horizon_imagination.metrics.statistics import bootstrap_interval, mean
from horizon_imagination.streams import derive_seed

Frames = UInt8[np.ndarray, "batch height width channel"]
State = Float32[np.ndarray, "batch hidden"]
StepFn = Callable[[Frames, State, State], tuple[Float[np.ndarray, "batch output"], State, State]]
"""(frames, h, c) -> (policy, next h, next c); the policy is probabilities, or means and deviations.
"""
TOLERANCE = 2.0
"""Standard errors by which the mean return of a smaller policy may lie below that of the policy."""


def torch_step(module: nn.Module) -> StepFn:
    """The step as torch computes it."""
    assert isinstance(module, PolicyStep)
    gaussian = isinstance(module.actor.action_space, Box)

    @torch.no_grad()
    def step(frames: Frames, h: State, c: State):
        given = (torch.from_numpy(np.ascontiguousarray(x)) for x in (frames, h, c))
        *said, h, c = (x.numpy() for x in module(*given))
        return np.concatenate(said, -1) if gaussian else said[0], h, c

    return step


def onnx_step(path: Path) -> StepFn:
    """The step of an exported file, on one thread."""
    runs = session(path)
    gaussian = runs.get_outputs()[1].name == GAUSSIAN[1]

    def step(frames: Frames, h: State, c: State):
        *said, h, c = runs.run(None, {"frames": frames, "h": h, "c": c})
        return np.concatenate(said, -1) if gaussian else said[0], h, c

    return step


@dataclass(frozen=True)
class Score:
    """The returns of some episodes."""

    returns: tuple[float, ...]
    steps: int

    @property
    def mean(self) -> float:
        """The mean return."""
        return mean(list(self.returns))

    def to_json(self) -> dict[str, float | int | list[float]]:
        """The mean and the interval of its resamples, as plain values."""
        interval = bootstrap_interval([list(self.returns)], mean)
        return {
            "mean": self.mean,
            "interval": [interval.low, interval.high],
            "episodes": len(self.returns),
            "steps": self.steps,
        }


def play(
    step: StepFn,
    protocol: Protocol,
    hidden: int,
    on_episode: Callable[[], None] = lambda: None,
) -> Score:
    """Play the episodes of a protocol one after the other."""
    returns, steps = [], 0
    for number in range(protocol.episodes):
        seed = derive_seed(protocol.seed, f"episode {number}") % 2**31
        dice = np.random.default_rng(derive_seed(protocol.seed, f"actions of episode {number}"))
        env = make_env(protocol.env, seed)
        try:
            frame, total, ended = env.reset(seed=seed)[0], 0.0, False
            h, c = (np.zeros((1, hidden), np.float32) for _ in range(2))
            while not ended:
                policy, h, c = step(frame[None], h, c)
                action = chosen_action(
                    action_space(env), policy[0].astype(np.float64), dice, protocol.greedy
                )
                frame, reward, terminated, truncated, _ = env.step(action)
                total, steps, ended = total + float(reward), steps + 1, terminated or truncated
        finally:
            env.close()
        returns.append(total)
        on_episode()
    return Score(tuple(returns), steps)


def keeps(smaller: Score, policy: Score) -> bool:
    """Whether a smaller policy keeps the return, judged by the episodes that both have played.

    >>> policy = Score((1.0, 1.0, -1.0, 1.0), 28)
    >>> keeps(policy, policy), keeps(Score((-1.0, -1.0, -1.0, 1.0), 28), policy)
    (True, True)
    >>> keeps(Score((-1.0, -1.0, -1.0, -1.0), 28), policy)
    False
    """
    change = np.subtract(smaller.returns, policy.returns)
    error = change.std(ddof=1) / len(change) ** 0.5 if len(change) > 1 else 0.0
    return bool(change.mean() >= -TOLERANCE * error)
