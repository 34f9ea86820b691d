"""The training loop (Algorithm 2): collect, tokenizer, world model, controller; snapshot; again."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import gymnasium
import torch
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.checkpoint import (
    Progress,
    load_latest,
    load_snapshot,
    save_snapshot,
)
from horizon_imagination.collect import Collected, Collector
from horizon_imagination.config import Config, EnvConfig
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import resolve_device
from horizon_imagination.envs import EnvFailure, make_env, restore, snapshot
from horizon_imagination.envs.frames import view_of
from horizon_imagination.errors import unusable
from horizon_imagination.learn.batches import ReplayBatches
from horizon_imagination.learn.copies import Copies
from horizon_imagination.learn.fresh import fresh_metrics
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.learner import Learner
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.learn.ranks import current_ranks
from horizon_imagination.learn.together import Together
from horizon_imagination.run.callbacks import Callback, RunStart
from horizon_imagination.run.collection import Collection
from horizon_imagination.run.epoch import (
    Epoch,
    collection_metrics,
    plan_of,
    restore_copies,
    restored,
    restored_collection,
    saved,
)
from horizon_imagination.run.folder import REPLAY
from horizon_imagination.run.read import best_score, is_complete
from horizon_imagination.run.selection import EVALUATE, Selection
from horizon_imagination.run.signals import Paused, StopRequest
from horizon_imagination.run.sources import (
    check_trainable,
    evaluation_env,
    own_store,
    take_over,
)
from horizon_imagination.snapshots import set_aside, snapshots
from horizon_imagination.streams import Streams, derive_seed
from horizon_imagination.timing import drain
from horizon_imagination.types import Schedule
from horizon_imagination.world_model import WorldModel

FRESH_STEPS = 512
"""Of the steps just collected, at most so many are measured before they are learned from."""
IMAGINED, UNTRAINED = "controller/imagined_return", 4
"""What an untrained policy dreams of, in so many steps; the real return should be like it."""


class Trainer:
    """One run in one folder, from its latest snapshot on: `resume()`, `run()`, `close()`.

    `callback` is told what happens (`run.callbacks` has the life cycle). A world model or a
    schedule that is given here is not stored in the folder. Of several ranks all learn, and the
    first one alone acts in the world, evaluates and writes.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        callback: Callback = Callback(),  # noqa: B008  (it ignores everything)
        *,
        world_model: WorldModel | None = None,
        schedule: Schedule | None = None,
        offline: Path | None = None,
        init_from: Path | None = None,
        frozen: frozenset[str] = frozenset(),
        stop: StopRequest | None = None,
    ) -> None:
        if config.runtime.threads:
            torch.set_num_threads(config.runtime.threads)
        self.config, self.folder, self.callback = config, folder, callback
        self.init_from, self.offline = init_from, offline is not None
        self.stop = StopRequest() if stop is None else stop
        self.epoch, self.damaged = Epoch(), []
        self.device, self.ranks = resolve_device(config.runtime.device), current_ranks()
        self.env: gymnasium.Env | None = None
        if offline is None and self.ranks.first:
            self.env = make_env(config.env, derive_seed(config.seed, "env") % 2**31)
        self.store = self._open_store(offline)
        self.agent = Agent(
            config,
            self.store.action_space,
            self.device,
            world_model=world_model,
            schedule=schedule,
        )
        self.agent.view = view_of(self.env) if self.env is not None else None
        self.streams = Streams(config.seed, self.device)
        self.replay = Replay(self.store, config.replay)
        self.latents = LatentCache(self.store, self._encode, self.device)
        every = 1 if self.device.type == "cpu" else 25
        self.guard = Guard(folder, every, writes=self.ranks.first)
        self.batches = ReplayBatches(self.agent, self.replay, self.latents, self.streams)
        self.learners = make_learners(
            self.agent, self.batches, self.streams, self.guard, frozen, self.ranks
        )
        self.progress, self._stopped = Progress(), False
        world: EnvConfig | None = config.env
        if offline is not None:
            world = evaluation_env(config, self.store.action_space, callback.on_note)
        told = callback, self.stop
        self.selection = Selection(self.agent, world, folder, *told, self.ranks)
        self.collector = self.collection = None
        if self.env is not None:
            acting, rng = self._copies.actor if self._copies else None, self.streams["collect"]
            self.collector = Collector(self.env, self.store, self.replay, self.agent, rng, acting)
            self.collection = Collection(self.collector, config, self._copies, *told)

    def resume(self) -> bool:
        """Go back to the latest snapshot, if there is one."""
        found = self._restore()
        self._follow()
        return found

    def _restore(self) -> bool:
        found = snapshots(self.folder)
        self.progress.best_return = best_score(self.folder)
        if not found:
            if self.env is not None:
                self.store.rewind({"rows": 0, "open": False, "info": {}})
            if self.init_from is not None:
                take_over(self.agent, self.init_from)
            return False
        self.damaged, said = load_latest(found, self._load_one)
        if said:
            self.callback.on_note(said)
        if self.env is not None:
            self._restore_world(self.env)
        return True

    def _load_one(self, folder: Path) -> None:
        progress, tensors = load_snapshot(folder, self.agent, self.learners.in_order())
        progress.best_return = self.progress.best_return
        self.learners.controller_loss.return_scale = tensors.pop("return_scale").to(self.device)
        self.streams.restore(tensors)
        self.epoch = restored(progress.unfinished, tensors, self.device)
        if self.collector is not None:
            self.collector.unfinished = restored_collection(
                progress.unfinished, tensors, self.device
            )
        restore_copies(self._copies, tensors)
        self.replay.visible = progress.unfinished.visible if progress.unfinished else None
        self.progress = progress

    def _restore_world(self, env: gymnasium.Env) -> None:
        """Cut the replay to where the snapshot was, and put the environment there."""
        self.store.rewind(self.progress.store)
        check_trainable(self.store, self.folder)
        if self.progress.env is not None:
            with unusable(f"the state of the environment in the latest snapshot of {self.folder}"):
                restore(env, self.progress.env)
        elif self.store.is_open:
            self.store.end({"failure": "the run was resumed; the environment has no saved state"})
            self.callback.on_note("this environment cannot be restored: a new episode begins")

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        return is_complete(self.config.training, self.progress.epoch, self.progress.reached)

    def run(self) -> Progress:
        """Train until the last epoch or the target return."""
        started = time.monotonic() - self.progress.seconds
        self.callback.on_start(self._run_start())
        while not self.finished and not self._stopped:
            number = self.progress.epoch
            self.callback.on_epoch(number)
            try:
                metrics = self._train_epoch(number)
            except (EnvFailure, Paused) as error:
                self.stop.stopped.set()
                self.progress.seconds = time.monotonic() - started
                if isinstance(error, Paused) or self.epoch.can_go_on(number, self.env):
                    self.save()
                raise
            self.progress.epoch, self.epoch = number + 1, Epoch()
            self.progress.seconds = time.monotonic() - started
            metrics["time/seconds"] = self.progress.seconds
            metrics["env/steps"] = self.progress.env_steps
            # Before the snapshot: metrics of an epoch that is repeated are dropped, a line that
            # was never written would be lost.
            self.callback.on_metrics(number, metrics)
            due = self.progress.epoch % self.config.training.snapshot_every == 0
            if due or self.finished or self._stopped:
                self.save()
        self.callback.on_end()
        return self.progress

    def _train_epoch(self, number: int) -> dict[str, float]:
        """All stages of an epoch that are not over yet; its metrics."""
        for name, stage in self._stages(number).items():
            if name not in self.epoch.over:
                self.epoch.begin(name)
                self.epoch.end(stage())
        return self.epoch.metrics

    def _stages(self, number: int) -> dict[str, Callable[[], dict[str, float]]]:
        """The stages of an epoch; new steps are measured before any learner has seen them."""
        fresh = {"fresh": lambda: self._fresh(number)}
        learn = {x.name: partial(self._learn, number, x) for x in self.learners.active(number)}
        evaluate = {EVALUATE: lambda: self.selection.evaluate(number, self.progress)}
        if self.learners.overlaps(number):
            return learn | {"collected": self._collected} | fresh | evaluate
        return {"collect": lambda: self._collect(number)} | fresh | learn | evaluate

    @property
    def _copies(self) -> Copies | None:
        return self.learners.together.copies if self.learners.together else None

    def save(self) -> None:
        """A snapshot of everything, now."""
        drain(self.device)
        for learner in self.learners.in_order():
            learner.guard.check(now=True)
        if not self.ranks.first:
            return
        if self.env is not None:
            self.progress.store = self.store.position()
            self.progress.env = snapshot(self.env)
        self.progress.unfinished, tensors = saved(self.epoch, self.collector, self._copies)
        if self.progress.unfinished is not None:
            self.progress.unfinished.visible = self.replay.visible
        tensors |= self.streams.state()
        tensors["return_scale"] = self.learners.controller_loss.return_scale
        cfg, learners = self.config.training, self.learners.in_order()
        kept = cfg.keep_snapshots, cfg.keep_every_hours
        while self.damaged:
            set_aside(self.damaged.pop())
        written = save_snapshot(self.folder, self.agent, learners, tensors, self.progress, *kept)
        self.callback.on_snapshot(self.progress.epoch, written)

    def stop_after_epoch(self) -> None:
        """End `run` after the present epoch, with a snapshot."""
        self._stopped = True

    def close(self) -> None:
        """Let go of environment and files."""
        if self.env is not None:
            self.env.close()
        self.store.close()

    def _follow(self) -> None:
        """Let all ranks see the store as the first one, which alone writes it, has left it."""
        if self.ranks.world == 1 or self.offline:
            return
        if self.ranks.first:
            self.store.flush()
        self.ranks.wait()
        if not self.ranks.first:
            self.store.reload()

    def _encode(self, frames: Tensor) -> Tensor:
        """Latents of stored frames; each rank encodes some, and all have the same bits."""
        return self.ranks.gather(self.agent.encode(self.ranks.share(frames)), len(frames))

    def _collect(self, epoch: int) -> dict[str, float]:
        if self.offline:
            return {}
        acting, seen = self.collection, None
        with suppress(Paused):
            seen = acting.before(epoch, self.epoch, self.progress) if acting else Collected()
        if self.ranks.any(seen is None):
            raise Paused
        self._follow()
        if seen is None or acting is None:
            return {}
        return collection_metrics(seen) | {"time/collect": self.epoch.seconds}

    def _collected(self) -> dict[str, float]:
        """What was collected beside the learners."""
        return self.collection.finish() if self.collection is not None else {}

    def _fresh(self, epoch: int) -> dict[str, float]:
        """The world model on the steps just collected, before any learner has seen them."""
        learner = self.learners.world_model
        if self.collector is None or learner is None or not learner.steps:
            return {}
        cfg = self.config.training
        if not cfg.examines(epoch):
            return {}
        steps = min(cfg.collect_steps, FRESH_STEPS)
        found = fresh_metrics(self.agent, self.replay, steps, epoch)
        return {name: float(value) for name, value in found.items()}

    def _learn(self, epoch: int, learner: Learner | Together) -> dict[str, float]:
        if learner is not self.learners.tokenizer:
            self.latents.refresh()
        now, steps = self.epoch, learner.steps_in(epoch)
        before, fresh = time.monotonic() - now.seconds, learner.steps == now.steps
        self.callback.on_stage(epoch, learner.name, steps)
        self.callback.on_step(now.steps)
        learner.begin(epoch, now.steps)
        while now.steps < steps:
            if self.collection is not None and isinstance(learner, Together):
                share = (now.steps + 1) / steps
                self.collection.beside(epoch, learner, share, self.progress)
            now.add(learner.step())
            if fresh and now.steps == min(UNTRAINED, steps) and IMAGINED in now.sums:
                mean = float(now.sums[IMAGINED]) / now.steps
                now.metrics["controller/untrained_return"] = mean
            now.seconds = time.monotonic() - before
            self.callback.on_step()
            if self.ranks.any(bool(self.stop)):  # all pause together
                raise Paused
        settled = learner.settle(examine=self.config.training.examines(epoch))
        found = {name: float(value) for name, value in settled.items()}
        found |= {name: float(value) / steps for name, value in now.sums.items()}
        if learner is self.learners.tokenizer:
            self.latents.forget()
        return found | {f"time/{learner.name}": time.monotonic() - before}

    def _open_store(self, offline: Path | None) -> Store:
        if offline is not None:
            return Store.open(offline)
        folder = self.folder / REPLAY
        if self.ranks.first:
            assert self.env is not None
            store = own_store(folder, self.env, self.config, self.folder.resolve().name)
            self.ranks.wait()
            return store
        self.ranks.wait()
        return Store.open(folder)

    def _run_start(self) -> RunStart:
        return RunStart(
            agent=self.agent,
            store=self.store,
            folder=self.folder,
            first_epoch=self.progress.epoch,
            seconds=self.progress.seconds,
            plan=plan_of(
                self.config,
                self.learners,
                collects=self.collector is not None,
                evaluates=self.selection.env is not None,
            ),
            note=self.callback.on_note,
            batches=self.batches,
            stop=self.stop_after_epoch,
        )
