"""Named horizontal lines of a chart; every name stands beside its line where no curve is."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from horizon_imagination.figures import INK, PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

SAMPLES = 400
"""Points by which a curve is known."""
LETTER, LINE = 0.58, 1.3
"""Width and height of a letter, in its size."""
EDGE = 0.01
"""Distance of a name to the side of the axes."""


@dataclass(frozen=True)
class Spot:
    """A box for a name, in shares of the axes."""

    left: float
    bottom: float
    width: float
    height: float
    side: Literal["left", "center", "right"]
    above: bool

    def holds(self, points: NDArray[np.float64]) -> int:
        """How many points lie in it."""
        right, top = self.left + self.width, self.bottom + self.height
        x, y = points.T
        return int(((x >= self.left) & (x <= right) & (y >= self.bottom) & (y <= top)).sum())

    @property
    def inside(self) -> bool:
        """Whether it leaves the axes neither above nor below."""
        return self.bottom >= 0 and self.bottom + self.height <= 1


def spots(level: float, width: float, height: float) -> list[Spot]:
    """Where the name of a line at this height may stand; the ones that read best come first."""
    lefts: dict[Literal["right", "left", "center"], float] = {
        "right": 1 - EDGE - width,
        "left": EDGE,
        "center": 0.5 - width / 2,
    }
    return [
        Spot(lefts[side], level if above else level - height, width, height, side, above)
        for side, above in product(lefts, (True, False))
    ]


def freest(found: list[Spot], points: NDArray[np.float64]) -> Spot:
    """The first of those with the fewest points in them, inside the axes where that is possible."""
    return min(found, key=lambda place: (not place.inside, place.holds(points)))


def draw_levels(axes: "Axes", levels: dict[str, float]) -> None:
    """Draw the lines; an axis without limits makes room for them."""
    for level in levels.values():
        axes.axhline(level, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), alpha=0.6)


def name_levels(
    axes: "Axes", levels: dict[str, float], curves: "Sequence[Line2D]", size: float
) -> None:
    """Name the lines, once the axes have their limits."""
    taken = _seen(axes, curves)
    wide, tall = _points(axes)
    for name, level in levels.items():
        height = float(_shares(axes, np.array([[axes.get_xlim()[0], level]]))[0, 1])
        found = spots(height, len(name) * LETTER * size / wide, LINE * size / tall)
        place = freest(found, taken)
        anchor = {"left": EDGE, "center": 0.5, "right": 1 - EDGE}[place.side]
        axes.annotate(
            name, (anchor, level), (0, 2 if place.above else -3),
            xycoords=("axes fraction", "data"), textcoords="offset points", ha=place.side,
            va="bottom" if place.above else "top", fontsize=size, color=INK,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
        )  # fmt: skip
        corners = product((place.left, place.left + place.width), (place.bottom, height))
        taken = np.concatenate([taken, np.array(list(corners))])


def _seen(axes: "Axes", curves: "Sequence[Line2D]") -> NDArray[np.float64]:
    """Points of the curves, in shares of the axes."""
    found = [np.zeros((0, 2))]
    for curve in curves:
        x, y = (np.asarray(data, dtype=np.float64) for data in curve.get_data())
        across = np.linspace(x[0], x[-1], SAMPLES)
        found.append(_shares(axes, np.stack([across, np.interp(across, x, y)], axis=1)))
    return np.concatenate(found)


def _shares(axes: "Axes", points: NDArray[np.float64]) -> NDArray[np.float64]:
    return axes.transAxes.inverted().transform(axes.transData.transform(points))


def _points(axes: "Axes") -> tuple[float, float]:
    """Width and height of the axes in points, about."""
    figure, place = axes.figure, axes.get_position()
    wide, tall = figure.get_size_inches()  # type: ignore[union-attr]
    return float(72 * wide * place.width), float(72 * tall * place.height)
