"""Recording a dataset with a random or a trained policy."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from einops import rearrange

from horizon_imagination.agent import Agent
from horizon_imagination.config import EnvConfig
from horizon_imagination.data import Store
from horizon_imagination.envs import make_env
from horizon_imagination.envs.known import frame_shape
from horizon_imagination.envs.spaces import action_space, random_action
from horizon_imagination.errors import UsageError
from horizon_imagination.files import output_folder
from horizon_imagination.streams import derive_seed


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What to record."""

    env: EnvConfig
    out: Path
    episodes: int | None = None
    """Stop after so many episodes."""
    steps: int | None = None
    """Stop after so many steps; the last episode is then cut."""
    seed: int = 0
    greedy: bool = False
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where the agent comes from: its run, its snapshot and how long it was trained."""


def record(
    what: Recording, agent: Agent | None, on_step: Callable[[bool], None] = lambda ended: None
) -> Path:
    """Write a sealed dataset, which appears in its place only once it is complete."""
    if (what.episodes is None) == (what.steps is None):
        raise UsageError("say how much to record: --episodes N or --steps N, one of them")
    if (what.episodes or what.steps or 0) < 1:
        raise UsageError("--episodes and --steps must be at least 1")
    if what.out.exists():
        raise UsageError(f"{what.out} exists already; name a new folder for the dataset")
    env = make_env(what.env, derive_seed(what.seed, "record") % 2**31)
    try:
        if agent is not None:
            agent.check_fits(what.env.id, frame_shape(env), action_space(env))
        output_folder(what.out.parent)
        temporary = Path(tempfile.mkdtemp(prefix=f".{what.out.name}.", dir=what.out.parent))
        try:
            _play(env, agent, what, temporary, on_step)
            temporary.chmod(0o755)
            os.rename(temporary, what.out)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    finally:
        env.close()
    return what.out


def _play(
    env: gymnasium.Env,
    agent: Agent | None,
    what: Recording,
    folder: Path,
    on_step: Callable[[bool], None],
) -> None:
    space, shape = action_space(env), frame_shape(env)
    policy = {"policy": "random" if agent is None else "greedy" if what.greedy else "sampled"}
    seen = what.env
    if seen.channels == "stack":
        seen = replace(seen, stack_channels=shape[0])
    store = Store.create(
        folder,
        shape,
        space,
        seen.id,
        env=seen,
        played_by=policy | dict(what.source),
    )
    rng = np.random.default_rng(derive_seed(what.seed, "random actions"))
    steps = episodes = 0
    observation: Any = None
    while episodes < (what.episodes or np.inf) and steps < (what.steps or np.inf):
        if not store.is_open:
            observation, _ = env.reset()
            store.begin(_frame(observation), policy)
            if agent is not None:
                agent.reset(derive_seed(what.seed, f"actions of episode {episodes}") % 2**31)
        if agent is None:
            action = random_action(space, rng)
        else:
            action = agent.act(observation, greedy=what.greedy)
        observation, reward, terminated, truncated, info = env.step(action)
        failure = {"failure": info["failure"]} if "failure" in info else None
        store.add(action, float(reward), terminated, truncated, _frame(observation), failure)
        steps, episodes = steps + 1, episodes + int(terminated or truncated)
        on_step(terminated or truncated)
    store.seal()
    store.close()


def _frame(observation: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rearrange(observation, "h w c -> c h w"))
