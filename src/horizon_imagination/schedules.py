"""Sampling schedules: matrices K whose row b holds the time of every frame at denoising step b.

Rows run from pure noise (all 0) to clean (all 1); a sampler is a loop over them. Ends are exact,
so that `K[b + 1, t] > K[b, t]` means that frame t moves and `K[b, t] == 1` that it is clean.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from horizon_imagination.types import Schedule


def horizon_schedule(horizon: int, budget: int, decay_horizon: float) -> Schedule:
    """The Horizon schedule (Eq. 3): a front of slope -1/nu sweeps over the frames.

    `decay_horizon` (nu) frames are in flight at a time, whatever the budget, so the budget only
    sets how finely the sweep is cut; it may be smaller than the horizon.

    >>> horizon_schedule(horizon=3, budget=3, decay_horizon=1)  # frame by frame
    tensor([[0., 0., 0.],
            [1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]])
    >>> horizon_schedule(horizon=3, budget=2, decay_horizon=2)  # sub-frame budget
    tensor([[0.0000, 0.0000, 0.0000],
            [1.0000, 0.5000, 0.0000],
            [1.0000, 1.0000, 1.0000]])
    """
    _check(horizon, budget)
    if not 1 <= decay_horizon <= horizon:
        raise ValueError(
            f"decay_horizon must lie in [1, {horizon}] (the horizon), got {decay_horizon}"
        )
    row, frame = _grid(horizon, budget)
    # Scaled by nu * B, so that the subtraction that decides between 0 and "just started" is exact
    # wherever nu is a whole number.
    sweep = row * (decay_horizon + horizon - 1) - frame * budget
    return _clamp(sweep / (decay_horizon * budget))


def pyramidal_schedule(horizon: int, budget: int) -> Schedule:
    """Diffusion Forcing's: each frame takes B - H + 1 steps, starting one after its predecessor.

    Its decay horizon is B - H + 1: budget and decay cannot be chosen apart.

    >>> pyramidal_schedule(horizon=2, budget=3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.0000],
            [1.0000, 0.5000],
            [1.0000, 1.0000]])
    """
    _check(horizon, budget)
    if budget < horizon:
        raise ValueError(
            f"the pyramidal schedule needs a budget of at least the horizon ({horizon}), "
            f"got {budget}; the Horizon schedule takes any budget"
        )
    row, frame = _grid(horizon, budget)
    return _clamp((row - frame) / (budget - horizon + 1))


def autoregressive_schedule(horizon: int, budget: int) -> Schedule:
    """Frame after frame, B / H steps each.

    >>> autoregressive_schedule(horizon=2, budget=2)
    tensor([[0., 0.],
            [1., 0.],
            [1., 1.]])
    """
    _check(horizon, budget)
    if budget % horizon:
        raise ValueError(
            f"the autoregressive schedule needs a budget that is a multiple of the horizon "
            f"({horizon}), got {budget}"
        )
    row, frame = _grid(horizon, budget)
    steps = budget // horizon
    return _clamp((row - frame * steps) / steps)


def full_sequence_schedule(horizon: int, budget: int) -> Schedule:
    """All frames at the same time, as in ordinary video diffusion.

    >>> full_sequence_schedule(horizon=2, budget=2)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [1.0000, 1.0000]])
    """
    _check(horizon, budget)
    row, frame = _grid(horizon, budget)
    return _clamp(row / budget + 0 * frame)


def moving(schedule: Schedule) -> Bool[Tensor, "step horizon"]:
    """Which frames a denoising step advances."""
    return schedule[1:] > schedule[:-1]


def frames_in_flight(schedule: Schedule) -> Int[Tensor, " step"]:
    """How many frames each denoising step advances."""
    return moving(schedule).sum(dim=1)


def _check(horizon: int, budget: int) -> None:
    if int(horizon) != horizon or int(budget) != budget or horizon < 1 or budget < 1:
        raise ValueError(
            f"horizon and budget must be whole numbers of at least 1, got {horizon} and {budget}"
        )


def _grid(horizon: int, budget: int) -> tuple[Tensor, Tensor]:
    row = torch.arange(budget + 1, dtype=torch.float64)[:, None]
    return row, torch.arange(horizon, dtype=torch.float64)[None, :]


def _clamp(k: Tensor) -> Schedule:
    """Clamp to [0, 1]; what lies within rounding of an end is that end."""
    crumb = 1e-6
    k = torch.where(k < crumb, 0.0, k)
    return torch.where(k > 1 - crumb, 1.0, k).float()
