"""Work counted by hand: windows, pairs, operations, bytes, sweeps, fits."""

import pytest
import torch

from horizon_imagination.agent import Agent, build_networks
from horizon_imagination.bench.ceilings import Ceilings
from horizon_imagination.bench.counts import FLOAT, Counts, Work, plan_counts
from horizon_imagination.bench.fit import fit_growth
from horizon_imagination.bench.growth import SWEEPS, Point, sweeps
from horizon_imagination.bench.plan import Plan, in_mode
from horizon_imagination.bench.published import comparable, paper_ms, release_ms
from horizon_imagination.engine.dream import Start, dream
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.run.costs import costs, measure
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.windows import frame_evaluations, window_plan

PAPER, DEBUG = PRESETS["paper"][1], PRESETS["debug"][1]


@pytest.fixture(scope="module")
def counts():
    return Counts(DEBUG, costs(DEBUG, 3), FLOAT)


@pytest.mark.parametrize("decay,budget", [(4, 16), (4, 32), (1, 32)])
def test_frames_are_those_of_the_window_plan_and_pairs_reach_back_to_the_context(decay, budget):
    schedule = horizon_schedule(32, budget, decay)
    counted = plan_counts(schedule, 1)
    assert counted.frames == frame_evaluations(schedule, 1)[0]
    pairs = sum(f + 1 for w in window_plan(schedule, 1) for f in range(w.start, w.stop))
    assert counted.pairs == pairs


def test_without_a_window_every_frame_meets_all_before_it_at_every_row():
    counted = plan_counts(horizon_schedule(4, 3, 2), 1, window=False)
    assert (counted.frames, counted.pairs) == (3 * 5, 3 * (1 + 2 + 3 + 4 + 5))


def test_the_actor_sees_every_settled_frame_once_and_noisy_ones_again():
    # Frame by frame: each of the first three frames is clean when the next one is asked for.
    assert plan_counts(horizon_schedule(4, 4, 1), 1).actor_frames == 3
    # All at once: three frames at each of the two rows and again at the clean one.
    assert plan_counts(horizon_schedule(4, 2, 4), 1).actor_frames >= 6


@pytest.mark.parametrize("decay,budget", [(2, 4), (1, 6), (3, 2), (6, 5)])
def test_the_networks_are_called_as_often_as_the_plan_says(decay, budget, monkeypatch):
    config = replaced(DEBUG, imagination={"decay_horizon": float(decay), "budget": budget})
    agent = Agent(config, 3, torch.device("cpu"))
    windows, seen_by_actor = [], []
    window = agent.denoiser.window

    def counted(z, *args, start, **more):
        windows.append((start, start + z.shape[1]))
        return window(z, *args, start=start, **more)

    monkeypatch.setattr(agent.denoiser, "window", counted)
    agent.actor.encoder.register_forward_hook(
        lambda module, inputs, output: seen_by_actor.append(output.shape[1])
    )
    context, rng = config.controller.context, torch.Generator().manual_seed(0)
    z = torch.rand(2, context, *agent.latent_shape, generator=rng)
    start = Start(z, torch.zeros(2, context).long(), torch.ones(2, context).bool())
    schedule = horizon_schedule(config.imagination.horizon, budget, decay)
    dream(
        agent.denoiser, agent.actor, start, schedule, context=1, sampler="stable", window=True,
        rng=rng,
    )  # fmt: skip
    said = plan_counts(schedule, 1)
    assert said.actor_frames == sum(seen_by_actor) - context
    assert said.evaluations == len(windows)
    assert said.frames == sum(stop - begin for begin, stop in windows)
    assert said.seen == sum(stop for _, stop in windows)


def test_a_frame_and_a_pair_cost_what_the_counter_says_of_sequences_of_one_and_two(counts):
    with torch.device("meta"):
        networks = build_networks(DEBUG, 3)
        shape = DEBUG.tokenizer.latent_channels, counts.side, counts.side

        def flops(length):
            z, tau = torch.empty(1, length, *shape), torch.empty(1, length)
            actions = torch.zeros(1, length, dtype=torch.long)
            return measure(lambda: networks.denoiser(z, tau, actions), networks).flops

        one, two = flops(1), flops(2)
    assert counts.frame_flops + counts.pair_flops == pytest.approx(one)
    assert 2 * counts.frame_flops + 4 * counts.pair_flops == pytest.approx(two)


def test_weights_move_once_a_window_and_everything_else_grows_with_the_batch(counts):
    plan = counts.plan(DEBUG)
    none, one, two = (counts.denoiser(DEBUG, batch).moved for batch in (0, 1, 2))
    assert none == FLOAT * counts.counted.parameters["denoiser"] * plan.evaluations
    assert two - one == one - none
    cfg = DEBUG.denoiser
    keys_values = 2 * cfg.layers * counts.tokens * cfg.heads * cfg.head_dim * FLOAT
    assert one - none == 2 * counts.latent_bytes * plan.frames + keys_values * plan.seen


def test_a_controller_step_is_more_than_imagination_and_rewards(counts):
    batch = DEBUG.controller.learner.batch_size
    parts = counts.imagination(DEBUG, batch) + counts.rewards(DEBUG, batch)
    whole = counts.controller(DEBUG)
    assert whole.flops > parts.flops and whole.moved > parts.moved
    assert counts.denoiser(DEBUG, batch).flops < counts.imagination(DEBUG, batch).flops


def test_the_floor_is_the_slower_of_computing_and_moving():
    ceilings = Ceilings(flops=1e12, bandwidth=1e9, precision="x", matrix=1, copied=1)
    assert ceilings.least_ms(2e12, 1e9) == pytest.approx(2000)
    assert ceilings.least_ms(1e12, 3e9) == pytest.approx(3000)
    assert Work(1, 2) + Work(3, 4) == Work(4, 6)


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
    given = replaced(PAPER, runtime={"precision": "float32"})
    assert in_mode(given, "given") is given
    for mode, graphs in (("plain", False), ("fast", True)):
        runtime = in_mode(given, mode).runtime
        assert runtime.graphs is graphs and runtime.precision == "float32"
        assert (runtime.fused == "off") is (mode == "plain")
    plan = Plan(config=PAPER, schedules=((1.0, 32),), modes=("fast",))
    config = plan.at((1.0, 32), "fast")
    assert (config.imagination.decay_horizon, config.imagination.budget) == (1.0, 32)
    assert config.denoiser == PAPER.denoiser
