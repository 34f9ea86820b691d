"""An evaluation of a run as a file: what was played and how, every episode, and what it says."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from horizon_imagination.agent import Agent
from horizon_imagination.checkpoint import trained_for
from horizon_imagination.envs import env_names, make_env
from horizon_imagination.envs.make import atari_game
from horizon_imagination.errors import UsageError
from horizon_imagination.evaluate import EpisodeResult, Protocol
from horizon_imagination.metrics.atari_scores import ATARI_SCORES
from horizon_imagination.metrics.published import published_at, published_configs
from horizon_imagination.metrics.statistics import (
    bootstrap_interval,
    human_normalized,
    interquartile_mean,
    mean,
    median,
)
from horizon_imagination.run.folder import write_json
from horizon_imagination.snapshots import CHECKPOINTS
from horizon_imagination.version import __version__

EVALUATIONS = "evaluations"


def check_fits(agent: Agent, protocol: Protocol) -> None:
    """Refuse a world that the agent's networks were not made for."""
    if protocol.episodes < 1 or protocol.envs < 1:
        raise UsageError("--episodes and --envs must be at least 1")
    env = make_env(protocol.env, protocol.seed)
    found, seen = int(env.action_space.n), env.observation_space.shape  # type: ignore[attr-defined]
    env.close()
    cfg = agent.config.env
    expected = (cfg.size, cfg.size, 1 if cfg.grey else 3)
    if found != agent.num_actions or seen != expected:
        raise UsageError(
            f"the agent acts on {expected} frames with {agent.num_actions} actions; "
            f"{protocol.env.id} shows {seen} and has {found}: evaluate it where it was trained"
        )


def summary(protocol: Protocol, played: list[EpisodeResult]) -> dict[str, Any]:
    """Mean, median, interquartile mean and their bootstrap intervals; known landmarks."""
    scores = [episode.total_reward for episode in played]
    found: dict[str, Any] = {"mean": mean(scores), "median": median(scores)}
    found["interquartile_mean"] = interquartile_mean(scores)
    for name, statistic in (("mean", mean), ("interquartile_mean", interquartile_mean)):
        interval = bootstrap_interval([scores], statistic)
        found[f"{name}_interval"] = [interval.low, interval.high]
    found["failed"] = sum(episode.ended.startswith("failed") for episode in played)
    known = {info.name: info for info in env_names()}.get(protocol.env.id)
    if known is not None:
        landmarks = {"random": known.random_return, "best": known.best_return}
        found |= {name: value for name, value in landmarks.items() if value is not None}
    game = atari_game(protocol.env.id)
    if game in ATARI_SCORES:
        found["human_normalized"] = human_normalized(game, found["mean"])
        found["random"], found["human"] = ATARI_SCORES[game]
    return found


def published(env_id: str, env_steps: int) -> dict[str, dict[str, float]]:
    """Training returns of the published runs at the same number of steps, by configuration."""
    name = f"ALE/{game}-v5" if (game := atari_game(env_id)) else env_id
    points = {label: published_at(name, label, env_steps) for label in published_configs(name)}
    return {label: asdict(point) for label, point in points.items() if point is not None}


def write_evaluation(
    run: Path, snapshot: Path, protocol: Protocol, played: list[EpisodeResult], device: str
) -> tuple[Path, dict[str, Any]]:
    """Write the evaluation into the run; the same protocol replaces its own file only."""
    trained = trained_for(snapshot)
    content = {
        "snapshot": snapshot.name,
        "trained": trained,
        "protocol": protocol.to_json(),
        "summary": summary(protocol, played),
        "published": published(protocol.env.id, trained.get("env_steps", 0)),
        "episodes": [asdict(episode) for episode in played],
        "device": device,
        "version": __version__,
    }
    told = json.dumps(content["protocol"], sort_keys=True).encode()
    name = f"{snapshot.name}-{hashlib.sha256(told).hexdigest()[:8]}.json"
    folder = home(run) / EVALUATIONS
    folder.mkdir(exist_ok=True)
    write_json(folder / name, content)
    return folder / name, content


def home(path: Path) -> Path:
    """The run that a path to it, or to one of its snapshots, belongs to."""
    return path.parent.parent if path.parent.name == CHECKPOINTS else path


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
