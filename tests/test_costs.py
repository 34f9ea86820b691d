"""The one count of work: against numbers derived by hand, and against torch's own counter."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from horizon_imagination.agent import Agent
from horizon_imagination.cli import main
from horizon_imagination.costs import FLOAT, costs, perceptual, plan_counts
from horizon_imagination.engine.dream import Start, dream
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.streams import Streams

PAPER, DEBUG = PRESETS["paper"][1], PRESETS["debug"][1]


@pytest.fixture(scope="module")
def paper():
    return costs(PAPER, 18)


def test_the_windows_of_a_small_schedule_counted_by_hand():
    """Horizon 4, budget 4, decay horizon 2, after one context frame c.

    row  times of the four frames    window      frames  pairs            policy asked at
    0    0     0     0     0         c 1 2       3       1 + 2 + 3        1
    1    5/8   1/8   0     0         1 2 3       3       2 + 3 + 4        1 2
    2    1     3/4   1/4   0         1 2 3 4     4       2 + 3 + 4 + 5    1 2 3
    3    1     1     7/8   3/8       2 3 4       3       3 + 4 + 5        2 3
    4    1     1     1     1         -           -       -                3

    A frame leaves the window after the row at which it is evaluated clean: c after row 0, 1 after
    row 2. A frame joins at the row at which it begins to move. A frame attends to itself and to
    all before it, c included. The policy at a frame leads to the next one, so frame 4 is never
    asked; a frame that was asked clean is not asked again.
    """
    counted = plan_counts(horizon_schedule(4, 4, 2), context=1)
    assert (counted.evaluations, counted.frames) == (4, 13)
    assert counted.pairs == 6 + 9 + 14 + 12
    assert counted.seen == 3 + 4 + 5 + 5  # the window reaches back to c through the cache
    assert counted.actor_frames == 1 + 2 + 3 + 2 + 1


def test_frame_by_frame_every_window_has_the_last_clean_frame_and_the_next():
    counted = plan_counts(horizon_schedule(4, 4, 1), context=1)
    assert (counted.frames, counted.pairs) == (4 * 2, (1 + 2) + (2 + 3) + (3 + 4) + (4 + 5))
    assert counted.actor_frames == 3  # each of the first three frames, clean, once


def test_the_plain_loop_evaluates_everything_at_every_row():
    counted = plan_counts(horizon_schedule(4, 3, 2), context=1, window=False)
    assert (counted.frames, counted.pairs) == (3 * 5, 3 * (1 + 2 + 3 + 4 + 5))
    assert counted.actor_frames == 4 * 3  # the clean row asks too


def test_the_denoiser_of_the_paper_counted_by_hand(paper):
    """Per frame: n = 16 tokens of p = 64 numbers, width d = 512, L = 12 layers, mlp ratio 4."""
    n, p, d, layers = 16, 64, 512, 12
    embed_and_out = 2 * (2 * n * p * d)
    condition = 2 * (2 * d * d)
    modulation = 2 * d * (6 * layers + 2) * d
    blocks = layers * 2 * n * d * d * (3 + 1 + 4 + 4)  # qkv, out, and the two of the perceptron
    assert embed_and_out + condition + modulation + blocks == 1_249_902_592
    assert paper.frame_flops == 1_249_902_592
    assert paper.pair_flops == 2 * (2 * n * n * d) * layers == 6_291_456


def test_a_trajectory_of_the_paper_counted_by_hand(paper):
    """Schedule (4, 16): 120 frames and 2,040 pairs; the actor sees 20 real and 105 imagined."""
    starts = (0, 1, 1, 2, 4, 6, 8, 11, 13, 15, 17, 19, 22, 24, 26, 28)
    stops = (4, 6, 8, 10, 12, 15, 17, 19, 21, 23, 26, 28, 30, 32, 33, 33)
    frames = [f for a, b in zip(starts, stops, strict=True) for f in range(a, b)]
    assert (len(frames), sum(f + 1 for f in frames)) == (120, 2040)
    plan = paper.plan(PAPER)
    assert (plan.frames, plan.pairs, plan.actor_frames) == (120, 2040, 105)
    flops = 120 * 1_249_902_592 + 2040 * 6_291_456
    assert paper.denoiser(PAPER, 1).flops == flops == 162_822_881_280
    assert paper.imagination(PAPER, 1).flops - flops == 125 * paper.actor.flops


def test_a_training_segment_counts_the_pairs_that_see_each_other(paper):
    """561 pairs of 33 frames; torch counts 1,089, and 48.1 GFLOP, since its product is masked."""
    assert paper.segment.flops == 33 * 1_249_902_592 + 561 * 6_291_456
    assert paper.dense_segment.flops == 33 * 1_249_902_592 + 1089 * 6_291_456


def imagination_of(config):
    """An agent, and a function that imagines two trajectories with it."""
    agent = Agent(config, 3, torch.device("cpu"))
    frames, cfg = config.controller.context, config.imagination
    rng = torch.Generator().manual_seed(0)
    z = torch.rand(2, frames, *agent.latent_shape, generator=rng)
    start = Start(z, torch.zeros(2, frames).long(), torch.ones(2, frames).bool())
    return agent, lambda: dream(
        agent.world_model, agent.actor, start, agent.schedule, context=cfg.context,
        sampler="stable", window=cfg.engine == "window", rng=rng,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["window", "plain"])
@pytest.mark.parametrize("decay,budget", [(2, 4), (1, 6), (3, 2), (6, 5)])
def test_torch_counts_the_same_flops_in_an_imagination_that_runs(
    decay, budget, engine, monkeypatch
):
    """Torch's products are dense: to ours are added the pairs that its masks hide."""
    section = {"decay_horizon": float(decay), "budget": budget, "engine": engine}
    config = replaced(DEBUG, imagination=section)
    ours, (_, run) = costs(config, 3), imagination_of(config)
    attention, products = F.scaled_dot_product_attention, []

    def watched(q, k, v, attn_mask):
        dense = q.shape[2] * k.shape[2]
        products.append((dense, dense if attn_mask is None else int(attn_mask.sum())))
        return attention(q, k, v, attn_mask=attn_mask)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    per_pair = ours.tokens**2 * config.denoiser.layers
    dense, visible = (sum(column) / per_pair for column in zip(*products, strict=True))
    assert ours.plan(config).pairs == visible
    expected = ours.imagination(config, 2).flops + 2 * (dense - visible) * ours.pair_flops
    assert counter.get_total_flops() == expected


@pytest.mark.parametrize("decay,budget", [(2, 4), (1, 6), (3, 2), (6, 5)])
def test_the_networks_are_called_as_often_as_the_plan_says(decay, budget, monkeypatch):
    config = replaced(DEBUG, imagination={"decay_horizon": float(decay), "budget": budget})
    agent, run = imagination_of(config)
    denoiser = agent.imagination_denoiser
    windows, seen_by_actor, window = [], [], denoiser.window

    def watched(z, *args, start, **more):
        windows.append((start, start + z.shape[1]))
        return window(z, *args, start=start, **more)

    monkeypatch.setattr(denoiser, "window", watched)
    agent.actor.encoder.register_forward_hook(
        lambda module, inputs, output: seen_by_actor.append(output.shape[1])
    )
    run()
    said = plan_counts(agent.schedule, 1)
    assert said.actor_frames == sum(seen_by_actor) - config.controller.context
    assert said.evaluations == len(windows)
    assert said.frames == sum(stop - begin for begin, stop in windows)
    assert said.seen == sum(stop for _, stop in windows)


@pytest.mark.parametrize("shared", [True, False])
def test_torch_counts_nearly_the_same_flops_in_a_step_of_every_learner(shared, tmp_path):
    """Within 6 %: torch counts masked pairs, and no gradient of the first layers' inputs."""
    config = replaced(DEBUG, controller={"shared_encoder": shared})
    agent = Agent(config, 3, torch.device("cpu"))
    batches = RandomBatches(agent, torch.Generator().manual_seed(0))
    guard, streams = Guard(tmp_path, every=1), Streams(0, agent.device)
    ours = costs(config, 3)
    for learner in make_learners(agent, batches, streams, guard).in_order():
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            learner.step()
        share = counter.get_total_flops() / ours.steps[learner.name].flops
        assert share == pytest.approx(1, abs=0.06), learner.name


def test_a_shared_encoder_sees_the_frames_of_actor_and_critic_once():
    """Nine clean frames, eight of which the actor sees too; 4 x 4 latents of four channels."""
    tau = 2 * 64 * 16  # which the critic's own encoder does not hear
    encoder = 16 * 2 * (4 * 8 + 2 * 9 * 8 * 8 + 8 * 4) + 2 * 64 * 16 + tau
    both, one = (costs(replaced(DEBUG, controller={"shared_encoder": x}), 3) for x in (False, True))
    assert one.frame_encoder.flops == both.frame_encoder.flops == encoder
    saved = both.steps["controller"].flops - one.steps["controller"].flops
    assert saved == 4 * 3 * (8 * encoder - 9 * tau)
    assert one.steps["controller"].activations < both.steps["controller"].activations


def test_weights_move_once_a_window_and_everything_else_grows_with_the_batch():
    """Four windows, frames of 4 x 4 x 4 numbers, keys and values of 2 layers of width 32."""
    ours = costs(DEBUG, 3)
    plan = ours.plan(DEBUG)
    none, one, two = (ours.denoiser(DEBUG, batch).moved for batch in (0, 1, 2))
    assert none == 4 * ours.parameters["denoiser"] * plan.evaluations and plan.evaluations == 4
    latents, keys_values = 4 * (4 * 4 * 4), 4 * (2 * 2 * 4 * 32)
    assert one - none == 2 * latents * plan.frames + keys_values * plan.seen
    assert two - one == one - none


def test_half_precision_moves_half_the_weights():
    full, half = (costs(DEBUG, 3, number=number) for number in (FLOAT, 2))
    assert half.denoiser(DEBUG, 0).moved == full.denoiser(DEBUG, 0).moved / 2
    assert half.denoiser(DEBUG, 1).flops == full.denoiser(DEBUG, 1).flops


def test_the_paper_preset_has_the_published_sizes(paper):
    millions = {name: count / 1e6 for name, count in paper.parameters.items()}
    assert millions["tokenizer"] == pytest.approx(22.45, abs=0.02)
    assert millions["denoiser"] == pytest.approx(57.7, abs=0.1)
    assert millions["reward"] == pytest.approx(5.4, abs=0.05)
    assert millions["actor"] + millions["critic"] == pytest.approx(7.5, abs=0.05)


def test_the_published_work_per_call_is_counted(paper):
    assert paper.encode.flops / 1e9 == pytest.approx(11.24, rel=0.01)
    assert paper.dense_segment.flops / 1e9 == pytest.approx(48.0, rel=0.01)
    assert perceptual(PAPER).flops / 1e9 == pytest.approx(2.51, rel=0.01)
    # more than the published decoder's 7.65: attention at 16 x 16, too
    assert 7.65 < paper.decode.flops / 1e9 < 8.5


def test_micro_batches_keep_the_flops_of_a_step_and_divide_its_activations(paper):
    learner = replace(PAPER.world_model.learner, micro_batches=4)
    cut = costs(replaced(PAPER, world_model={"learner": learner}), 18).steps["world_model"]
    whole = paper.steps["world_model"]
    assert (cut.flops, cut.activations) == (whole.flops, whole.activations / 4)


def test_info_and_the_benchmark_read_this_count(capsys):
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    for words in (
        "22,449,715  22.5 M", "67 M", "ALE/Boxing-v5, 18 actions", "11.24  encode a frame",
        "44.78  denoise a training segment of 33 frames",
        "162.82  denoise a trajectory (120 of 528 frames, schedule 4, 16)",
        "183.08  imagine a trajectory with policy (125 frames seen by the actor)",
    ):  # fmt: skip
        assert words in said
    assert main(["info", "--preset", "debug", "--actions", "7", "--denoiser.layers", "1"]) == 0
    assert "7 actions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("every", "pieces", "segments"), [(2, 1, 4), (3, 1, 3), (3, 2, 4), (0, 1, 0)]
)
def test_frames_begun_otherwise_cost_a_forward_pass(every, pieces, segments):
    learner = replace(PAPER.world_model.learner, micro_batches=pieces)
    assert learner.batch_size == 8
    config = replaced(PAPER, world_model={"change_every": every, "learner": learner})
    ours, changed = costs(PAPER, 6), costs(config, 6)
    more = changed.steps["world_model"].flops - ours.steps["world_model"].flops
    assert more == pytest.approx(segments * ours.segment.flops, rel=1e-6, abs=1.0)
    effect = replaced(config, world_model={"change_by": "effect"})
    more = costs(effect, 6).steps["world_model"].flops - ours.steps["world_model"].flops
    assert more == pytest.approx(2 * segments * ours.segment.flops, rel=1e-6, abs=1.0)


def test_a_replay_costs_the_denoiser_once_more_and_an_encoding_of_its_own():
    replays = replaced(PAPER, controller={"rewarded": "replay"})
    ours, batch = costs(PAPER, 6), PAPER.controller.learner.batch_size
    more = ours.controller(replays).flops - ours.controller(PAPER).flops
    encoded = PAPER.controller.context + PAPER.imagination.horizon - 1
    by_hand = ours.denoiser(PAPER, batch).flops + 3 * batch * encoded * ours.frame_encoder.flops
    assert more == pytest.approx(by_hand, rel=1e-9)
    alone = replaced(replays, imagination={"decay_horizon": 1.0, "budget": 32})
    assert ours.controller(alone) == ours.controller(
        replaced(alone, controller={"rewarded": "dream"})
    )
