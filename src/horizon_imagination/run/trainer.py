"""The training loop (Algorithm 2): collect, tokenizer, world model, controller; snapshot; again."""

import time
from pathlib import Path
from typing import Any

import gymnasium
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.checkpoint import Progress, load_snapshot, save_snapshot
from horizon_imagination.collect import Collected, Collector
from horizon_imagination.config import Config
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import resolve_device
from horizon_imagination.envs import make_env, restore, snapshot
from horizon_imagination.evaluate import Protocol, evaluate
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.learner import Learner, Metrics
from horizon_imagination.learn.streams import Streams, derive_seed
from horizon_imagination.run.learners import make_learners
from horizon_imagination.run.watch import Watcher
from horizon_imagination.snapshots import BEST, CHECKPOINTS, publish, snapshots

SELECTION = "selection"


class Trainer:
    """One run in one folder, from its latest snapshot on."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        watcher: Watcher,
        *,
        offline: Path | None = None,
        frozen: frozenset[str] = frozenset(),
    ) -> None:
        if config.runtime.threads:
            torch.set_num_threads(config.runtime.threads)
        self.config, self.folder, self.watcher = config, folder, watcher
        self.device = resolve_device(config.runtime.device)
        self.env: gymnasium.Env | None = None
        if offline is None:
            self.env = make_env(config.env, derive_seed(config.seed, "env") % 2**31)
        self.store = self._open_store(offline)
        self.agent = Agent(config, self.store.num_actions, self.device)
        self.streams = Streams(config.seed, self.device)
        self.replay = Replay(self.store, config.replay)
        self.latents = LatentCache(self.store, self.agent.encode, self.device)
        guard = Guard(folder, every=1 if self.device.type == "cpu" else 25)
        self.guard = guard
        self.learners = make_learners(
            self.agent, self.replay, self.latents, self.streams, guard, frozen
        )
        self.progress = Progress()
        self.collector = None
        if self.env is not None:
            self.collector = Collector(
                self.env, self.store, self.replay, self.agent, self.streams["collect"]
            )

    def resume(self) -> bool:
        """Go back to the latest snapshot, if there is one."""
        found = snapshots(self.folder)
        if not found:
            if self.env is not None:
                self.store.rewind({"rows": 0, "open": False, "info": {}})
            return False
        progress, tensors = load_snapshot(found[-1], self.agent, self.learners.in_order())
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

    def run(self) -> Progress:
        """Train until the last epoch or the target return."""
        started = time.monotonic() - self.progress.seconds
        self.watcher.start(self._description())
        epochs = self.config.training.epochs
        while self.progress.epoch < epochs:
            epoch = self.progress.epoch
            metrics = self._epoch(epoch)
            self.progress.epoch += 1
            done = self._evaluate(epoch, metrics)
            self.progress.seconds = time.monotonic() - started
            metrics["time/seconds"] = self.progress.seconds
            metrics["env/steps"] = self.progress.env_steps
            last = done or self.progress.epoch == epochs
            if last or self.progress.epoch % self.config.training.snapshot_every == 0:
                self.save()
            self.watcher.epoch(epoch, metrics)
            if done:
                break
        self.watcher.finish(self.folder)
        return self.progress

    def save(self) -> None:
        """A snapshot of everything, now."""
        self.guard.check(now=True)
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

    def _epoch(self, epoch: int) -> dict[str, float]:
        metrics = self._collect(epoch)
        for learner in self.learners.in_order():
            if not learner.active(epoch) or not learner.config.steps_per_epoch:
                continue
            if not learner.parameters:
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
        seen = self.collector.collect(steps, trained=trained)
        self.watcher.step(steps)
        self.progress.env_steps += steps
        self.progress.failures += len(seen.failures)
        for failure in seen.failures:
            self.watcher.note(f"environment failure {self.progress.failures}: {failure}")
        return _collection_metrics(seen) | {"time/collect": time.monotonic() - before}

    def _learn(self, epoch: int, learner: Learner) -> dict[str, float]:
        steps = learner.config.steps_per_epoch
        self.watcher.stage(epoch, learner.name, steps)
        before = time.monotonic()
        sums: Metrics = {}
        for _ in range(steps):
            for name, value in learner.step().items():
                sums[name] = sums[name] + value if name in sums else value
            self.watcher.step()
        means = {name: float(value) / steps for name, value in sums.items()}
        return means | {f"time/{learner.name}": time.monotonic() - before}

    def _evaluate(self, epoch: int, metrics: dict[str, float]) -> bool:
        """Evaluate now and then, keep the best weights; True if the target is reached."""
        cfg = self.config.training
        due = cfg.evaluate_every and (epoch + 1) % cfg.evaluate_every == 0
        if self.env is None or not due or epoch < self.config.controller.learner.first_epoch:
            return False
        self.watcher.stage(epoch, "evaluate", cfg.evaluation_episodes)
        # Other episodes than any report uses, and other ones in every evaluation.
        seed = derive_seed(self.config.seed, f"{SELECTION} {epoch}") % 2**31
        protocol = Protocol(self.config.env, cfg.evaluation_episodes, seed, greedy=False)
        played = evaluate(self.agent, protocol)
        score = sum(episode.total_reward for episode in played) / len(played)
        metrics["evaluation/return"] = score
        best = self.progress.best_return
        if best is None or score >= best:
            self.progress.best_return = score
            temporary = self.folder / CHECKPOINTS / f"{BEST}{epoch + 1:06d}.tmp"
            self.agent.save(temporary)
            publish(temporary, 1, BEST)
        return cfg.target_return is not None and score >= cfg.target_return

    def _open_store(self, offline: Path | None) -> Store:
        if offline is not None:
            return Store.open(offline)
        folder = self.folder / "replay"
        if (folder / "dataset.json").exists():
            return Store.open(folder, "a")
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
        }


def _collection_metrics(seen: Collected) -> dict[str, float]:
    metrics: dict[str, float] = {"env/episodes": float(len(seen.returns))}
    if seen.returns:
        metrics["env/return"] = sum(seen.returns) / len(seen.returns)
        metrics["env/length"] = sum(seen.lengths) / len(seen.lengths)
    if seen.failures:
        metrics["env/failures"] = float(len(seen.failures))
    return metrics
