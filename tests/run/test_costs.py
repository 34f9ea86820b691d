"""Parameters, FLOPs and bytes: counted by hand where a hand can."""

from dataclasses import replace

import pytest

from horizon_imagination.config import Config, EnvConfig
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.run.costs import costs, perceptual
from horizon_imagination.run.needs import (
    describe_needs,
    frames_encoded,
    frames_stored,
    replay_bytes,
    snapshot_bytes,
)

PAPER = Config(env=EnvConfig(id="ALE/Boxing-v5"))


@pytest.fixture(scope="module")
def paper():
    return costs(PAPER, 18)


def test_the_paper_preset_has_the_published_sizes(paper):
    millions = {name: count / 1e6 for name, count in paper.parameters.items()}
    assert millions["tokenizer"] == pytest.approx(22.45, abs=0.02)
    assert millions["denoiser"] == pytest.approx(57.7, abs=0.1)
    assert millions["reward"] == pytest.approx(5.4, abs=0.05)
    assert millions["actor"] + millions["critic"] == pytest.approx(7.5, abs=0.05)


def test_the_published_work_per_call_is_counted(paper):
    assert paper.encode / 1e9 == pytest.approx(11.24, rel=0.01)
    assert paper.denoise / 1e9 == pytest.approx(48.0, rel=0.01)
    assert perceptual(PAPER).flops / 1e9 == pytest.approx(2.51, rel=0.01)
    # more than the published decoder's 7.65: attention at 16 x 16, too
    assert 7.65 < paper.decode / 1e9 < 8.5


def test_a_learning_step_is_three_forward_passes_of_its_batch(paper):
    forward = paper.encode + paper.decode + perceptual(PAPER).flops
    assert paper.steps["tokenizer"].flops == pytest.approx(3 * 32 * forward)


def test_the_window_makes_imagination_cheaper(paper):
    plain = costs(replaced(PAPER, imagination={"engine": "plain"}), 18)
    evaluated = (plain.steps["controller"].flops - paper.steps["controller"].flops) / 30
    assert evaluated > (528 - 150) * paper.denoise / 33
    assert plain.steps["controller"].flops > 3 * paper.steps["controller"].flops


def test_disk_is_frames_times_bytes_and_three_numbers_a_parameter(paper):
    assert frames_stored(PAPER) == 100_000
    assert replay_bytes(PAPER) == 100_000 * (64 * 64 * 3 + 10)
    parameters = sum(paper.parameters.values())
    assert snapshot_bytes(PAPER, paper) == 4 * parameters * (2 * 3 + 1)


def test_frames_are_encoded_again_after_every_change_of_the_tokenizer():
    config = PRESETS["debug"][1]  # 60 + 20 an epoch; the world model begins in epoch 1
    assert frames_encoded(config) == sum(60 + 20 * (epoch + 1) for epoch in range(1, 6))
    own = config.tokenizer.learner
    rests = replaced(config, tokenizer={"learner": replace(own, last_epoch=0)})
    assert frames_encoded(rests) == 60 + 20 * 6


def test_the_needs_are_said_for_people():
    said = describe_needs(PRESETS["debug"][1], 3)
    assert "catch: 3 actions, on " in said and said.count("estimated") == 2


def test_steps_that_break_the_weights_are_left_to_the_run_to_report():
    debug = PRESETS["debug"][1]
    learner = replace(debug.tokenizer.learner, learning_rate=1e30)
    config = replaced(debug, tokenizer={"learner": learner})
    assert "catch: 3 actions, on " in describe_needs(config, 3)


def test_info_prints_the_table_beside_the_papers_figures(command):
    status, out, _ = command("info --preset paper")
    assert status == 0
    for words in ("22,449,715  22.5 M", "encode 11.24", "67 M", "ALE/Boxing-v5, 18 actions"):
        assert words in out
    status, out, _ = command("info --preset debug --actions 7 --denoiser.layers 1")
    assert status == 0 and "7 actions" in out


def test_presets_and_envs_are_listed(command):
    _, out, _ = command("presets")
    assert all(f"{name} " in out for name in PRESETS)
    _, out, _ = command("presets --show debug")
    assert '"decay_horizon": 2.0' in out
    _, out, _ = command("envs")
    assert "catch" in out and "-0.75" in out and "Craftium/Speleo-v0" in out
