"""Continuous actions that move only as much as the policy does (the paper's appendix).

A policy is a diagonal Gaussian, squashed into (-1, 1) by tanh. Its noise is drawn once; every
policy met while frames are denoised is read with the same noise.
"""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

Vector = Float[Tensor, "*batch dim"]
EDGE = 1 - 1e-6
"""Largest action: closer to 1, float32 cannot tell the Gaussian value before the tanh."""
NODES = 24
"""Points of the Gauss-Hermite quadrature of the entropy."""


def stable_gaussian(mean: Vector, std: Vector, noise: Vector) -> Vector:
    """The action before it is squashed: mu + omega sigma, with omega fixed while denoising."""
    return mean + noise * std


def squash(value: Vector) -> Vector:
    """The action of a Gaussian value: its tanh, kept off the ends of [-1, 1]."""
    return value.tanh().clamp(-EDGE, EDGE)


def unsquash(action: Vector) -> Vector:
    """The Gaussian value of an action; the inverse of `squash`."""
    return action.clamp(-EDGE, EDGE).atanh()


def log_slope(value: Vector) -> Vector:
    """log of the derivative of tanh, 1 - tanh(x)^2, without its underflow for large x."""
    return 2 * (math.log(2) - value - F.softplus(-2 * value))


def squashed_log_prob(mean: Vector, std: Vector, action: Vector) -> Float[Tensor, "*batch"]:
    """Log-density of an action: that of its Gaussian value, less the log-slope of the tanh."""
    value = unsquash(action)
    density = -((value - mean) / std).square() / 2 - std.log() - math.log(2 * math.pi) / 2
    return (density - log_slope(value)).sum(-1)


def squashed_entropy(mean: Vector, std: Vector) -> Float[Tensor, "*batch"]:
    """Differential entropy in nats: the Gaussian's, plus the expected log-slope of the tanh.

    The expectation has no closed form. It is one integral per dimension, and 24 nodes of
    Gauss-Hermite give it to about 1e-3 for sigma <= 1.5. The entropy is at most log 2 per
    dimension, that of the uniform policy.
    """
    nodes, weights = _quadrature(mean.device, mean.dtype)
    value = mean[..., None] + std[..., None] * nodes
    slope = (log_slope(value) * weights).sum(-1)
    return (std.log() + math.log(2 * math.pi * math.e) / 2 + slope).sum(-1)


def wasserstein(
    mean: Vector, std: Vector, other_mean: Vector, other_std: Vector
) -> Float[Tensor, "*batch"]:
    """Squared 2-Wasserstein distance of diagonal Gaussians: |mu - mu'|^2 + |sigma - sigma'|^2.

    It is the least expected squared movement of any coupling. Fixed noise attains it.
    """
    return (mean - other_mean).square().sum(-1) + (std - other_std).square().sum(-1)


def fresh_movement(
    mean: Vector, std: Vector, other_mean: Vector, other_std: Vector
) -> Float[Tensor, "*batch"]:
    """Expected squared movement under fresh noise: |mu - mu'|^2 + |sigma|^2 + |sigma'|^2."""
    moved = (mean - other_mean).square().sum(-1)
    return moved + std.square().sum(-1) + other_std.square().sum(-1)


@lru_cache(maxsize=16)
def _quadrature(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the expectation under a standard normal (Golub and Welsch)."""
    diagonal = torch.arange(1, NODES, dtype=torch.float64).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(diagonal, 1) + torch.diag(diagonal, -1))
    return nodes.to(device, dtype), vectors[0].square().to(device, dtype)
