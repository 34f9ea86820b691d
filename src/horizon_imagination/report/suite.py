"""A suite: runs of several settings in several worlds with several seeds, ours or published."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from horizon_imagination.errors import UsageError
from horizon_imagination.metrics.published import Curve, as_curve, published_scores
from horizon_imagination.report.records import RunRecord, read_record
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.windows import frame_evaluations

DESCRIPTION = "suite.json"
FINAL_SHARE = 0.1
"""A final score is the mean training return over the last tenth of the steps."""
PAPER_STEPS = {"Craftium/SmallRoom-v0": 30_000}
"""Steps of the published runs where they are not 100 000."""
PAPER_SETTINGS = {
    "ar": (32, 1.0),
    "hi-4-16": (16, 4.0),
    "hi-4-32": (32, 4.0),
    "naive-4-16": (16, 4.0),
    "ablation-naive-4-16": (16, 4.0),
}
"""Budget and decay horizon of the published configurations (horizon 32)."""


@dataclass(frozen=True)
class SuiteRun:
    """One seed of one setting in one world."""

    env: str
    config: str
    seed: int
    curve: Curve
    target_steps: int
    """Environment steps the run was meant to take."""
    frames_per_imagination: int
    """Frames the denoiser evaluates for one imagined trajectory."""
    seconds: float | None = None
    late_changes: float | None = None
    published: bool = False

    @property
    def steps(self) -> int:
        """The newest step at which an episode had ended."""
        return int(self.curve.steps[-1]) if len(self.curve.steps) else 0

    def until(self, step: int) -> "SuiteRun":
        """The run as it was at a step: what came later must not show in a moving average."""
        past = self.curve.steps <= step
        return replace(self, curve=Curve(self.curve.steps[past], self.curve.returns[past]))

    def score(self, step: int | None = None) -> float | None:
        """The mean return of the last tenth of the steps up to one; none before any episode.

        Where no episode ended in that tenth, the latest before it counts.
        """
        at = self.steps if step is None else step
        past = self.curve.steps <= at
        if not past.any():
            return None
        recent = past & (self.curve.steps > at * (1 - FINAL_SHARE))
        chosen = recent if recent.any() else np.arange(len(past)) == np.flatnonzero(past)[-1]
        return float(self.curve.returns[chosen].mean())


@dataclass(frozen=True)
class Suite:
    """All runs of a suite that have begun, and how many there are to be."""

    name: str
    runs: list[SuiteRun]
    expected: int

    def envs(self) -> list[str]:
        """Worlds, in the order of the description."""
        return list(dict.fromkeys(run.env for run in self.runs))

    def configs(self, env: str | None = None) -> list[str]:
        """Settings, in the order of the description."""
        return list(dict.fromkeys(r.config for r in self.runs if env in (None, r.env)))

    def of(self, env: str, config: str) -> list[SuiteRun]:
        """The seeds of a setting in a world."""
        return [run for run in self.runs if (run.env, run.config) == (env, config)]

    def scores(self, env: str, config: str, step: int | None = None) -> dict[int, float]:
        """Scores by seed at a step (where most runs are), of the runs that have come so far."""
        at = self.common_step(env, [config]) if step is None else step
        found = {
            run.seed: run.score(at)
            for run in self.of(env, config)
            if run.steps >= (1 - FINAL_SHARE) * at
        }
        return {seed: score for seed, score in found.items() if score is not None}

    def common_step(self, env: str, configs: list[str]) -> int:
        """The step that most runs of each of some settings in a world have reached.

        The smallest of their medians: one run that broke off does not hold up the others.
        """
        reached = [[run.steps for run in self.of(env, c) if run.steps] for c in configs]
        medians = [sorted(steps)[(len(steps) - 1) // 2] for steps in reached if steps]
        return min(medians, default=0)


def is_suite(folder: Path) -> bool:
    """Whether a folder describes a suite."""
    return (folder / DESCRIPTION).is_file()


def read_suite(folder: Path) -> Suite:
    """A suite's runs as far as they have come; those that have not begun are counted only."""
    path = folder / DESCRIPTION
    try:
        about = json.loads(path.read_text())
        entries = [(e["env"], e["config"], int(e["seed"]), e["folder"]) for e in about["runs"]]
        name = str(about.get("name", folder.name))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is damaged ({type(error).__name__}: {error}); expected a name and runs with "
            "env, config, seed and folder"
        ) from error
    runs = []
    for env, config, seed, place in entries:
        if (folder / place / "config.json").is_file():
            runs.append(_run(env, config, seed, read_record(folder / place)))
    return Suite(name, runs, len(entries))


def published_suite() -> Suite:
    """The runs published with the paper."""
    runs = []
    for (env, config), seeds in published_scores().items():
        budget, decay = PAPER_SETTINGS[config]
        cost = frame_evaluations(horizon_schedule(32, budget, decay), 1)[0]
        for seed, curve in seeds.items():
            target = PAPER_STEPS.get(env, 100_000)
            runs.append(SuiteRun(env, config, seed, curve, target, cost, published=True))
    return Suite("published", runs, len(runs))


def scores_csv(suites: Iterable[Suite]) -> str:
    """One line per run: final score, steps, time and cost."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    header = ["source", "env", "config", "seed", "final_return", "steps", "target_steps"]
    writer.writerow([*header, "seconds", "denoiser_frames_per_imagination", "late_changes"])
    for suite in suites:
        for run in suite.runs:
            measured = [run.score(), run.steps, run.target_steps, run.seconds]
            measured += [run.frames_per_imagination, run.late_changes]
            numbers = ["" if x is None else f"{x:.6g}" for x in measured]
            writer.writerow([suite.name, run.env, run.config, run.seed, *numbers])
    return file.getvalue()


def _run(env: str, config: str, seed: int, record: RunRecord) -> SuiteRun:
    cfg, training = record.config.imagination, record.config.training
    schedule = horizon_schedule(cfg.horizon, cfg.budget, cfg.decay_horizon)
    windowed, plain = frame_evaluations(schedule, cfg.context)
    return SuiteRun(
        env=env,
        config=config,
        seed=seed,
        curve=curve_of(record),
        target_steps=training.initial_steps + training.epochs * training.collect_steps,
        frames_per_imagination=windowed if cfg.engine == "window" else plain,
        seconds=record.seconds or None,
        late_changes=record.latest("controller/late_changes"),
    )


def curve_of(record: RunRecord) -> Curve:
    """The training returns of a run."""
    steps, returns = record.series("env/return")
    if not len(steps):
        return Curve(np.zeros(0, dtype=np.int64), np.zeros(0))
    points: list[tuple[int, Any]] = [(int(s), r) for s, r in zip(steps, returns, strict=True)]
    return as_curve(points)
