"""Results of a suite: runs of settings in worlds with several seeds, ours or published."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from horizon_imagination.metrics.published import Curve, as_curve, published_scores
from horizon_imagination.run.folder import is_run
from horizon_imagination.run.read import Run, load_run
from horizon_imagination.scale.suite import Member, read_members
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.windows import frame_evaluations

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
"""Budget and decay horizon of the published settings (horizon 32)."""


@dataclass(frozen=True)
class SuiteRun:
    """One seed of one setting in one world."""

    env: str
    setting: str
    seed: int
    curve: Curve
    target_steps: int
    """Environment steps the run was meant to take."""
    frames_per_imagination: int
    """Frames the denoiser evaluates for one imagined trajectory."""
    seconds: float | None = None
    late_changes: float | None = None
    random_play: tuple[float, int] | None = None
    """Mean return before the controller learned, and the number of episodes."""
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
class SuiteResults:
    """All runs of a suite that have begun, and how many there are to be."""

    name: str
    runs: list[SuiteRun]
    expected: int

    def envs(self) -> list[str]:
        """Worlds, in the order of the description."""
        return list(dict.fromkeys(run.env for run in self.runs))

    def settings(self, env: str | None = None) -> list[str]:
        """Settings, in the order of the description."""
        return list(dict.fromkeys(r.setting for r in self.runs if env in (None, r.env)))

    def of(self, env: str, setting: str) -> list[SuiteRun]:
        """The seeds of a setting in a world."""
        return [run for run in self.runs if (run.env, run.setting) == (env, setting)]

    def scores(self, env: str, setting: str, step: int | None = None) -> dict[int, float]:
        """Scores by seed at a step (where most runs are), of the runs that have come so far."""
        at = self.common_step(env, [setting]) if step is None else step
        found = {
            run.seed: run.score(at)
            for run in self.of(env, setting)
            if run.steps >= (1 - FINAL_SHARE) * at
        }
        return {seed: score for seed, score in found.items() if score is not None}

    def random_play(self, env: str) -> tuple[float, int] | None:
        """Mean return and number of all episodes in a world before controllers learned."""
        played = [run.random_play for run in self.runs if run.env == env and run.random_play]
        episodes = sum(count for _, count in played)
        total = sum(score * count for score, count in played)
        return (total / episodes, episodes) if episodes else None

    def common_step(self, env: str, settings: list[str]) -> int:
        """The step that most runs of each of some settings in a world have reached.

        The smallest of their medians: one run that broke off does not hold up the others.
        """
        reached = [[run.steps for run in self.of(env, x) if run.steps] for x in settings]
        medians = [sorted(steps)[(len(steps) - 1) // 2] for steps in reached if steps]
        return min(medians, default=0)


def read_suite(folder: Path) -> SuiteResults:
    """A suite's runs as far as they have come; those that have not begun are counted only."""
    name, members = read_members(folder)
    runs = [
        _run(member, load_run(folder / member.folder))
        for member in members
        if is_run(folder / member.folder)
    ]
    return SuiteResults(name, runs, len(members))


def published_suite() -> SuiteResults:
    """The runs published with the paper."""
    runs = []
    for (env, setting), seeds in published_scores().items():
        budget, decay = PAPER_SETTINGS[setting]
        cost = frame_evaluations(horizon_schedule(32, budget, decay), 1)[0]
        for seed, curve in seeds.items():
            target = PAPER_STEPS.get(env, 100_000)
            runs.append(SuiteRun(env, setting, seed, curve, target, cost, published=True))
    return SuiteResults("published", runs, len(runs))


def scores_csv(suites: Iterable[SuiteResults]) -> str:
    """One line per run: final score, steps, time and cost."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    header = ["source", "env", "setting", "seed", "final_return", "steps", "target_steps"]
    writer.writerow([*header, "seconds", "denoiser_frames_per_imagination", "late_changes"])
    for suite in suites:
        for run in suite.runs:
            measured = [run.score(), run.steps, run.target_steps, run.seconds]
            measured += [run.frames_per_imagination, run.late_changes]
            numbers = ["" if x is None else f"{x:.6g}" for x in measured]
            writer.writerow([suite.name, run.env, run.setting, run.seed, *numbers])
    return file.getvalue()


def _run(member: Member, run: Run) -> SuiteRun:
    cfg, training = run.config.imagination, run.config.training
    schedule = horizon_schedule(cfg.horizon, cfg.budget, cfg.decay_horizon)
    windowed, plain = frame_evaluations(schedule, cfg.context)
    return SuiteRun(
        env=member.env,
        setting=member.setting,
        seed=member.seed,
        curve=curve_of(run),
        target_steps=training.initial_steps + training.epochs * training.collect_steps,
        frames_per_imagination=windowed if cfg.engine == "window" else plain,
        seconds=run.seconds or None,
        late_changes=run.latest("controller/late_changes"),
        random_play=run.random_play(),
    )


def curve_of(run: Run) -> Curve:
    """The training returns of a run."""
    steps, returns = run.series("env/return")
    if not len(steps):
        return Curve(np.zeros(0, dtype=np.int64), np.zeros(0))
    points: list[tuple[int, Any]] = [(int(s), r) for s, r in zip(steps, returns, strict=True)]
    return as_curve(points)
