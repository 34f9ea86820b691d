"""An epoch that is under way: what a snapshot in its middle holds to go on bit for bit."""

from dataclasses import dataclass, field
from functools import partial

import gymnasium
import numpy as np
import torch
from torch import Tensor

from horizon_imagination.collect import Collected, Collector, Unfinished
from horizon_imagination.config import Config
from horizon_imagination.envs.supervised import Supervised
from horizon_imagination.learn.copies import Copies
from horizon_imagination.learn.learner import Learner
from horizon_imagination.learn.learners import Learners
from horizon_imagination.learn.together import Together
from horizon_imagination.models.recurrent import RecurrentState
from horizon_imagination.run.callbacks import Stage
from horizon_imagination.run.selection import EVALUATE, evaluates_in
from horizon_imagination.snapshots import UnfinishedEpoch

METRICS, SUMS, PENDING = "epoch/metrics/", "epoch/sums/", "epoch/pending"
COPIES = "epoch/copies/"
RETURNS, LENGTHS, MEMORY = "epoch/returns", "epoch/lengths", "epoch/memory/"


@dataclass
class Epoch:
    """Which stages are over, how far the present one is, and what was measured so far."""

    over: list[str] = field(default_factory=list)
    """Names of the stages that are over."""
    stage: str = ""
    """The stage that is going on, or that comes next."""
    steps: int = 0
    """Steps of it that are done."""
    seconds: float = 0.0
    """Time it took before the run was resumed."""
    metrics: dict[str, float] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)
    """Metrics of the present stage, summed over its steps."""

    @property
    def begun(self) -> bool:
        """Whether there is anything that a snapshot must hold."""
        return bool(self.over or self.stage)

    def can_go_on(self, number: int, env: gymnasium.Env | None) -> bool:
        """Whether a run whose environment fails in this epoch has anything to go on from.

        Not while it only acts in epoch 0, in an environment of this process: then the command was
        wrong. A supervised environment has failed several times, whatever the command.
        """
        return bool(number) or "collect" in self.over or isinstance(env, Supervised)

    def begin(self, stage: str) -> None:
        """A stage begins; one that was interrupted goes on."""
        if stage != self.stage:
            self.stage, self.steps, self.seconds, self.sums = stage, 0, 0.0, {}

    def end(self, metrics: dict[str, float]) -> None:
        """The stage is over."""
        self.over.append(self.stage)
        self.metrics |= metrics
        self.begin("")

    def add(self, metrics: dict[str, Tensor]) -> None:
        """Count a step of a learner and what it measured."""
        self.steps += 1
        for name, value in metrics.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value


def saved(
    epoch: Epoch, collector: Collector | None, copies: Copies | None = None
) -> tuple[UnfinishedEpoch | None, dict[str, Tensor]]:
    """An epoch as counters for `state.json` and as tensors; none between two epochs."""
    if not epoch.begun:
        return None, {}
    tensors = {f"{SUMS}{name}": value for name, value in epoch.sums.items()}
    tensors |= {f"{COPIES}{name}": x for name, x in (copies.state() if copies else {}).items()}
    for name, value in epoch.metrics.items():
        tensors[f"{METRICS}{name}"] = torch.tensor(value, dtype=torch.float64)
    state = UnfinishedEpoch(tuple(epoch.over), epoch.stage, epoch.steps, epoch.seconds)
    now = collector.unfinished if collector else None
    if now is not None:
        tensors[RETURNS] = torch.tensor(now.seen.returns, dtype=torch.float64)
        tensors[LENGTHS] = torch.tensor(now.seen.lengths, dtype=torch.int64)
        state.collected, state.failures = now.seen.steps, now.seen.failures
        if now.pending is not None:
            tensors[PENDING] = torch.as_tensor(np.asarray(now.pending))
        if now.state is not None:
            tensors |= {f"{MEMORY}{name}": part for name, part in now.state._asdict().items()}
    return state, tensors


def restored(
    state: UnfinishedEpoch | None, tensors: dict[str, Tensor], device: torch.device
) -> Epoch:
    """The epoch that was saved; a new one where none was under way."""
    if state is None:
        return Epoch()
    return Epoch(
        over=list(state.over),
        stage=state.stage,
        steps=state.steps,
        seconds=state.seconds,
        metrics={name: float(value) for name, value in _named(tensors, METRICS).items()},
        sums={name: value.to(device) for name, value in _named(tensors, SUMS).items()},
    )


def restore_copies(copies: Copies | None, tensors: dict[str, Tensor]) -> None:
    """Put the copies that an unfinished epoch acts and imagines with back; where it has none, they
    follow the networks."""
    state = _named(tensors, COPIES)
    if copies is not None and state:
        copies.restore(state)
    elif copies is not None:
        copies.refresh()


def restored_collection(
    state: UnfinishedEpoch | None, tensors: dict[str, Tensor], device: torch.device
) -> Unfinished | None:
    """The collection that was under way, if one was."""
    if state is None or RETURNS not in tensors:
        return None
    seen = Collected(
        steps=state.collected,
        returns=tensors[RETURNS].tolist(),
        lengths=tensors[LENGTHS].tolist(),
        failures=state.failures,
    )
    memory = {name: value.to(device) for name, value in _named(tensors, MEMORY).items()}
    pending = tensors[PENDING].numpy() if PENDING in tensors else None
    return Unfinished(
        seen,
        state=RecurrentState(**memory) if memory else None,
        pending=int(pending) if pending is not None and not pending.ndim else pending,
    )


def collection_metrics(seen: Collected) -> dict[str, float]:
    """What a collection phase is logged as."""
    metrics: dict[str, float] = {"env/episodes": float(len(seen.returns))}
    if seen.returns:
        metrics["env/return"] = sum(seen.returns) / len(seen.returns)
        metrics["env/length"] = sum(seen.lengths) / len(seen.lengths)
    if seen.failures:
        metrics["env/failures"] = float(seen.failures)
    return metrics


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def plan_of(
    config: Config, learners: Learners, *, collects: bool, evaluates: bool
) -> tuple[Stage, ...]:
    """The stages of an epoch, and in which epochs each of them works."""
    cfg = config.training

    def collected(epoch: int) -> int:
        return 0 if learners.overlaps(epoch) else cfg.collect_steps

    def learned(learner: Learner | Together, epoch: int) -> int:
        return learner.steps_in(epoch) if learner in learners.active(epoch) else 0

    def evaluated(epoch: int) -> int:
        return cfg.evaluation_episodes if evaluates_in(config, epoch) else 0

    stages = [Stage("collect", collected)] if collects else []
    alone: list[Learner | Together] = [*learners.in_order()]
    together = [learners.together] if learners.together is not None else []
    stages += [Stage(x.name, partial(learned, x)) for x in [*alone, *together]]
    if cfg.evaluate_every and evaluates:
        stages.append(Stage(EVALUATE, evaluated))
    return tuple(stages)
