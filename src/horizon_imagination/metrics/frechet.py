"""The Fréchet distance between two sets of features, exact in float64.

Between Gaussians of the sets' moments: |m1 - m2|^2 + tr S1 + tr S2 - 2 tr sqrt(S1 S2). With A and B
the centred features over sqrt(n - 1), S1 = A'A and S2 = B'B, the last trace is the sum of the
singular values of A B': real, not negative, and accurate where covariances are singular. Taking
matrix roots of covariances instead gives complex numbers and distances below zero there.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

Features = Float[Tensor, "sample feature"]
Others = Float[Tensor, "other feature"]


def frechet_distance(x: Features, y: Others) -> float:
    """The squared Fréchet (2-Wasserstein) distance of two sets, of at least two samples each."""
    if min(len(x), len(y)) < 2:
        raise ValueError(f"a covariance needs two samples or more, got {len(x)} and {len(y)}")
    x, y = x.double(), y.double()
    a, b = root_of_covariance(x), root_of_covariance(y)
    shift = (x.mean(0) - y.mean(0)).square().sum()
    spread = a.square().sum() + b.square().sum()
    shared = torch.linalg.svdvals(a @ b.T).sum()
    # What is below zero is rounding: the distance itself cannot be.
    return max(float(shift + spread - 2 * shared), 0.0)


def root_of_covariance(x: Features) -> Float[Tensor, "rank feature"]:
    """A matrix R with R'R the covariance, with no more rows than features."""
    centred = (x - x.mean(0)) / (len(x) - 1) ** 0.5
    return torch.linalg.qr(centred, mode="r").R if len(x) > x.shape[1] else centred


def extrapolated_distance(
    x: Features, y: Others, rng: torch.Generator, *, sizes: int = 8, repeats: int = 4
) -> float:
    """The distance at n = infinity: a line through distances of subsets against 1/n.

    Subsets run from a third of the samples to all of them. The bias falls as 1/n once there are
    more samples than the features' effective dimensions; below that this corrects only in part.
    """
    n = min(len(x), len(y))
    if n < 6:
        raise ValueError(f"extrapolation needs six samples or more in each set, got {n}")
    inverse, distances = [], []
    for size in np.unique(np.linspace(max(n // 3, 2), n, sizes).astype(int)).tolist():
        for _ in range(1 if size == len(x) == len(y) else repeats):
            i, j = (torch.randperm(len(z), generator=rng)[:size] for z in (x, y))
            inverse.append(1 / size)
            distances.append(frechet_distance(x[i], y[j]))
    slope_and_intercept = np.polyfit(inverse, distances, 1)
    return max(float(slope_and_intercept[1]), 0.0)
