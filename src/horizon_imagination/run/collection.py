"""Acting in an epoch: before the learners, or beside them."""

import math
import time
from dataclasses import dataclass

from horizon_imagination.collect import Collected, Collector
from horizon_imagination.config import Config
from horizon_imagination.learn.copies import Copies
from horizon_imagination.learn.together import Together
from horizon_imagination.run.callbacks import Callback
from horizon_imagination.run.epoch import Epoch, collection_metrics
from horizon_imagination.run.signals import Paused, StopRequest
from horizon_imagination.snapshots import Progress


@dataclass(frozen=True)
class Collection:
    """The collector of a run, whose steps are counted in `progress` and told to the callback."""

    collector: Collector
    config: Config
    copies: Copies | None
    """What the collector acts with where `training.overlap` is on."""
    callback: Callback
    stop: StopRequest

    def before(self, number: int, epoch: Epoch, progress: Progress) -> Collected:
        """Take the steps of an epoch; whoever learns after them sees them."""
        cfg, before = self.config.training, time.monotonic() - epoch.seconds
        steps = cfg.collect_steps + (cfg.initial_steps if number == 0 else 0)
        self.collector.replay.visible = None
        self.callback.on_stage(number, "collect", steps)
        if self.collector.unfinished is not None:
            self.callback.on_step(self.collector.unfinished.seen.steps)
        elif self.copies is not None:
            self.copies.refresh()

        def on_step() -> None:
            progress.env_steps += 1
            self.callback.on_step()
            if self.stop:
                raise Paused

        try:
            return self.collector.collect(
                steps,
                trained=self._trained(number),
                on_step=on_step,
                on_failure=lambda reason: self._failed(progress, reason),
            )
        finally:
            epoch.seconds = time.monotonic() - before

    def beside(self, number: int, together: Together, share: float, progress: Progress) -> None:
        """Take steps until so large a share of an epoch's is done, while others learn from the
        steps of before the epoch."""
        collector = self.collector
        if collector.replay.visible is None:
            collector.replay.visible = collector.store.num_frames

        def on_step() -> None:
            progress.env_steps += 1

        with together.acting():
            collector.advance(
                math.ceil(share * self.config.training.collect_steps),
                trained=self._trained(number),
                on_step=on_step,
                on_failure=lambda reason: self._failed(progress, reason),
            )

    def finish(self) -> dict[str, float]:
        """What was collected beside the learners; from now on they see it."""
        self.collector.replay.visible = None
        return collection_metrics(self.collector.finish())

    def _trained(self, number: int) -> bool:
        """Whether the policy has learned anything before an epoch."""
        return number > self.config.controller.learner.first_epoch

    def _failed(self, progress: Progress, reason: str) -> None:
        progress.failures += 1
        self.callback.on_note(f"environment failure {progress.failures}: {reason}")
