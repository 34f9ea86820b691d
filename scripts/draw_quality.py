"""Draws docs/figures/quality-*.png again, from the tables of the studies in docs/results.

python scripts/draw_quality.py
"""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib import rc_context

from horizon_imagination.figures import save_figure
from horizon_imagination.studies.quality.drawing import against_budget, against_latency
from horizon_imagination.studies.quality.grid import GridPoint
from horizon_imagination.studies.quality.results import ResampledEstimate, Results

DOCS = Path(__file__).parents[1] / "docs"
STUDIES = {
    "kung-fu-master": ("ALE/KungFuMaster-v5", 32),
    "fast-kung-fu-master": ("ALE/KungFuMaster-v5", 16),
    "gopher": ("ALE/Gopher-v5", 32),
}
"""World and generated frames of every study; each had 512 videos on one H200."""
PARETO = ("kung-fu-master",)
"""Studies whose figure against latency the docs show."""
TAILS = np.array([0.025, 0.975])
"""The shares of resampled values below and above an interval."""


class Tabled(Results):
    """The numbers of a study as its table has them: estimates and intervals."""

    def __init__(self, rows: list[dict[str, str]], settings: Mapping[str, object]) -> None:
        """`rows` are those of the table, by column."""
        self._rows = {
            GridPoint(row["kind"], int(row["budget"]), float(row["decay_horizon"])): row  # type: ignore[arg-type]
            for row in rows
        }
        lines = {
            point: {
                "settings": settings,
                "latency": float(row["latency"] or 0),
                "batch": int(row["batch"]),
            }
            for point, row in self._rows.items()
        }
        super().__init__(lines)

    def mse(self, point: GridPoint, reference: str) -> ResampledEstimate:
        return self._read(point, f"{reference}_mse")

    def fvd(self, point: GridPoint, reference: str) -> ResampledEstimate:
        return self._read(point, f"{reference}_fvd")

    def _read(self, point: GridPoint, column: str) -> ResampledEstimate:
        """An estimate whose interval is the one in the table: two values that have it."""
        value, low, high = (
            float(self._rows[point][f"{column}{end}"]) for end in ("", "_low", "_high")
        )
        if low == high:
            return ResampledEstimate(value, np.zeros(0))
        ends = np.array([2 * value - high, 2 * value - low])
        slope = (ends[1] - ends[0]) / (TAILS[1] - TAILS[0])
        first = ends[0] - TAILS[0] * slope
        return ResampledEstimate(value, np.array([first, first + slope]))


def main() -> None:
    """Draw the figures of every study."""
    for name, (env, horizon) in STUDIES.items():
        settings = {"env": env, "horizon": horizon, "segments": 512, "features": "i3d"}
        with (DOCS / "results" / f"quality-{name}.csv").open() as file:
            results = Tabled(list(csv.DictReader(file)), settings | {"device": "NVIDIA H200"})
        with rc_context({"font.size": 10}):
            figure = against_budget(results, "truth")
            save_figure(figure, DOCS / "figures" / f"quality-{name}.png")
            if name in PARETO:
                figure = against_latency(results, "truth")
                save_figure(figure, DOCS / "figures" / f"quality-{name}-pareto.png")


if __name__ == "__main__":
    main()
