"""An evaluation of a run as a file: what was played and how, every episode, and what it says."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from horizon_imagination.agent import Agent
from horizon_imagination.checkpoint import trained_for
from horizon_imagination.envs import make_env
from horizon_imagination.envs.known import atari_game, frame_shape, reference_scores
from horizon_imagination.envs.spaces import action_space
from horizon_imagination.errors import UsageError
from horizon_imagination.evaluate import EpisodeResult, Protocol
from horizon_imagination.metrics.published import published_at, published_configs
from horizon_imagination.metrics.statistics import (
    bootstrap_interval,
    human_normalized,
    interquartile_mean,
    mean,
    median,
)
from horizon_imagination.run.folder import EVALUATIONS
from horizon_imagination.snapshots import home
from horizon_imagination.version import __version__

BASELINES, RANDOM = "baselines", "random"


def check_protocol(agent: Agent | None, protocol: Protocol) -> None:
    """Refuse what cannot be played, and a world that the agent's networks were not made for."""
    if protocol.episodes < 1 or protocol.envs < 1:
        raise UsageError("--episodes and --parallel must be at least 1")
    env = make_env(protocol.env, protocol.seed)
    shape, actions = frame_shape(env), action_space(env)
    env.close()
    if agent is not None:
        agent.check_fits(protocol.env.id, shape, actions)


def summary(protocol: Protocol, played: list[EpisodeResult]) -> dict[str, Any]:
    """Mean, median, interquartile mean and their bootstrap intervals; known landmarks."""
    scores = [episode.total_reward for episode in played]
    found: dict[str, Any] = {"mean": mean(scores), "median": median(scores)}
    found["interquartile_mean"] = interquartile_mean(scores)
    for name, statistic in (("mean", mean), ("interquartile_mean", interquartile_mean)):
        interval = bootstrap_interval([scores], statistic)
        found[f"{name}_interval"] = [interval.low, interval.high]
    found["failed"] = sum(episode.ended.startswith("failed") for episode in played)
    scores = reference_scores(protocol.env.id)
    if "human" in scores:
        found["human_normalized"] = human_normalized(protocol.env.id, found["mean"])
    return found | scores


def published(env_id: str, env_steps: int) -> dict[str, dict[str, float]]:
    """Training returns of the published runs at the same number of steps, by configuration."""
    name = f"ALE/{game}-v5" if (game := atari_game(env_id)) else env_id
    points = {label: published_at(name, label, env_steps) for label in published_configs(name)}
    return {label: asdict(point) for label, point in points.items() if point is not None}


def evaluation(
    snapshot: Path | None, protocol: Protocol, played: list[EpisodeResult], device: str
) -> dict[str, Any]:
    """An evaluation of a snapshot, or of random play, as plain values."""
    trained = trained_for(snapshot) if snapshot else {}
    return {
        "snapshot": snapshot.name if snapshot else RANDOM,
        "trained": trained,
        "protocol": protocol.to_json(),
        "summary": summary(protocol, played),
        "published": published(protocol.env.id, trained.get("env_steps", 0)) if snapshot else {},
        "episodes": [asdict(episode) for episode in played],
        "device": device,
        "version": __version__,
    }


def evaluation_file(run: Path, snapshot: Path | None, protocol: Protocol) -> Path:
    """Where an evaluation is stored in a run; the same protocol has the same file.

    Random play has a folder of its own: it says nothing about the run's agent.
    """
    told = json.dumps(protocol.to_json(), sort_keys=True).encode()
    name = f"{snapshot.name if snapshot else RANDOM}-{hashlib.sha256(told).hexdigest()[:8]}.json"
    return home(run) / (EVALUATIONS if snapshot else BASELINES) / name


def told(content: dict[str, Any]) -> list[str]:
    """An evaluation for people."""
    s = content["summary"]
    low, high = s["mean_interval"]
    robust_low, robust_high = s["interquartile_mean_interval"]
    lines = [
        f"mean {s['mean']:.4g} (95 % of resamples: {low:.4g} to {high:.4g}), "
        f"median {s['median']:.4g}",
        f"interquartile mean {s['interquartile_mean']:.4g} ({robust_low:.4g} to {robust_high:.4g})",
    ]
    marks = [f"{x} {s[x]:.4g}" for x in ("random", "best", "human") if x in s]
    if marks:
        lines.append(f"for comparison: {', '.join(marks)}")
    if "human_normalized" in s:
        lines.append(f"human-normalised {s['human_normalized']:.3f} (random 0, human 1)")
    if s["failed"]:
        lines.append(f"{s['failed']} episodes were cut short by failures of the environment")
    for label, point in content["published"].items():
        lines.append(
            f"published training return of {label} at {content['trained']['env_steps']:,} steps: "
            f"{point['mean']:.4g} ± {point['std']:.3g} ({point['seeds']} seeds)"
        )
    return lines
