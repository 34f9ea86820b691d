"""One loop for all networks: sample, loss, clip, step."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from horizon_imagination.config import LearnerConfig
from horizon_imagination.engine.graph import StepGraph
from horizon_imagination.learn.guard import Guard, NotFiniteError
from horizon_imagination.learn.ranks import Ranks

Metrics = dict[str, Tensor]


@dataclass(frozen=True)
class Term:
    """A part of a loss: a sum and the number of things summed.

    Pieces of a batch count equally, each with the mean over its own things.
    """

    total: Tensor
    count: Tensor
    weight: float = 1.0


class Losses(NamedTuple):
    """What a loss function returns: terms to minimise, and figures to log."""

    terms: dict[str, Term]
    metrics: Metrics


class Figures(NamedTuple):
    """What a step computes besides new weights."""

    losses: list[Tensor]
    metrics: Metrics
    norms: dict[str, Tensor]


@dataclass
class Learner:
    """One network (or two that share batches), its loss and its share of every epoch."""

    name: str
    config: LearnerConfig
    sample: Callable[[int], Any]
    """Draws a batch of the given size."""
    loss: Callable[[Any], Losses]
    """Of this rank's rows of a batch; it is handed the whole one."""
    parameters: dict[str, list[nn.Parameter]]
    """Groups by module name; each group's gradient is clipped on its own."""
    guard: Guard
    precision: Callable[[], AbstractContextManager] = nullcontext
    """The context that the loss is computed in; gradients are taken outside it."""
    after_step: Callable[[], None] = lambda: None
    examine: Callable[[], Metrics] = lambda: {}
    """Figures that are worth a look after a stage of steps, not after each."""
    ranks: Ranks = Ranks()  # noqa: RUF009  (frozen)
    graphed: bool = False
    """Capture the step as a CUDA graph."""
    generators: Sequence[torch.Generator] = ()
    """The random streams that the loss draws from on the device."""
    before_stage: Callable[[], None] = lambda: None
    """Called before the first step of an epoch."""
    rates: dict[str, float] = field(default_factory=dict)
    """Learning rate of a group, as a multiple of the config's."""
    weight_decays: dict[str, float] = field(default_factory=dict)
    """Weight decay of a group, in the place of the config's."""
    steps: int = 0
    optimizer: torch.optim.Optimizer = field(init=False)
    _graph: StepGraph | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        cfg = self.config
        groups: list[dict[str, Any]] = [
            {"params": group, "weight_decay": self.weight_decays.get(name, cfg.weight_decay)}
            for name, group in self.parameters.items()
            if group
        ]
        device = groups[0]["params"][0].device if groups else torch.device("cpu")
        for name, group in zip(self._names(), groups, strict=True):
            rate = cfg.learning_rate * self.rates.get(name, 1.0)
            group["lr"] = torch.tensor(rate, device=device) if self.graphed else rate
        if self.graphed:
            self._graph = StepGraph(self._update, self.generators)
        self.optimizer = torch.optim.AdamW(
            groups,
            lr=cfg.learning_rate,
            betas=cfg.betas,
            eps=cfg.eps,
            fused=True if device.type == "cuda" else None,
            capturable=self.graphed,
        )

    def steps_in(self, epoch: int) -> int:
        """Steps that it takes in an epoch, 0 where it rests."""
        return self.config.steps_in(epoch)

    def begin(self, epoch: int, done: int) -> None:
        """A stage of an epoch begins, or goes on after so many steps."""
        if not done:
            self.before_stage()

    def step(self) -> Metrics:
        """One optimiser step; figures to log, still on the device."""
        cfg = self.config
        self._set_rate(learning_rate(cfg, self.steps))
        pieces = cfg.micro_batches
        batches = [self.sample(cfg.batch_size // pieces) for _ in range(pieces)]
        if self._graph is not None:
            figures = self._graph(batches)
            self._watch(figures, batches)
        else:
            figures = self._gradients(batches)
            self._watch(figures, batches)
            self.optimizer.step()
        self.after_step()
        self.steps += 1
        metrics = figures.metrics | {f"{n}_grad_norm": norm for n, norm in figures.norms.items()}
        return {f"{self.name}/{key}": value for key, value in metrics.items()}

    def settle(self, *, examine: bool = True) -> Metrics:
        """Look at the losses so far and at the weights that the last step has left; examine."""
        self.guard.check(now=True)
        for name, group in self.parameters.items():
            with torch.no_grad():
                largest = nn.utils.get_total_norm(group, math.inf)
            if not largest.isfinite():
                raise NotFiniteError(
                    f"{self.name}, step {self.steps - 1}: it left weights of the "
                    f"{name.replace('_', ' ')} that are not finite; the last snapshot is untouched"
                )
        found = self.examine() if examine else {}
        return {f"{self.name}/{key}": value for key, value in found.items()}

    def _gradients(self, batches: list[Any]) -> Figures:
        """Clipped gradients of the mean over the pieces of a batch."""
        self.optimizer.zero_grad(set_to_none=True)
        figures = Figures([], {}, {})
        for batch in batches:
            with self.precision():
                losses = self.loss(batch)
            loss = sum_terms(losses.terms, self.ranks) / len(batches)
            loss.backward()
            # Of all ranks together, so that they stop together.
            figures.losses.append(self.ranks.sum(loss.detach()))
            for name, value in losses.metrics.items():
                before = figures.metrics.get(name, 0)
                figures.metrics[name] = before + value.detach() / len(batches)
        for name, group in self.parameters.items():
            self.ranks.sum_gradients(group)
            norm = nn.utils.clip_grad_norm_(group, self.config.max_grad_norm)
            figures.norms[name] = norm.detach()
        return figures

    def _update(self, batches: list[Any]) -> Figures:
        figures = self._gradients(batches)
        self.optimizer.step()
        return figures

    def _watch(self, figures: Figures, batches: list[Any]) -> None:
        for loss, batch in zip(figures.losses, batches, strict=True):
            self.guard.watch(self.name, self.steps, loss, batch)
        for name, norm in figures.norms.items():
            self.guard.watch_gradient(self.name, self.steps, name, norm)
        self.guard.check()

    def _set_rate(self, rate: float) -> None:
        for name, group in zip(self._names(), self.optimizer.param_groups, strict=True):
            own = rate * self.rates.get(name, 1.0)
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(own)
            else:
                group["lr"] = own

    def _names(self) -> list[str]:
        """The names of the optimiser's groups."""
        return [name for name, group in self.parameters.items() if group]


def sum_terms(terms: dict[str, Term], ranks: Ranks = Ranks()) -> Tensor:  # noqa: B008  (frozen)
    """sum of weight * total / count: this rank's totals, counts of all ranks."""
    counts = ranks.sum(torch.stack([term.count for term in terms.values()])).clamp(min=1)
    return torch.stack(
        [t.weight * t.total / count for t, count in zip(terms.values(), counts, strict=True)]
    ).sum()


def learning_rate(cfg: LearnerConfig, step: int) -> float:
    """Linear warm-up, then constant or a cosine from the rate to the final one."""
    warm = min(1.0, (step + 1) / cfg.warmup_steps) if cfg.warmup_steps else 1.0
    if cfg.final_learning_rate is None or not cfg.decay_steps:
        return cfg.learning_rate * warm
    progress = min(1.0, step / cfg.decay_steps)
    share = (1 + math.cos(math.pi * progress)) / 2
    span = cfg.learning_rate - cfg.final_learning_rate
    return warm * (cfg.final_learning_rate + span * share)
