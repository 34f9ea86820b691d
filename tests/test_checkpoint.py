"""Snapshots: complete, atomic, and free of anything that can run."""

import json
import zipfile

import numpy as np
import pytest
import torch

from horizon_imagination import checkpoint
from horizon_imagination.agent import Agent
from horizon_imagination.checkpoint import (
    Progress,
    join_arrays,
    load_snapshot,
    save_best,
    save_snapshot,
    split_arrays,
    trained_for,
)
from horizon_imagination.config import LearnerConfig
from horizon_imagination.errors import UsageError
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learner import Learner, Losses, Term
from horizon_imagination.presets import PRESETS
from horizon_imagination.snapshots import find_agent, publish, read_score, snapshots

DEBUG = PRESETS["debug"][1]


def make(tmp_path):
    """An agent and one learner that pulls its actor towards zero."""
    agent = Agent(DEBUG, 3, torch.device("cpu"))

    def loss(batch):
        total = sum(p.square().sum() for p in agent.actor.parameters())
        return Losses({"size": Term(total, torch.tensor(1.0))}, {})

    config = LearnerConfig(batch_size=1, steps_per_epoch=1, learning_rate=0.1)
    parameters = {"actor": list(agent.actor.parameters())}
    guard = Guard(tmp_path, every=1)
    return agent, Learner("pull", config, lambda n: torch.zeros(n), loss, parameters, guard)


def test_a_restored_learner_goes_on_bit_for_bit(tmp_path):
    agent, learner = make(tmp_path)
    for _ in range(3):
        learner.step()
    progress = Progress(epoch=2, env_steps=40, store={"rows": 3}, env={"deep": {"x": 1}})
    stream = torch.Generator().manual_seed(1)
    save_snapshot(tmp_path, agent, [learner], {"s": stream.get_state()}, progress, keep=1)
    learner.step()

    again, other = make(tmp_path)
    found, tensors = load_snapshot(snapshots(tmp_path)[-1], again, [other])
    assert found == progress and other.steps == 3
    assert torch.equal(tensors["s"], stream.get_state())
    other.step()
    mine, theirs = agent.weights(), again.weights()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_moments_are_laid_out_in_memory_as_their_weights_are(tmp_path):
    """Fused optimisers of a GPU, where convolutions keep channels last, refuse anything else."""

    def make_channels_last():
        agent, learner = make(tmp_path)
        agent.actor.to(memory_format=torch.channels_last)
        return agent, learner

    agent, learner = make_channels_last()
    learner.step()
    save_snapshot(tmp_path, agent, [learner], {}, Progress(), keep=1)
    again, other = make_channels_last()
    load_snapshot(snapshots(tmp_path)[-1], again, [other])
    strides = [(p.stride(), other.optimizer.state[p]) for p in again.actor.parameters()]
    assert any(
        stride != torch.empty(p.shape).stride()
        for p, (stride, _) in zip(again.actor.parameters(), strides, strict=True)
    ), "some are channels last"
    for stride, state in strides:
        assert state["exp_avg"].stride() == state["exp_avg_sq"].stride() == stride
    learner.step(), other.step()
    mine, theirs = agent.weights(), again.weights()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_arrays_of_any_type_come_back_as_they_were():
    tree = {
        "screen": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "flag": np.array([True, False]),
        "wide": np.array([2**63 + 5], dtype=np.uint64),
        "inner": {"x": np.array([1.5, np.nan], dtype=np.float32), "n": 4, "none": None},
        "layers": [{"frame": np.ones((2, 2), np.uint8)}, {"lives": 3}],
    }
    plain, arrays = split_arrays(tree, "env")
    back = join_arrays(json.loads(json.dumps(plain)), arrays)
    for name in ("screen", "flag", "wide"):
        assert back[name].dtype == tree[name].dtype
        np.testing.assert_array_equal(back[name], tree[name])
    np.testing.assert_array_equal(back["inner"]["x"], tree["inner"]["x"])
    np.testing.assert_array_equal(back["layers"][0]["frame"], tree["layers"][0]["frame"])
    assert back["layers"][1] == {"lives": 3}
    assert back["inner"]["n"] == 4 and back["inner"]["none"] is None


def folder(run, name, content="x"):
    path = run / "checkpoints" / f"{name}.tmp"
    path.mkdir(parents=True)
    (path / "agent.json").write_text(content)
    return path


def test_only_the_newest_are_kept_and_what_is_being_written_does_not_count(tmp_path):
    for epoch in (1, 2, 3):
        publish(folder(tmp_path, f"epoch-{epoch:06d}"), keep=2)
    folder(tmp_path, "epoch-000004")
    assert [x.name for x in snapshots(tmp_path)] == ["epoch-000002", "epoch-000003"]


def test_a_snapshot_of_the_same_name_is_never_missing(tmp_path):
    publish(folder(tmp_path, "epoch-000003", "old"), keep=1)
    publish(folder(tmp_path, "epoch-000003", "new"), keep=1)
    (only,) = snapshots(tmp_path)
    assert (only / "agent.json").read_text() == "new"


def test_a_new_best_replaces_one_of_a_later_epoch(tmp_path):
    """After a resume the best of the epochs that come again may be the older number."""
    agent, _ = make(tmp_path)
    save_best(tmp_path, agent, epoch=15, env_steps=300, score=0.5)
    save_best(tmp_path, agent, epoch=12, env_steps=240, score=0.7)
    assert read_score(find_agent(tmp_path)).score == 0.7
    assert trained_for(find_agent(tmp_path)) == {"epoch": 12, "env_steps": 240}


def test_the_best_snapshot_is_loaded_before_the_latest(tmp_path):
    publish(folder(tmp_path, "epoch-000009"), keep=1)
    assert find_agent(tmp_path).name == "epoch-000009"
    publish(folder(tmp_path, "best-000004"), keep=1, prefix="best-")
    assert find_agent(tmp_path).name == "best-000004"


FILES = ["weights.safetensors", "training.safetensors", "state.json", "agent.json"]


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_is_found(tmp_path, name):
    agent, learner = make(tmp_path)
    learner.step()
    path = save_snapshot(tmp_path, agent, [learner], {}, Progress(), keep=1)
    content = bytearray((path / name).read_bytes())
    content[-3] ^= 1
    (path / name).write_bytes(content)
    said = f"{name} has changed since it was written; restore the snapshot from a copy"
    with pytest.raises(UsageError, match=said):
        load_snapshot(path, agent, [learner])
    if name in ("weights.safetensors", "agent.json"):
        with pytest.raises(UsageError, match=said):
            Agent.load(tmp_path, "cpu")


def test_weights_that_are_not_finite_are_refused(tmp_path):
    """Written as they are, so that their hash is right."""
    agent, learner = make(tmp_path)
    next(agent.actor.parameters()).data.view(-1)[0] = float("nan")
    path = save_snapshot(tmp_path, agent, [learner], {}, Progress(), keep=1)
    for load in (lambda: Agent.load(tmp_path, "cpu"), lambda: load_snapshot(path, agent, [])):
        with pytest.raises(UsageError, match="has values that are not finite, in actor"):
            load()


@pytest.mark.parametrize("name", ["weights.safetensors", "training.safetensors", "state.json"])
def test_a_damaged_snapshot_without_hashes_is_one_line(tmp_path, name):
    """As versions before 0.3 wrote it."""
    agent, learner = make(tmp_path)
    learner.step()
    path = save_snapshot(tmp_path, agent, [learner], {}, Progress(), keep=1)
    (path / "sha256.json").unlink()
    load_snapshot(path, agent, [learner])
    (path / name).write_bytes((path / name).read_bytes()[:20])
    with pytest.raises(UsageError, match=r"cannot be read|is damaged"):
        load_snapshot(path, agent, [learner])
    if name == "weights.safetensors":
        with pytest.raises(UsageError, match="cannot be read"):
            Agent.load(tmp_path, "cpu")


def test_a_snapshot_that_fails_to_write_leaves_the_one_before(tmp_path, monkeypatch):
    agent, learner = make(tmp_path)
    before = save_snapshot(tmp_path, agent, [learner], {}, Progress(epoch=1), keep=1)

    def full(tensors, path):
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="no space"):
        save_snapshot(tmp_path, agent, [learner], {}, Progress(epoch=2), keep=1)
    assert snapshots(tmp_path) == [before]
    load_snapshot(before, agent, [learner])


def test_nothing_in_a_snapshot_can_execute_code(tmp_path):
    agent, learner = make(tmp_path)
    learner.step()
    path = save_snapshot(tmp_path, agent, [learner], {}, Progress(), keep=1)
    assert {x.suffix for x in path.iterdir()} == {".json", ".safetensors"}
    assert not any(zipfile.is_zipfile(x) for x in path.iterdir())  # torch's pickles are zips
