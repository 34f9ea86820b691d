"""Whether cost grows no faster than linearly in frames plus the attention over the cache."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

MOST = 1.1
"""Measured over fitted, at the longest horizon, up to which growth counts as explained."""


@dataclass(frozen=True)
class Fit:
    """Milliseconds as frame_ms * frames + pair_ms * pairs, by relative least squares."""

    frame_ms: float
    """Per frame evaluated."""
    pair_ms: float
    """Per pair of frames, one attending to the other."""
    ratios: list[float]
    """Measured over fitted, point by point."""
    slope: float
    """Of the time over the horizon, both as logarithms."""
    frame_slope: float
    """Of the time per evaluated frame over the horizon: 0 if the cache cost nothing."""

    @property
    def explained(self) -> bool:
        """Whether the longest horizon takes no more than its frames and pairs account for."""
        return self.ratios[-1] <= MOST

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self) | {"explained": self.explained}


def fit_growth(
    horizons: Sequence[int],
    ms: Sequence[float],
    frames: Sequence[float],
    pairs: Sequence[float],
) -> Fit:
    """From points in the order of their horizon; at least three of them.

    Every point counts alike: errors are relative to the point. Neither price is negative.
    """
    time = np.asarray(ms, dtype=np.float64)
    amounts = np.stack([np.asarray(frames, np.float64), np.asarray(pairs, np.float64)], axis=1)
    price = _prices(amounts / time[:, None])
    logs = np.log(np.asarray(horizons, dtype=np.float64))
    return Fit(
        frame_ms=float(price[0]),
        pair_ms=float(price[1]),
        ratios=(time / (amounts @ price)).tolist(),
        slope=float(np.polyfit(logs, np.log(time), 1)[0]),
        frame_slope=float(np.polyfit(logs, np.log(time / amounts[:, 0]), 1)[0]),
    )


def _prices(rows: np.ndarray) -> np.ndarray:
    """Least squares of rows @ price = 1 without negative prices."""
    ones = np.ones(len(rows))
    price = np.linalg.lstsq(rows, ones, rcond=None)[0]
    if (price >= 0).all():
        return price
    single = [np.linalg.lstsq(rows[:, [i]], ones, rcond=None)[0][0] for i in range(2)]
    errors = [np.square(rows[:, i] * single[i] - 1).sum() for i in range(2)]
    best = int(np.argmin(errors))
    return np.where(np.arange(2) == best, single, 0.0)
