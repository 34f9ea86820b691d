"""How far continuous actions move while a Gaussian policy moves: the third action experiment.

The path is that of the second experiment: from a source to a target in seven steps, then eight
steps without a change. The expected squared movement before the tanh is exact, by the formulas of
`gaussian_actions`; the length of the way that squashed actions take is sampled.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.gaussian_actions import (
    fresh_movement,
    squash,
    stable_gaussian,
    wasserstein,
)
from horizon_imagination.studies.actions import ActionStudy, ChangeCounts

DIMENSIONS = (1, 2, 6)
SAMPLERS = ("stable", "naive")
"""Noise that stays the same along the path, and noise that is new at every step."""
NOISES = 64
"""Sampled per pair."""


class GaussianPath(NamedTuple):
    """Means and deviations, one policy per step."""

    mean: Float[Tensor, "step pair dim"]
    std: Float[Tensor, "step pair dim"]


def run(study: ActionStudy, progress: Callable[[str], None]) -> list[ChangeCounts]:
    """One result per dimension, sampler and measure."""
    results = []
    for dimension in DIMENSIONS:
        for sampler in SAMPLERS:
            squared, length = movements(study, dimension, sampler)
            results += [squared, length]
            progress(
                f"{dimension} dimensions, {sampler:>6}: squared movement {squared.mean:.3f}, "
                f"length {length.mean:.3f}"
            )
    return results


def movements(
    study: ActionStudy, dimension: int, sampler: str
) -> tuple[ChangeCounts, ChangeCounts]:
    """Expected squared movement before the tanh, and length of the way after it."""
    path = paths(study.path_pairs, dimension, study.seed)
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


def paths(pairs: int, dimension: int, seed: int) -> GaussianPath:
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
