"""Evaluations during a run, and the best weights so far."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from horizon_imagination.agent import Agent
from horizon_imagination.checkpoint import save_best
from horizon_imagination.config import Config, EnvConfig
from horizon_imagination.evaluate import Protocol, evaluate
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.run.callbacks import Callback
from horizon_imagination.run.signals import Paused, StopRequest
from horizon_imagination.snapshots import Progress
from horizon_imagination.streams import derive_seed

SELECTION, EVALUATE = "selection", "evaluate"


def evaluates_in(config: Config, epoch: int) -> bool:
    """Whether an epoch (from 0) ends with an evaluation: none before the controller learns."""
    every, first = config.training.evaluate_every, config.controller.learner.first_epoch
    return epoch >= first and bool(every) and (epoch + 1) % every == 0


@dataclass(frozen=True)
class Selection:
    """Plays every `training.evaluate_every` epochs, and keeps the weights that played best."""

    agent: Agent
    env: EnvConfig | None
    """The world of the evaluations; none for no evaluation."""
    folder: Path
    callback: Callback
    stop: StopRequest
    ranks: Ranks

    def evaluate(self, epoch: int, progress: Progress) -> dict[str, float]:
        """The score after an epoch that is due, which `progress` learns too."""
        config = self.agent.config
        if self.env is None or not evaluates_in(config, epoch):
            return {}
        cfg = config.training
        self.callback.on_stage(epoch, EVALUATE, cfg.evaluation_episodes)
        # Other episodes than any report uses, and other ones in every evaluation.
        seed = derive_seed(config.seed, f"{SELECTION} {epoch}") % 2**31
        protocol = Protocol(self.env, cfg.evaluation_episodes, seed, greedy=False)
        score = None
        with suppress(Paused):
            score = self._play(protocol) if self.ranks.first else 0.0
        if self.ranks.any(score is None):
            raise Paused
        score = self.ranks.tell(score or 0.0)
        self._keep(epoch, score, progress)
        if cfg.target_return is not None and score >= cfg.target_return:
            progress.reached = score
            self.callback.on_note(
                f"an evaluation of {score:.3g} reached training.target_return "
                f"({cfg.target_return:g}): the run ends after epoch {epoch + 1}"
            )
        return {"evaluation/return": score}

    def _play(self, protocol: Protocol) -> float:
        """The mean return of an evaluation."""

        def on_steps(ended: int, _: int) -> None:
            self.callback.on_step(ended)
            if self.stop:
                raise Paused

        played = evaluate(self.agent, protocol, on_steps=on_steps)
        return sum(episode.total_reward for episode in played) / len(played)

    def _keep(self, epoch: int, score: float, progress: Progress) -> None:
        """Write the weights down if none were better."""
        if progress.best_return is not None and score < progress.best_return:
            return
        progress.best_return = score
        if self.ranks.first:
            save_best(self.folder, self.agent, epoch + 1, progress.env_steps, score)
