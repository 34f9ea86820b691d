"""How often actions change, or how far they move, while a policy changes.

Two experiments are the paper's, on stable sampling; a third one has continuous actions.

Where the paper throws 10^6 dice per pair of policies, omega is integrated out exactly and only
orders are drawn, so the numbers carry no noise from omega. Throwing dice remains an option.

The third experiment takes the path of the second: from a source to a target in seven steps, then
eight steps without a change. The expected squared movement before the tanh is exact, by the
formulas of `gaussian_actions`; the length of the way that squashed actions take is sampled.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations, repeat
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from horizon_imagination.gaussian_actions import (
    fresh_movement,
    squash,
    stable_gaussian,
    wasserstein,
)
from horizon_imagination.stable_actions import (
    change_probability,
    coupled_action,
    roll,
    stable_action,
    total_variation,
)
from horizon_imagination.types import Probs

ENTROPIES = {"low": 0.2, "uniform": 1.0, "high": 5.0}
"""Dirichlet concentrations of the second experiment, by the paper's words for them."""
SAMPLERS = ("stable", "coupled", "naive")
CHUNK = 2_000_000
DIMENSIONS = (1, 2, 6)
"""Of an action in the third experiment."""
GAUSSIAN_SAMPLERS = ("stable", "naive")
"""Noise that stays the same along the path, and noise that is new at every step."""
NOISES = 64
"""Sampled per pair."""


@dataclass(frozen=True, kw_only=True)
class ActionStudy:
    """The sizes of the experiments; the defaults are the paper's."""

    sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    """Numbers of actions in the first experiment."""
    pairs: int = 10_000
    """Pairs of policies per number of actions."""
    path_actions: int = 10
    path_pairs: int = 1_000
    """Pairs of source and target in the second experiment, per entropy."""
    orders: int = 200
    """Orders drawn per pair; all of them where there are fewer."""
    monte_carlo: int = 0
    """Throw this many dice per pair instead of integrating; 0 integrates."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.pairs, self.path_pairs, self.orders) < 1 or self.monte_carlo < 0:
            raise ValueError(
                "pairs, path_pairs and orders must be at least 1 and monte_carlo at least 0"
            )
        if not self.sizes or min(*self.sizes, self.path_actions) < 2:
            raise ValueError("two policies can only differ over at least 2 actions")


@dataclass(frozen=True)
class ChangeCounts:
    """Expected changes of every pair, and the error of their mean from drawn orders or dice."""

    experiment: str
    setting: dict[str, str | int | float]
    values: Float[Tensor, " pair"]
    standard_error: float

    @property
    def mean(self) -> float:
        """The mean over pairs."""
        return self.values.mean().item()


def run(study: ActionStudy, progress: Callable[[str], None]) -> list[ChangeCounts]:
    """All experiments: one result per number of actions, then per entropy and sampler, then per
    dimension, sampler and measure."""
    results = []
    for num_actions in study.sizes:
        results.append(ratios(study, num_actions))
        progress(f"{num_actions:3d} actions: P(change) = {results[-1].mean:.4f} TV")
    for entropy in ENTROPIES:
        for sampler in SAMPLERS:
            results.append(path_changes(study, entropy, sampler))
            progress(f"{entropy:>7} entropy, {sampler:>7}: {results[-1].mean:.4f} changes")
    for dimension in DIMENSIONS:
        for sampler in GAUSSIAN_SAMPLERS:
            squared, length = movements(study, dimension, sampler)
            results += [squared, length]
            progress(
                f"{dimension} dimensions, {sampler:>6}: squared movement {squared.mean:.3f}, "
                f"length {length.mean:.3f}"
            )
    return results


def ratios(study: ActionStudy, num_actions: int) -> ChangeCounts:
    """Experiment one: P(change) of the stable scheme in units of the total variation."""
    rng = torch.Generator().manual_seed(study.seed)
    p, q = policies(2 * study.pairs, num_actions, 1.0, study.seed).split(study.pairs)
    path = torch.stack([p, q], dim=1)
    units = total_variation(p, q)
    changes, error = _stable(study, path, rng)
    error = (error / units).square().sum().sqrt().item() / study.pairs
    return ChangeCounts("ratio", {"num_actions": num_actions}, changes / units, error)


def path_changes(study: ActionStudy, entropy: str, sampler: str) -> ChangeCounts:
    """Experiment two: expected changes while a policy moves to its target and then stays."""
    rng = torch.Generator().manual_seed(study.seed)
    ends = policies(2 * study.path_pairs, study.path_actions, ENTROPIES[entropy], study.seed)
    weight = (torch.arange(16, dtype=torch.float64) / 7).clamp(max=1)[:, None]
    source, target = (x[:, None] for x in ends.split(study.path_pairs))
    path = (1 - weight) * source + weight * target
    measure = {"stable": _stable, "coupled": _coupled, "naive": _naive}[sampler]
    changes, error = measure(study, path, rng)
    setting = {"entropy": entropy, "concentration": ENTROPIES[entropy], "sampler": sampler}
    return ChangeCounts(
        "changes", setting, changes, error.square().sum().sqrt().item() / len(changes)
    )


def policies(
    count: int, num_actions: int, concentration: float, seed: int
) -> Float[Tensor, "count action"]:
    """Draws from a symmetric Dirichlet distribution, in double precision."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.dirichlet(np.full(num_actions, concentration), count))


def orders(
    pairs: int, num_actions: int, count: int, rng: torch.Generator
) -> Int[Tensor, "pair order action"]:
    """`count` random orders for every pair, or all of them where there are no more."""
    if math.factorial(num_actions) <= count:
        every = torch.tensor(list(permutations(range(num_actions))))
        return every.expand(pairs, -1, -1)
    return torch.rand(pairs, count, num_actions, generator=rng).argsort(-1)


Path = Float[Tensor, "pair step action"]
PerPair = tuple[Float[Tensor, " pair"], Float[Tensor, " pair"]]
"""Expected changes of each pair, and their standard errors."""


def _stable(study: ActionStudy, path: Path, rng: torch.Generator) -> PerPair:
    if study.monte_carlo:
        return _thrown(study, path, rng, _read_stable)
    width = min(study.orders, math.factorial(path.shape[-1]))
    found = []
    for part in _chunks(path, width):
        order = orders(len(part), path.shape[-1], study.orders, rng)
        at = [_spread(probs, width) for probs in part.unbind(1)]
        steps = [change_probability(p, q, order) for p, q in pairwise(at)]
        found.append(torch.stack(steps).sum(0))
    changes = torch.cat(found)
    complete = math.factorial(path.shape[-1]) <= study.orders
    error = changes.new_zeros(len(changes)) if complete else changes.std(1) / math.sqrt(width)
    return changes.mean(1), error


def _coupled(study: ActionStudy, path: Path, rng: torch.Generator) -> PerPair:
    if study.monte_carlo:
        return _thrown(study, path, rng, _walk_coupled)
    return _exact(total_variation(path[:, 1:], path[:, :-1]).sum(1))


def _naive(study: ActionStudy, path: Path, rng: torch.Generator) -> PerPair:
    if study.monte_carlo:
        return _thrown(study, path, rng, _sample_afresh)
    return _exact((1 - (path[:, 1:] * path[:, :-1]).sum(-1)).sum(1))


def _exact(changes: Float[Tensor, " pair"]) -> PerPair:
    return changes, torch.zeros_like(changes)


Walk = Callable[[list[Probs], torch.Generator], Iterator[Tensor]]
"""Actions at each of a list of policies, for as many independent throws as their batch has."""


def _thrown(study: ActionStudy, path: Path, rng: torch.Generator, walk: Walk) -> PerPair:
    """Changes counted over thrown dice."""
    found = []
    for part in _chunks(path, study.monte_carlo):
        at = [_spread(probs, study.monte_carlo) for probs in part.unbind(1)]
        actions = torch.stack(list(walk(at, rng)))
        found.append((actions[1:] != actions[:-1]).double().sum(0))
    changes = torch.cat(found)
    deviation = changes.std(1, correction=0)
    return changes.mean(1), deviation / math.sqrt(study.monte_carlo)


def _read_stable(at: list[Probs], rng: torch.Generator) -> Iterator[Tensor]:
    dice = roll(*at[0].shape[:-1], num_actions=at[0].shape[-1], rng=rng)
    return map(stable_action, at, repeat(dice))


def _walk_coupled(at: list[Probs], rng: torch.Generator) -> Iterator[Tensor]:
    *batch, num_actions = at[0].shape
    action = stable_action(at[0], roll(*batch, num_actions=num_actions, rng=rng))
    yield action
    for p, q in pairwise(at):
        action = coupled_action(action, p, q, roll(*batch, num_actions=num_actions, rng=rng))
        yield action


def _sample_afresh(at: list[Probs], rng: torch.Generator) -> Iterator[Tensor]:
    *batch, num_actions = at[0].shape
    for probs in at:
        yield stable_action(probs, roll(*batch, num_actions=num_actions, rng=rng))


def _chunks(path: Path, width: int) -> Iterator[Tensor]:
    return iter(path.split(max(1, CHUNK // (width * path.shape[-1]))))


def _spread(probs: Float[Tensor, "pair action"], width: int) -> Float[Tensor, "pair width action"]:
    return probs[:, None].expand(-1, width, -1)


class GaussianPath(NamedTuple):
    """Means and deviations, one policy per step."""

    mean: Float[Tensor, "step pair dim"]
    std: Float[Tensor, "step pair dim"]


def movements(
    study: ActionStudy, dimension: int, sampler: str
) -> tuple[ChangeCounts, ChangeCounts]:
    """Experiment three: expected squared movement before the tanh, length of the way after it."""
    path = gaussian_paths(study.path_pairs, dimension, study.seed)
    law = wasserstein if sampler == "stable" else fresh_movement
    steps = list(pairwise(zip(path.mean, path.std, strict=True)))
    exact = torch.stack([law(*p, *q) for p, q in steps]).sum(0)
    lengths = _lengths(path, sampler, torch.Generator().manual_seed(study.seed))
    error = lengths.std(0).square().sum().sqrt().item() / len(exact) / math.sqrt(NOISES)
    setting = {"dimension": dimension, "sampler": sampler}
    return (
        ChangeCounts("squared movement", setting, exact, 0.0),
        ChangeCounts("length", setting, lengths.mean(0), error),
    )


def gaussian_paths(pairs: int, dimension: int, seed: int) -> GaussianPath:
    """Sources and targets: standard normal means, deviations log-uniform from 0.1 to 1."""
    rng = torch.Generator().manual_seed(seed)
    place = {"generator": rng, "dtype": torch.float64}
    mean = torch.randn(2, pairs, dimension, **place)
    std = 0.1 ** torch.rand(2, pairs, dimension, **place)
    weight = (torch.arange(16, dtype=torch.float64) / 7).clamp(max=1)[:, None, None]
    return GaussianPath(*((1 - weight) * x[0] + weight * x[1] for x in (mean, std)))


def _lengths(path: GaussianPath, sampler: str, rng: torch.Generator) -> Float[Tensor, "noise pair"]:
    steps, pairs, dimension = path.mean.shape
    drawn = 1 if sampler == "stable" else steps
    noise = torch.randn(NOISES, drawn, pairs, dimension, generator=rng, dtype=torch.float64)
    shape = (NOISES, *path.mean.shape)
    mean, std, noise = (x.expand(shape) for x in (path.mean, path.std, noise))
    actions = squash(stable_gaussian(mean, std, noise))
    return (actions[:, 1:] - actions[:, :-1]).norm(dim=-1).sum(1)
