"""What is measured and what it is held against: sweeps, fits, modes, lower bounds."""

import pytest

from horizon_imagination.bench.clock import Ceilings
from horizon_imagination.bench.plan import SWEEPS, Plan, Point, fit_growth, in_mode, sweeps
from horizon_imagination.bench.sheets import comparable, paper_ms, release_ms
from horizon_imagination.presets import PRESETS, replaced

PAPER, DEBUG = PRESETS["paper"][1], PRESETS["debug"][1]


def test_the_floor_is_the_slower_of_computing_and_moving():
    ceilings = Ceilings(flops=1e12, bandwidth=1e9, precision="x", matrix=1, copied=1)
    assert ceilings.least_ms(2e12, 1e9) == pytest.approx(2000)
    assert ceilings.least_ms(1e12, 3e9) == pytest.approx(3000)


def test_the_sweeps_of_the_paper_go_to_horizon_256_and_share_their_centre():
    found = sweeps(PAPER, quick=False)
    along = [p for p, names in found.items() if "horizon" in names]
    assert [(p.horizon, p.budget) for p in along] == [
        (16, 8), (32, 16), (64, 32), (128, 64), (256, 128),
    ]  # fmt: skip
    assert {p.decay_horizon for p in along} == {4.0}
    assert found[Point(32, 16, 4.0, 30)] == list(SWEEPS)
    assert [p.decay_horizon for p, names in found.items() if "decay_horizon" in names] == [
        4.0, 1.0, 2.0, 8.0, 16.0,
    ]  # fmt: skip
    assert len(sweeps(PAPER, quick=True)) < len(found)


HORIZONS = [16, 32, 64, 128, 256]
FRAMES, PAIRS = [10.0 * h for h in HORIZONS], [3.0 * h**2 for h in HORIZONS]


def fit_of(ms):
    return fit_growth(HORIZONS, ms, FRAMES, PAIRS)


def test_a_fit_finds_the_prices_that_made_the_times():
    fit = fit_of([0.5 * f + 0.002 * p for f, p in zip(FRAMES, PAIRS, strict=True)])
    assert (fit.frame_ms, fit.pair_ms) == pytest.approx((0.5, 0.002))
    assert fit.ratios == pytest.approx([1] * 5)
    assert fit.explained and 1 < fit.slope < 2 and 0 < fit.frame_slope < 1


def test_a_cost_that_grows_faster_than_attention_is_found_out():
    assert not fit_of([1e-5 * h**3 for h in HORIZONS]).explained
    # A fixed cost is none that grows: no price becomes negative over it.
    flat = fit_of([5.0] * 5)
    assert min(flat.frame_ms, flat.pair_ms) == 0 and flat.explained


def test_published_figures_stand_beside_the_paper_alone():
    assert comparable(PAPER, PAPER) and not comparable(DEBUG, PAPER)
    assert comparable(replaced(PAPER, imagination={"budget": 32}), PAPER)
    assert not comparable(replaced(PAPER, denoiser={"layers": 6}), PAPER)
    assert paper_ms("controller", 16) == 1071 and release_ms("epoch", 4.0, 16) == 80_300
    assert paper_ms("tokenizer", None) == 72.5 and release_ms("rewards", 4.0, 16) is None


def test_modes_switch_the_runtime_and_nothing_else():
    given = replaced(PAPER, runtime={"precision": "float32", "compile": True})
    assert in_mode(given, "given") is given
    for mode, graphs in (("plain", "off"), ("fast", "on")):
        runtime = in_mode(given, mode).runtime
        assert runtime.graphs == graphs and runtime.precision == "float32"
        assert (runtime.fused == "off") is (mode == "plain")
        assert runtime.compile is (mode == "fast")
    plan = Plan(config=PAPER, schedules=((1.0, 32),), modes=("fast",))
    config = plan.at((1.0, 32), "fast")
    assert (config.imagination.decay_horizon, config.imagination.budget) == (1.0, 32)
    assert config.denoiser == PAPER.denoiser
