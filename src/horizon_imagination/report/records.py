"""Runs as their folders tell them: config, metrics so far, evaluations."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizon_imagination.config import Config
from horizon_imagination.config_json import differences
from horizon_imagination.envs.make import EMBEDDED
from horizon_imagination.errors import UsageError
from horizon_imagination.metrics.atari_scores import ATARI_SCORES
from horizon_imagination.metrics.statistics import (
    Interval,
    atari_name,
    bootstrap_interval,
    mean,
)
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.folder import LAUNCH, METRICS, is_run, read_config, read_launch

Series = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Environment steps (epochs, where training is offline) and values."""


@dataclass(frozen=True)
class RunRecord:
    """What is known of a run, finished or not."""

    folder: Path
    config: Config
    preset: str | None
    offline: str | None
    metrics: list[dict[str, Any]]
    """One entry per epoch, in order."""
    evaluations: list[dict[str, Any]]
    """What `horizon evaluate` wrote, oldest first."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.resolve().name

    @property
    def epochs(self) -> int:
        """Epochs that are done."""
        return len(self.metrics)

    @property
    def finished(self) -> bool:
        """Whether it came to its last epoch or to the return it was to reach."""
        target, score = self.config.training.target_return, self.latest("evaluation/return")
        reached = target is not None and score is not None and score >= target
        return reached or self.epochs >= self.config.training.epochs

    @property
    def seconds(self) -> float:
        """Wall time of training."""
        return float(self.latest("time/seconds") or 0.0)

    @property
    def env_steps(self) -> int:
        """Steps taken in the real world."""
        return int(self.latest("env/steps") or 0)

    @property
    def horizontal(self) -> str:
        """What curves are drawn over."""
        return "epoch" if self.offline else "environment steps"

    def latest(self, key: str) -> float | None:
        """The newest value of a metric."""
        return next((float(m[key]) for m in reversed(self.metrics) if key in m), None)

    def series(self, key: str, per: str | None = None) -> Series:
        """A metric over time, where it is finite; divided by another one, if that is named."""
        across = "epoch" if self.offline else "env/steps"
        needed = {across, key, per or key}
        points = [
            (m[across], m[key] / m[per] if per else m[key])
            for m in self.metrics
            if needed <= m.keys() and (per is None or m[per])
        ]
        values = np.array(points, dtype=np.float64).reshape(-1, 2)
        values = values[np.isfinite(values).all(axis=1)]
        return values[:, 0], values[:, 1]

    def stage_seconds(self) -> dict[str, float]:
        """Wall time by stage, all epochs together."""
        total: dict[str, float] = {}
        for epoch in self.metrics:
            for key, value in epoch.items():
                if key.startswith("time/") and key != "time/seconds":
                    stage = key.removeprefix("time/")
                    total[stage] = total.get(stage, 0.0) + float(value)
        return total

    def changes(self) -> list[str]:
        """How the config differs from its preset (or from the paper's)."""
        base = PRESETS[self.preset][1] if self.preset in PRESETS else Config()
        return differences(base, self.config)

    def landmarks(self) -> dict[str, float]:
        """Known returns of the world: random, best, human."""
        if self.config.env.id in EMBEDDED:
            world = EMBEDDED[self.config.env.id][0]
            return {"random": world.RANDOM_RETURN, "best": world.BEST_RETURN}
        low, high = ATARI_SCORES.get(atari_name(self.config.env.id), (None, None))
        return {} if low is None or high is None else {"random": low, "human": high}

    def evaluated(self) -> tuple[Interval, int] | None:
        """Mean return of the newest evaluation, its interval, and its number of episodes."""
        for entry in reversed(self.evaluations):
            returns = [episode["total_reward"] for episode in entry.get("episodes", [])]
            if returns:
                return bootstrap_interval([returns], mean), len(returns)
        return None


def read_record(folder: Path) -> RunRecord:
    """Read a run; a folder that is none is said to be none."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; name the folder of a run")
    if not is_run(folder):
        raise UsageError(f"{folder} is no run: it has no config.json; name the folder of a run")
    launch = read_launch(folder) if (folder / LAUNCH).is_file() else None
    return RunRecord(
        folder=folder,
        config=read_config(folder),
        preset=launch.preset if launch else None,
        offline=launch.offline if launch else None,
        metrics=_metrics(folder / METRICS),
        evaluations=_evaluations(folder / "evaluations"),
    )


def _metrics(path: Path) -> list[dict[str, Any]]:
    """Whole lines only: a run that is going on may be writing its last one."""
    epochs: dict[int, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            entry = json.loads(line)
            epochs[int(entry["epoch"])] = entry
        except (ValueError, KeyError, TypeError):
            continue
    return [epochs[epoch] for epoch in sorted(epochs)]


def _evaluations(folder: Path) -> list[dict[str, Any]]:
    found = []
    paths = folder.glob("*.json") if folder.is_dir() else []
    for path in sorted(paths, key=lambda p: (p.stat().st_mtime, p.name)):
        try:
            entry = json.loads(path.read_text())
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found
