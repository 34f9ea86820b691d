"""The one reader of run folders: config, metrics, evaluations, and how far a run has come."""

import fcntl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horizon_imagination.config import Config, TrainingConfig
from horizon_imagination.config_json import differences
from horizon_imagination.errors import UsageError
from horizon_imagination.files import in_place
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.folder import (
    EVALUATIONS,
    LAUNCH,
    LOCK,
    METRICS,
    METRICS_LARGEST,
    SESSIONS,
    is_run,
    read_config,
    read_launch,
)
from horizon_imagination.schema import checked, read_json, read_lines
from horizon_imagination.snapshots import (
    BEST,
    SCORE,
    Progress,
    check_hashes,
    read_score,
    read_state,
    snapshots,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from horizon_imagination.agent import Agent
    from horizon_imagination.world_model import WorldModel

RECENT = 10
"""Epochs over which the pace of a run is averaged."""
TAIL = 2**16
"""Bytes at the end of the metrics in which these epochs are looked for."""
SCORES = "evaluation/return"
GREATEST = 1e38
"""Metrics are sums of float32 numbers; what is greater counts as not finite."""
RENAMED = {"controller/sight": "controller/state_action_information"}
"""Metrics of earlier versions, and what they are called now."""


@dataclass(frozen=True)
class Run:
    """A run, finished or not, as its folder was when it was read."""

    folder: Path
    config: Config
    preset: str | None = None
    offline: str | None = None
    """The dataset it is trained on, or None if it collects its own experience."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """One entry of metrics per epoch, in order; values that were not finite are left out."""
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    """What `horizon evaluate` wrote, oldest first."""
    sessions: list[dict[str, Any]] = field(default_factory=list)
    """Date, commit and machine of every start, oldest first; none in runs of earlier versions."""
    device: str = "auto"
    """Where its agent will run."""
    world_model: "WorldModel | None" = None
    """The world model that the agent was given in training, if it was."""

    @cached_property
    def agent(self) -> "Agent":
        """The agent of the best snapshot, or of the latest where none was evaluated."""
        from horizon_imagination.agent import Agent

        return Agent.load(self.folder, self.device, world_model=self.world_model)

    def metrics(self) -> dict[str, list[float | None]]:
        """Every metric as a column, one entry per epoch: None where it was not measured.

        `pandas.DataFrame(run.metrics())` is a table of them.
        """
        names = dict.fromkeys(name for entry in self.history for name in entry)
        return {name: [entry.get(name) for entry in self.history] for name in names}

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.resolve().name

    @property
    def epochs(self) -> int:
        """Epochs that are done."""
        return self.history[-1]["epoch"] + 1 if self.history else 0

    @property
    def finished(self) -> bool:
        """Whether it is trained to its end; without a snapshot its metrics decide."""
        if snapshots(self.folder):
            return is_finished(self.folder, self.config)
        return is_complete(self.config.training, self.epochs, self.latest("evaluation/return"))

    @property
    def seconds(self) -> float:
        """Wall time of training."""
        return float(self.latest("time/seconds") or 0.0)

    @property
    def env_steps(self) -> int:
        """Steps taken in the environment."""
        return int(self.latest("env/steps") or 0)

    def latest(self, key: str) -> float | None:
        """The newest value of a metric."""
        return next((float(m[key]) for m in reversed(self.history) if key in m), None)

    def series(
        self, key: str, per: str | None = None
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Environment steps (epochs, if training is offline) and the values of a metric there.

        With `per`, the values are divided by those of another metric.
        """
        import numpy as np

        across = "epoch" if self.offline else "env/steps"
        needed = {across, key, per or key}
        points = [
            (m[across], m[key] / m[per] if per else m[key])
            for m in self.history
            if needed <= m.keys() and (per is None or m[per])
        ]
        values = np.array(points, dtype=np.float64).reshape(-1, 2)
        return values[:, 0], values[:, 1]

    def random_play(self) -> tuple[float, int] | None:
        """Mean return of the episodes before the controller learned, and how many there were.

        Until then actions are sampled from the prior of the policy, which is uniform.
        """
        first = self.config.controller.learner.first_epoch
        played = [
            (epoch["env/return"], int(epoch["env/episodes"]))
            for epoch in self.history
            if epoch["epoch"] <= first and epoch.get("env/episodes") and "env/return" in epoch
        ]
        episodes = sum(count for _, count in played)
        total = sum(score * count for score, count in played)
        return (total / episodes, episodes) if episodes else None

    def stage_seconds(self) -> dict[str, float]:
        """Wall time by stage, all epochs together."""
        total: dict[str, float] = {}
        for epoch in self.history:
            for key, value in epoch.items():
                if key.startswith("time/") and key != "time/seconds":
                    stage = key.removeprefix("time/")
                    total[stage] = total.get(stage, 0.0) + float(value)
        return total

    def changes(self) -> list[str]:
        """How the config differs from its preset, or from the paper's where none is known."""
        base = PRESETS[self.preset][1] if self.preset in PRESETS else Config()
        return differences(base, self.config)


@dataclass(frozen=True)
class Standing:
    """How far a run has come, and how fast."""

    epochs: int
    """Done so far."""
    total: int
    seconds: float
    """Wall time so far."""
    pace: float | None
    """Seconds per epoch lately, if known."""

    @property
    def left(self) -> float | None:
        """Seconds until the end, at this pace."""
        return None if self.pace is None else self.pace * max(0, self.total - self.epochs)


def load_run(
    folder: Path | str,
    device: str = "auto",
    *,
    env: "Callable[..., Any] | None" = None,
    world_model: "WorldModel | None" = None,
) -> Run:
    """Read the run in a folder that `horizon train` or `hi.train` wrote.

    Weights are loaded with `agent`. An environment or a world model that was given as a Python
    object is not in the folder: give it again.
    """
    folder = Path(folder)
    if env is not None:
        from horizon_imagination.envs.given import register

        register(env)
    if not is_run(folder):
        missing = "is no run" if folder.exists() else "does not exist"
        raise UsageError(f"{folder} {missing}; expected a folder written by horizon train")
    launch = read_launch(folder) if (folder / LAUNCH).is_file() else None
    return Run(
        folder,
        read_config(folder),
        preset=launch.preset if launch else None,
        offline=launch.offline if launch else None,
        history=read_metrics(folder),
        evaluations=_evaluations(folder / EVALUATIONS),
        sessions=_sessions(folder / SESSIONS),
        device=device,
        world_model=world_model,
    )


def read_metrics(folder: Path, tail: int | None = None) -> list[dict[str, Any]]:
    """The metrics of every epoch, in order, or those in the last `tail` bytes of the file.

    Half a line, which a running or killed process leaves, is skipped. Values that were not finite
    (null, and NaN or Infinity in files of earlier versions) are left out.
    """
    path = folder / METRICS
    if not path.exists():
        return []
    epochs: dict[int, dict[str, Any]] = {}
    entry: dict[str, Any]
    for entry in read_lines(path, Mapping[str, Any], tail=tail, largest=METRICS_LARGEST):
        epoch = checked(entry.get("epoch"), int, f"{path}: epoch")
        epochs[epoch] = {
            RENAMED.get(name, name): value
            for name, value in entry.items()
            if _is_finite(value, f"{path}: {name} of epoch {epoch}")
        }
    return [epochs[epoch] for epoch in sorted(epochs)]


def standing(folder: Path, config: Config) -> Standing:
    """How far a run has come, by the end of its metrics."""
    entries = [entry for entry in read_metrics(folder, TAIL) if "time/seconds" in entry]
    total = config.training.epochs
    if not entries:
        return Standing(0, total, 0.0, None)
    times = [entry["time/seconds"] for entry in entries[-RECENT - 1 :]]
    pace = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else times[-1]
    return Standing(entries[-1]["epoch"] + 1, total, times[-1], max(pace, 0.0))


def is_complete(training: TrainingConfig, epochs: int, reached: float | None) -> bool:
    """Whether a run is at its end after so many epochs: the last one, or the target return.

    `reached` is the evaluation that ended it, if one did.
    """
    target = training.target_return
    at_target = target is not None and reached is not None and reached >= target
    return at_target or epochs >= training.epochs


def is_finished(folder: Path, config: Config) -> bool:
    """Whether the latest snapshot of a run is that of its end."""
    state = _state(folder)
    return is_complete(config.training, state.epoch, state.reached)


def saved_epochs(folder: Path) -> int:
    """Epochs that are safe in a snapshot."""
    return _state(folder).epoch


def best_score(folder: Path) -> float | None:
    """The score of the run's best weights, if it has any.

    What the metrics say of that evaluation counts, so that a damaged score cannot keep later ones
    away; without either, the best of all evaluations.
    """
    found, recorded = snapshots(folder, BEST), {}
    with suppress(UsageError):
        entries = read_metrics(folder)
        recorded = {e["epoch"] + 1: e[SCORES] for e in entries if SCORES in e}
    if not found:
        return None
    try:
        check_hashes(found[-1], SCORE)
        score = read_score(found[-1])
    except UsageError:
        return max(recorded.values(), default=None)
    said = recorded.get(score.epoch, score.score)
    return said if abs(said) <= GREATEST else max(recorded.values(), default=None)


def is_claimed(folder: Path) -> bool:
    """Whether some process is training in the folder now."""
    try:
        with open(folder / LOCK, opener=in_place) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _state(folder: Path) -> Progress:
    """The counters of the latest snapshot; zeros where there is none that can be read."""
    found = snapshots(folder)
    try:
        return read_state(found[-1]) if found else Progress()
    except UsageError:
        return Progress()  # the run itself says what is wrong with its snapshot


@dataclass(frozen=True)
class _Episode:
    total_reward: float


@dataclass(frozen=True)
class _Evaluation:
    """What readers use of a file that `horizon evaluate` wrote."""

    episodes: tuple[_Episode, ...] = ()


@dataclass(frozen=True)
class _Session:
    """What readers use of a line of `sessions.jsonl`."""

    epoch: int = 0
    version: str | None = None
    commit: str | None = None
    date: str | None = None
    machine: str | None = None


def _evaluations(folder: Path) -> list[dict[str, Any]]:
    paths = folder.glob("*.json") if folder.is_dir() else []
    ordered = sorted(paths, key=lambda p: (p.lstat().st_mtime, p.name))
    found = [(path, read_json(path, dict)) for path in ordered]
    for path, entry in found:
        checked(entry, _Evaluation, f"{path}: ", extra=True)
    return [entry for _, entry in found]


def _sessions(path: Path) -> list[dict[str, Any]]:
    found = read_lines(path, _Session, extra=True) if path.exists() else []
    return [asdict(session) for session in found]


def _is_finite(value: Any, where: str) -> bool:
    """Whether a metric is a number that can be drawn; what is no number at all is refused."""
    if value is None or (isinstance(value, float) and not abs(value) <= GREATEST):
        return False
    return abs(checked(value, float, where)) <= GREATEST
