"""The figures of a quality study can be read: plain numbers, few labels, intervals of two lines."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection

from horizon_imagination.studies.quality.drawing import against_budget, against_latency
from horizon_imagination.studies.quality.grid import GridPoint
from horizon_imagination.studies.quality.results import ResampledEstimate, Results

DECAYS = (1.0, 4.0, 16.0)


class Made(Results):
    """FVD from 20 to 300 and MSE of some 10^-4, each with an interval."""

    def fvd(self, point: GridPoint, reference: str) -> ResampledEstimate:
        value = 2000 * point.decay_horizon**0.4 / point.budget
        return ResampledEstimate(value, np.array([0.9, 1.2]) * value)

    def mse(self, point: GridPoint, reference: str) -> ResampledEstimate:
        value = 1e-4 * (4 + point.decay_horizon / 4)
        return ResampledEstimate(value, np.array([0.9, 1.2]) * value)


@pytest.fixture
def results():
    settings = {"horizon": 16, "segments": 8, "features": "made", "env": "made", "device": "pen"}
    points = [GridPoint("horizon", budget, decay) for budget in (8, 16, 64) for decay in DECAYS]
    return Made({p: {"settings": settings, "latency": 0.01 * p.budget, "batch": 8} for p in points})


def drawn(figure):
    FigureCanvasAgg(figure).draw()
    return figure.axes


def test_only_the_ends_of_the_front_are_labelled_and_numbers_are_plain(results):
    for axes in drawn(against_latency(results, "truth")):
        assert {text.get_text() for text in axes.texts} <= {"budget 8", "budget 64"}
        labels = [text.get_text() for axis in (axes.xaxis, axes.yaxis) for text in
                  axis.get_ticklabels()]  # fmt: skip
        assert labels and all(float(label.replace(",", "")) > 0 for label in labels)


def test_errors_are_in_units_that_need_no_zeros(results):
    axes = drawn(against_budget(results, "truth"))[1]
    assert axes.get_ylabel() == "MSE (x 10⁻⁴)"
    widest = next(line for line in axes.lines if line.get_label() == "decay 16")
    assert np.asarray(widest.get_ydata()) == pytest.approx(8)


def test_two_decay_horizons_have_intervals(results):
    for axes in drawn(against_budget(results, "truth")):
        bars = [c for c in axes.collections if isinstance(c, LineCollection)]
        assert len(bars) == 2, "those of every line would hide one another"
