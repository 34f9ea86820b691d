"""The estimate before a run: memory, disk, frames to encode, time; what is said before the disk is
full."""

import shutil
from collections import namedtuple
from dataclasses import replace

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.config import Config, EnvConfig
from horizon_imagination.costs import costs
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.learn.rehearsal import Rehearsed
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.run import needs
from horizon_imagination.run.needs import (
    DiskWatch,
    describe_needs,
    estimate,
    folder_bytes,
    frames_acted,
    frames_encoded,
    frames_stored,
    free_bytes,
    replay_bytes,
    snapshot_bytes,
)
from horizon_imagination.streams import Streams

PAPER, DEBUG = Config(env=EnvConfig(id="ALE/Boxing-v5")), PRESETS["debug"][1]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(scope="module")
def paper():
    return costs(PAPER, 18)


def test_disk_is_frames_times_bytes_and_three_numbers_a_parameter(paper):
    assert frames_stored(PAPER) == 100_000
    assert replay_bytes(PAPER) == 100_000 * (64 * 64 * 3 + 10)
    parameters = sum(paper.parameters.values())
    assert snapshot_bytes(PAPER, paper) == 4 * parameters * (3 * 3 + 1)


def test_frames_are_encoded_again_after_every_change_of_the_tokenizer():
    config = PRESETS["debug"][1]  # 60 + 20 an epoch; the world model begins in epoch 1
    assert frames_encoded(config) == sum(60 + 20 * (epoch + 1) for epoch in range(1, 6))
    own = config.tokenizer.learner
    rests = replaced(config, tokenizer={"learner": replace(own, last_epoch=0)})
    assert frames_encoded(rests) == 60 + 20 * 6
    bursts = replaced(config, tokenizer={"learner": replace(own, rest_from=2, rest_every=3)})
    # epoch 1 all, epoch 2 all, 3 and 4 the new ones, 5 all again
    assert frames_encoded(bursts) == 100 + 120 + 20 + 20 + 180


def test_the_policy_is_asked_in_the_epochs_after_the_controller_s_first():
    assert frames_acted(DEBUG) == 20 * 3  # epochs 3, 4, 5 of 6
    learner = replace(DEBUG.controller.learner, first_epoch=9)
    assert frames_acted(replaced(DEBUG, controller={"learner": learner})) == 0


def test_the_needs_are_said_for_people():
    found = describe_needs(DEBUG, 3)
    assert "catch: 3 actions, on " in found.text and found.text.count("estimated") == 2
    assert found.threads == 1  # as the preset says


def rehearsed(monkeypatch, **more):
    steps = {"tokenizer": 1.0, "world_model": 2.0, "controller": 3.0}
    known = Rehearsed(steps, **({"encode": 0.0, "act": 0.0} | more))
    monkeypatch.setattr(needs, "rehearse", lambda config, actions, device: known)


def test_the_time_of_a_run_is_its_steps(monkeypatch):
    """Four steps an epoch: tokenizer from epoch 0, world model from 1, controller from 2 of 6."""
    rehearsed(monkeypatch)
    found = estimate(costs(DEBUG, 3), 3, torch.device("cpu"))
    assert found.stages["tokenizer"] == 4 * 6 and found.stages["world_model"] == 4 * 5 * 2
    assert found.seconds == 4 * (6 + 5 * 2 + 4 * 3) and not found.busy
    own = replace(DEBUG.tokenizer.learner, rest_from=2, rest_every=3)  # epochs 0, 1, 2 and 5
    bursts = costs(replaced(DEBUG, tokenizer={"learner": own}), 3)
    assert estimate(bursts, 3, torch.device("cpu")).stages["tokenizer"] == 4 * 4


def test_early_epochs_have_steps_of_their_own(monkeypatch):
    rehearsed(monkeypatch)
    own = replace(DEBUG.world_model.learner, early_until=3, early_steps=10)  # epochs 1 and 2
    found = estimate(
        costs(replaced(DEBUG, world_model={"learner": own}), 3), 3, torch.device("cpu")
    )
    assert found.stages["world_model"] == (2 * 10 + 3 * 4) * 2


def resting(**training):
    """The tokenizer works in epochs 0, 1, 2 and 5 of 6, the others in all from 1 and from 2 on."""
    own = replace(DEBUG.tokenizer.learner, rest_from=2, rest_every=3)
    return replaced(DEBUG, tokenizer={"learner": own}, training=training)


def test_what_overlaps_is_counted_once(monkeypatch):
    """World model and controller together in epochs 3 and 4; acting beside them takes no time."""
    rehearsed(monkeypatch, act=1.0, together=2.5)
    found = estimate(costs(resting(overlap=True), 3), 3, torch.device("cpu")).stages
    assert found["together"] == 2 * 4 * 2.5 and found["tokenizer"] == 4 * 4
    assert found["world_model"] == 4 * 3 * 2.0 and found["controller"] == 4 * 2 * 3.0
    assert found["acting"] == 20 * 1  # epoch 5
    rehearsed(monkeypatch, act=1.0)
    apart = estimate(costs(resting(overlap=True), 3), 3, torch.device("cpu")).stages
    assert "together" not in apart and apart["world_model"] == 4 * 5 * 2.0
    assert apart["acting"] == 20 * 3


@pytest.mark.parametrize("overlap", [True, False])
def test_the_epochs_that_overlap_are_those_that_were_counted(overlap, tmp_path):
    config = resting(overlap=overlap)
    agent = Agent(config, 3, torch.device("cpu"))
    batches = RandomBatches(agent, torch.Generator().manual_seed(0))
    learners = make_learners(agent, batches, Streams(0, agent.device), Guard(tmp_path, every=1))
    found = [learners.overlaps(epoch) for epoch in range(6)]
    assert found == [overlap and epoch in (3, 4) for epoch in range(6)]


def test_a_busy_machine_is_named_beside_the_time_on_a_quiet_one(monkeypatch):
    rehearsed(monkeypatch, slowdown=2.5)
    said = describe_needs(replaced(DEBUG, runtime={"device": "cpu"}), 3).text
    assert "about 1 min 52 s on a quiet machine, estimated" in said
    assert "the steps take 2.5 times as long, about 4 min 40 s" in said
    rehearsed(monkeypatch)
    assert "quiet" not in describe_needs(replaced(DEBUG, runtime={"device": "cpu"}), 3).text


def test_steps_that_break_the_weights_are_left_to_the_run_to_report():
    learner = replace(DEBUG.tokenizer.learner, learning_rate=1e30)
    config = replaced(DEBUG, tokenizer={"learner": learner})
    assert "catch: 3 actions, on " in describe_needs(config, 3).text


def test_presets_and_envs_are_listed(command):
    _, out, _ = command("presets")
    assert all(f"{name} " in out for name in PRESETS)
    _, out, _ = command("presets --show debug")
    assert '"decay_horizon": 2.0' in out
    _, out, _ = command("envs")
    assert "catch" in out and "-0.75" in out and "Craftium/Speleo-v0" in out


def test_the_prediction_counts_hourly_snapshots(trained):
    counted = costs(DEBUG, Agent.load(trained, "cpu").action_space)

    def needed(**training):
        return snapshot_bytes(replaced(DEBUG, training=training), counted, 10 * 3600.0)

    one = needed(keep_snapshots=2) - needed(keep_snapshots=1)
    assert one > 0 and needed(keep_every_hours=2.0) - needed() == 5 * one


def test_a_warning_comes_once_before_the_disk_is_full(run_start, monkeypatch):
    said = []
    watch = DiskWatch()
    watch.on_start(replace(run_start, note=said.append))
    watch.on_metrics(0, {})
    assert said == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10, 10, 1000))
    watch.on_metrics(1, {})
    watch.on_metrics(2, {})
    assert len(said) == 1 and "nearly full: 1" in said[0]


def test_a_folder_that_is_not_there_yet_has_the_room_of_its_parents(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1000))
    assert free_bytes(tmp_path / "new" / "run") > 0 and folder_bytes(tmp_path) == 1000


def test_a_run_that_needs_more_disk_than_there_is_says_so_before_it_begins(
    tmp_path, command, monkeypatch
):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10, 10, 1000))
    _, said, _ = command(f"train --preset debug --dry-run --out {tmp_path / 'run'}")
    assert "warning: the disk has 1" in said and "free and the run needs about" in said
