"""Fifty steps in a world: whether it keeps its contract, what it shows, how fast it is."""

import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from horizon_imagination.actions import ActionSpace
from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.frames import view_of
from horizon_imagination.envs.make import make_env
from horizon_imagination.envs.spaces import action_space, random_action
from horizon_imagination.envs.state import snapshot

RAMP = " .:-=+*#%@"
"""From dark to bright."""


@dataclass(frozen=True)
class EnvTrial:
    """What a world did while actions were drawn at random."""

    action_space: ActionSpace
    frame: UInt8[np.ndarray, "height width channel"]
    """The last one."""
    reading: str
    """How its pictures are read."""
    steps: int
    episodes: int
    """That ended."""
    rewards: tuple[float, float]
    """Lowest and highest."""
    seconds: float
    restorable: bool
    """Whether a resumed run goes on in the middle of an episode."""


def try_env(cfg: EnvConfig, steps: int = 50, seed: int = 0) -> EnvTrial:
    """Play at random; what the world does against Gymnasium's contract is raised."""
    env, rng = make_env(cfg, seed), np.random.default_rng(seed)
    try:
        frame, _ = env.reset(seed=seed)
        space, rewards, episodes = action_space(env), [], 0
        begun = time.perf_counter()
        for _ in range(steps):
            frame, reward, terminated, truncated, _ = env.step(random_action(space, rng))
            rewards.append(reward)
            if terminated or truncated:
                episodes += 1
                frame, _ = env.reset()
        seconds, view = time.perf_counter() - begun, view_of(env)
        reading = view.line() if view else f"frames that {cfg.id} draws itself"
        bounds = (min(rewards), max(rewards))
        return EnvTrial(
            space, frame, reading, steps, episodes, bounds, seconds, snapshot(env) is not None
        )
    finally:
        env.close()


def as_text(frame: UInt8[np.ndarray, "height width channel"], columns: int = 48) -> str:
    """The frame in letters: brightness alone, for any terminal; of a stack the maximum."""
    rgb = frame.shape[2] == 3
    grey, height = frame.mean(axis=2) if rgb else frame.max(axis=2), max(1, columns // 2)
    down = np.linspace(0, grey.shape[0] - 1, height).round().astype(int)
    across = np.linspace(0, grey.shape[1] - 1, columns).round().astype(int)
    level = (grey[down][:, across] / 256 * len(RAMP)).astype(int)
    return "\n".join("".join(RAMP[x] for x in row) for row in level)
