"""Sampling schedules: matrices K whose row b holds the time of every frame at denoising step b.

Rows run from pure noise (all 0) to clean (all 1); a sampler is a loop over them. Ends are exact,
so that `K[b + 1, t] > K[b, t]` means that frame t moves and `K[b, t] == 1` that it is clean.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from horizon_imagination.config import ImaginationConfig, ScheduleKind
from horizon_imagination.types import Schedule

CRUMB = 1e-6
"""A time this close to 0 or 1 is rounding, and stands for that end."""


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


def schedule_of_kind(
    kind: ScheduleKind, horizon: int, budget: int, decay_horizon: float
) -> Schedule:
    """A schedule by the name of its kind; only the Horizon schedule has a decay horizon."""
    if kind == "horizon":
        return horizon_schedule(horizon, budget, decay_horizon)
    others = {
        "pyramidal": pyramidal_schedule,
        "autoregressive": autoregressive_schedule,
        "full": full_sequence_schedule,
    }
    return others[kind](horizon, budget)


def configured_schedule(cfg: ImaginationConfig) -> Schedule:
    """The Horizon schedule of a config."""
    return horizon_schedule(cfg.horizon, cfg.budget, cfg.decay_horizon)


def check_schedule(schedule: Schedule, horizon: int) -> None:
    """Refuse a matrix that is no schedule of `horizon` frames; every sampler relies on it.

    >>> check_schedule(torch.tensor([[0.0, 0.0], [1.0, 0.9999999]]), horizon=2)
    Traceback (most recent call last):
        ...
    ValueError: the last row of a schedule is exactly 1: got [1.0, 0.9999998807907104]
    """
    k = schedule.detach().cpu()  # a schedule that lives on a GPU is read once
    if k.ndim != 2 or len(k) < 2 or k.shape[1] != horizon:
        raise ValueError(
            f"a schedule has at least two rows and a column per frame: expected (rows, {horizon}), "
            f"got {tuple(k.shape)}"
        )
    if (k[0] != 0).any():
        raise ValueError(f"the first row of a schedule is exactly 0, noise: got {_told(k[0])}")
    if (k[-1] != 1).any():
        raise ValueError(f"the last row of a schedule is exactly 1: got {_told(k[-1])}")
    if not (k[1:] >= k[:-1]).all():  # NaN fails, too
        row = int((~(k[1:] >= k[:-1])).any(1).nonzero()[0])
        raise ValueError(f"times of a schedule never fall: see rows {row} and {row + 1}")
    if ((k > 0) & (k < CRUMB) | (k > 1 - CRUMB) & (k < 1)).any():
        raise ValueError(
            f"a schedule holds a time within {CRUMB:g} of 0 or 1: write exactly 0 or 1, since "
            "`tau == 1` decides what is computed"
        )


def moving(schedule: Schedule) -> Bool[Tensor, "step horizon"]:
    """Which frames a denoising step advances."""
    return schedule[1:] > schedule[:-1]


def changeable(schedule: Schedule) -> Bool[Tensor, "row horizon"]:
    """Where a frame moves, is less than half clean, and will move again at a later row.

    An action that changes there leaves a frame that was begun under another one. The first frame
    is left out: it follows the context, where actions do not change.

    >>> changeable(torch.tensor([[0.0, 0.0], [1.0, 0.4], [1.0, 1.0]])).int()
    tensor([[0, 1],
            [0, 0],
            [0, 0]], dtype=torch.int32)
    """
    moves = torch.cat([moving(schedule), torch.zeros_like(schedule[-1:], dtype=torch.bool)])
    moves_yet = moves.flip(0).int().cumsum(0).flip(0)
    found = moves & (moves_yet > 1) & (schedule < 0.5)
    found[:, 0] = False
    return found


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
    k = torch.where(k < CRUMB, 0.0, k)
    return torch.where(k > 1 - CRUMB, 1.0, k).float()


def _told(row: Tensor) -> str:
    shown = ", ".join(str(x) for x in row[:4].tolist())
    return f"[{shown}{', ...' if len(row) > 4 else ''}]"
