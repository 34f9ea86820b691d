"""The training loop (Algorithm 2): collect, tokenizer, world model, controller; snapshot; again."""

import shutil
import time
from pathlib import Path
from typing import Any

import gymnasium
import torch
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.checkpoint import (
    Progress,
    best_return,
    load_snapshot,
    save_best,
    save_snapshot,
)
from horizon_imagination.collect import Collected, Collector
from horizon_imagination.config import Config, EnvConfig
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import resolve_device
from horizon_imagination.envs import EnvFailure, make_env, restore, snapshot
from horizon_imagination.evaluate import Protocol, evaluate
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.learner import Learner, Metrics
from horizon_imagination.learn.ranks import current_ranks
from horizon_imagination.learn.streams import Streams, derive_seed
from horizon_imagination.run.learners import make_learners
from horizon_imagination.run.pace import Stage
from horizon_imagination.run.sources import evaluation_env, take_over
from horizon_imagination.run.watch import Watcher
from horizon_imagination.scale.followed import FollowedStore
from horizon_imagination.snapshots import snapshots

SELECTION, EVALUATE, REPLAY = "selection", "evaluate", "replay"
IMAGINED, UNTRAINED = "controller/imagined_return", 4
"""What an untrained policy dreams of, in so many steps; the real return should be like it."""


class Trainer:
    """One run in one folder, from its latest snapshot on.

    Of several ranks all learn, and the first one alone acts in the world, evaluates and writes.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        watcher: Watcher,
        *,
        offline: Path | None = None,
        init_from: Path | None = None,
        frozen: frozenset[str] = frozenset(),
    ) -> None:
        if config.runtime.threads:
            torch.set_num_threads(config.runtime.threads)
        self.config, self.folder, self.watcher = config, folder, watcher
        self.init_from = init_from
        self.device, self.ranks = resolve_device(config.runtime.device), current_ranks()
        self.env: gymnasium.Env | None = None
        if offline is None and self.ranks.first:
            self.env = make_env(config.env, derive_seed(config.seed, "env") % 2**31)
        self.store = self._open_store(offline)
        self.agent = Agent(config, self.store.num_actions, self.device)
        self.streams = Streams(config.seed, self.device)
        self.replay = Replay(self.store, config.replay)
        self.latents = LatentCache(self.store, self._encode, self.device)
        every = 1 if self.device.type == "cpu" else 25
        self.guard = Guard(folder, every, writes=self.ranks.first)
        self.learners = make_learners(
            self.agent, self.replay, self.latents, self.streams, self.guard, frozen, self.ranks
        )
        self.progress = Progress()
        self.evaluation_env: EnvConfig | None = config.env
        if offline is not None:
            self.evaluation_env = evaluation_env(config, self.store.num_actions, watcher.note)
        self.collector = None
        if self.env is not None:
            self.collector = Collector(
                self.env, self.store, self.replay, self.agent, self.streams["collect"]
            )

    def resume(self) -> bool:
        """Go back to the latest snapshot, if there is one."""
        found = self._restore()
        self._follow()
        return found

    def _restore(self) -> bool:
        found = snapshots(self.folder)
        self.progress.best_return = best_return(self.folder)
        if not found:
            if self.env is not None:
                self.store.rewind({"rows": 0, "open": False, "info": {}})
            if self.init_from is not None:
                take_over(self.agent, self.init_from)
            return False
        progress, tensors = load_snapshot(found[-1], self.agent, self.learners.in_order())
        progress.best_return = self.progress.best_return
        self.progress = progress
        self.learners.controller_loss.return_scale = tensors.pop("return_scale").to(self.device)
        self.streams.restore(tensors)
        if self.env is None:
            return True
        self.store.rewind(progress.store)
        if progress.env is not None:
            restore(self.env, progress.env)
        elif self.store.is_open:
            self.store.end({"failure": "the run was resumed; the environment has no saved state"})
            self.watcher.note("this environment cannot be restored: a new episode begins")
        return True

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        target, reached = self.config.training.target_return, self.progress.reached
        done = target is not None and reached is not None and reached >= target
        return done or self.progress.epoch >= self.config.training.epochs

    def run(self) -> Progress:
        """Train until the last epoch or the target return."""
        started = time.monotonic() - self.progress.seconds
        self.watcher.start(self._description())
        while not self.finished:
            epoch = self.progress.epoch
            try:
                metrics = self._epoch(epoch)
                self.progress.epoch += 1
                self._evaluate(epoch, metrics)
            except EnvFailure:
                self.progress.seconds = time.monotonic() - started
                self.save()
                raise
            self.progress.seconds = time.monotonic() - started
            metrics["time/seconds"] = self.progress.seconds
            metrics["env/steps"] = self.progress.env_steps
            # Before the snapshot: metrics of an epoch that is repeated are dropped, a line that
            # was never written would be lost.
            self.watcher.epoch(epoch, metrics)
            if self.finished or self.progress.epoch % self.config.training.snapshot_every == 0:
                self.save()
        self.watcher.finish(self.folder)
        return self.progress

    def save(self) -> None:
        """A snapshot of everything, now."""
        self.guard.check(now=True)
        if not self.ranks.first:
            return
        if self.env is not None:
            self.progress.store = self.store.position()
            self.progress.env = snapshot(self.env)
        tensors = self.streams.state()
        tensors["return_scale"] = self.learners.controller_loss.return_scale
        keep = self.config.training.keep_snapshots
        learners = self.learners.in_order()
        save_snapshot(self.folder, self.agent, learners, tensors, self.progress, keep)

    def close(self) -> None:
        """Let go of environment and files."""
        if self.env is not None:
            self.env.close()
        self.store.close()

    def _follow(self) -> None:
        """Let all ranks see the store as the first one has left it."""
        if self.ranks.first and self.ranks.world > 1:
            self.store.flush()
        self.ranks.wait()
        if isinstance(self.store, FollowedStore):
            self.store.follow()

    def _encode(self, frames: Tensor) -> Tensor:
        """Latents of stored frames; each rank encodes some, and all have the same bits."""
        return self.ranks.gather(self.agent.encode(self.ranks.share(frames)), len(frames))

    def _epoch(self, epoch: int) -> dict[str, float]:
        metrics = self._collect(epoch)
        self._follow()
        for learner in self.learners.in_order():
            if not learner.active(epoch) or not learner.config.steps_per_epoch:
                continue
            if learner is not self.learners.tokenizer:
                self.latents.refresh()
            metrics |= self._learn(epoch, learner)
            if learner is self.learners.tokenizer:
                self.latents.forget()
        return metrics

    def _collect(self, epoch: int) -> dict[str, float]:
        if self.collector is None:
            return {}
        cfg = self.config.training
        steps = cfg.collect_steps + (cfg.initial_steps if epoch == 0 else 0)
        self.watcher.stage(epoch, "collect", steps)
        trained = epoch > self.config.controller.learner.first_epoch
        before = time.monotonic()
        seen = self.collector.collect(steps, trained=trained, on_step=self.watcher.step)
        self.progress.env_steps += steps
        self.progress.failures += len(seen.failures)
        for failure in seen.failures:
            self.watcher.note(f"environment failure {self.progress.failures}: {failure}")
        return _collection_metrics(seen) | {"time/collect": time.monotonic() - before}

    def _learn(self, epoch: int, learner: Learner) -> dict[str, float]:
        before, steps = time.monotonic(), learner.config.steps_per_epoch
        self.watcher.stage(epoch, learner.name, steps)
        sums, found, fresh = Metrics(), {}, learner.steps == 0
        for step in range(1, steps + 1):
            for name, value in learner.step().items():
                sums[name] = sums[name] + value if name in sums else value
            if fresh and step == min(UNTRAINED, steps) and IMAGINED in sums:
                found = {"controller/untrained_return": float(sums[IMAGINED]) / step}
            self.watcher.step()
        found |= {name: float(value) for name, value in learner.settle().items()}
        found |= {name: float(value) / steps for name, value in sums.items()}
        return found | {f"time/{learner.name}": time.monotonic() - before}

    def _evaluate(self, epoch: int, metrics: dict[str, float]) -> None:
        """Evaluate now and then, and keep the best weights."""
        cfg = self.config.training
        due = cfg.evaluate_every and (epoch + 1) % cfg.evaluate_every == 0
        early = epoch < self.config.controller.learner.first_epoch
        if self.evaluation_env is None or not due or early:
            return
        self.watcher.stage(epoch, EVALUATE, cfg.evaluation_episodes)
        # Other episodes than any report uses, and other ones in every evaluation.
        seed = derive_seed(self.config.seed, f"{SELECTION} {epoch}") % 2**31
        protocol = Protocol(self.evaluation_env, cfg.evaluation_episodes, seed, greedy=False)
        score = self.ranks.tell(self._play(protocol) if self.ranks.first else 0.0)
        metrics["evaluation/return"] = score
        best = self.progress.best_return
        if best is None or score >= best:
            self.progress.best_return = score
            if self.ranks.first:
                save_best(self.folder, self.agent, self.progress, score)
        if cfg.target_return is not None and score >= cfg.target_return:
            self.progress.reached = score

    def _play(self, protocol: Protocol) -> float:
        """The mean return of an evaluation."""
        played = evaluate(self.agent, protocol, on_steps=lambda ended, _: self.watcher.step(ended))
        return sum(episode.total_reward for episode in played) / len(played)

    def _open_store(self, offline: Path | None) -> Store:
        if offline is not None:
            return Store.open(offline)
        folder = self.folder / REPLAY
        if self.ranks.first:
            store = self._own_store(folder)
            self.ranks.wait()
            return store
        self.ranks.wait()
        return FollowedStore.open(folder)

    def _own_store(self, folder: Path) -> Store:
        if (folder / "dataset.json").exists():
            return Store.open(folder, "a")
        shutil.rmtree(folder, ignore_errors=True)  # of a process killed while it made the folder
        assert self.env is not None
        space: Any = self.env.observation_space
        height, width, channels = space.shape
        num_actions = int(self.env.action_space.n)  # type: ignore[attr-defined]
        return Store.create(folder, (channels, height, width), num_actions, self.config.env.id)

    def _description(self) -> dict[str, Any]:
        return {
            "epochs": self.config.training.epochs,
            "first_epoch": self.progress.epoch,
            "folder": str(self.folder),
            "env": self.config.env.id,
            "device": str(self.device),
            "seconds": self.progress.seconds,
            "plan": self._plan(),
        }

    def _plan(self) -> list[Stage]:
        cfg, first = self.config.training, self.config.controller.learner.first_epoch
        stages = [Stage("collect", cfg.collect_steps)] if self.collector else []
        for learner in self.learners.in_order():
            own = learner.config
            stages.append(Stage(learner.name, own.steps_per_epoch, own.first_epoch, own.last_epoch))
        if cfg.evaluate_every and self.evaluation_env is not None:
            stages.append(Stage(EVALUATE, cfg.evaluation_episodes, first, None, cfg.evaluate_every))
        return stages


def _collection_metrics(seen: Collected) -> dict[str, float]:
    metrics: dict[str, float] = {"env/episodes": float(len(seen.returns))}
    if seen.returns:
        metrics["env/return"] = sum(seen.returns) / len(seen.returns)
        metrics["env/length"] = sum(seen.lengths) / len(seen.lengths)
    if seen.failures:
        metrics["env/failures"] = float(len(seen.failures))
    return metrics
