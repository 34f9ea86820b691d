"""World model and controller learn in the same stage, on two streams of a GPU.

Their steps are many small kernels, each of which leaves most of a GPU idle. The controller imagines
in a copy of the world model as it was when the stage began, so neither waits for the other, and the
result is the same whether they overlap in time or not.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from horizon_imagination.config import LearnerConfig
from horizon_imagination.learn.copies import Copies
from horizon_imagination.learn.learner import Learner, Metrics


class Together:
    """Both learners as one: a step is one of the controller and its share of the world model's."""

    name = "together"

    def __init__(self, world_model: Learner, controller: Learner, copies: Copies) -> None:
        self.world_model, self.controller, self.copies = world_model, controller, copies
        self._done = self._whole = self._each = 0
        self._learning = self._acting = None
        if controller.graphed:
            self._learning = torch.cuda.Stream()
            self._acting = torch.cuda.Stream(priority=-1)

    @property
    def steps(self) -> int:
        """Steps of the controller so far."""
        return self.controller.steps

    def steps_in(self, epoch: int) -> int:
        """Steps of the controller in an epoch in which both work."""
        return self.controller.steps_in(epoch)

    def begin(self, epoch: int, done: int) -> None:
        """A stage of an epoch begins, or goes on after so many steps with the copies that it began
        with."""
        self._done, self._whole = done, self.steps_in(epoch)
        self._each = self.world_model.steps_in(epoch)
        if not done:
            self.copies.refresh()
        for stream in (self._learning, self._acting):
            if stream is not None:
                stream.wait_stream(torch.cuda.current_stream())

    def step(self) -> Metrics:
        """One step of the controller and, beside it, those of the world model that are due."""
        each, whole = self._each, self._whole
        due = (self._done + 1) * each // whole - self._done * each // whole
        with _on(self._learning):
            found = [self.world_model.step() for _ in range(due)]
        metrics = self.controller.step()
        self._wait()
        self._done += 1
        sums: dict[str, Tensor] = {}
        for one in found:
            for name, value in one.items():
                if self._learning is not None:
                    value.record_stream(torch.cuda.current_stream())
                # Weighted so that the mean over the steps of a stage is that over its own steps.
                sums[name] = sums.get(name, 0) + value * (whole / each)
        return metrics | sums

    def settle(self, *, examine: bool = True) -> Metrics:
        """What both settle, after all steps are done."""
        self._wait()
        learners = self.world_model, self.controller
        return {k: v for x in learners for k, v in x.settle(examine=examine).items()}

    def acting(self) -> AbstractContextManager:
        """Where the copy of the actor acts beside both."""
        return _on(self._acting)

    def _wait(self) -> None:
        """What is launched from here on waits for the world model's steps."""
        if self._learning is not None:
            torch.cuda.current_stream().wait_stream(self._learning)


def overlaps(
    epoch: int,
    tokenizer: LearnerConfig | None,
    world_model: LearnerConfig,
    controller: LearnerConfig,
) -> bool:
    """Whether world model and controller learn concurrently in an epoch: both work and no tokenizer
    does; not in the first epoch, which has no steps of an earlier one to learn from."""
    rests = tokenizer is None or not tokenizer.works_in(epoch)
    return epoch > 0 and rests and world_model.works_in(epoch) and controller.works_in(epoch)


def _on(stream: torch.cuda.Stream | None) -> AbstractContextManager:
    return nullcontext() if stream is None else torch.cuda.stream(stream)
