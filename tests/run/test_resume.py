"""A run that was killed goes on as if it had not been: bit for bit, wherever it was killed."""

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from interrupted import Asks, FailsOnce, Interrupter, StopError, assert_same, files
from interrupted import run as run_with

import horizon_imagination.evaluate as evaluate_module
import horizon_imagination.run.trainer as trainer_module
from horizon_imagination.errors import EnvFailure, UsageError
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.run.callbacks import Callback
from horizon_imagination.run.signals import Paused
from horizon_imagination.snapshots import read_state, snapshots

EPOCHS = 5
CONFIG = replaced(PRESETS["debug"][1], training={"epochs": EPOCHS, "snapshot_every": 2})
DRIVER = Path(__file__).parent / "killed_train.py"


def run(folder, *callbacks, config=CONFIG, stop=None):
    return run_with(folder, *callbacks, config=config, stop=stop)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return run(tmp_path_factory.mktemp("reference") / "run")


def test_a_run_that_was_interrupted_equals_one_that_was_not(reference, tmp_path):
    with pytest.raises(StopError):
        run(tmp_path / "run", Interrupter("world_model", 3))
    assert snapshots(tmp_path / "run")[-1].name == "epoch-000002"
    assert_same(run(tmp_path / "run"), reference)


def test_a_run_that_is_asked_to_stop_at_any_step_goes_on_bit_for_bit(reference, tmp_path):
    folder, dice = tmp_path / "run", random.Random(1)
    points = [("collect", 0), ("tokenizer", 0), ("tokenizer", 1), ("collect", 2), ("collect", 3)]
    points += [("world_model", 3), ("controller", 3), ("evaluate", 3), ("controller", 4)]
    for stage, epoch in points:
        asks = Asks(stage, epoch, dice)
        with pytest.raises(Paused):
            run(folder, asks, stop=asks.stop)
        state = read_state(snapshots(folder)[-1])
        assert (state.epoch, state.unfinished.stage) == (epoch, stage)
    assert_same(run(folder), reference)


class Notes(Callback):
    def __init__(self):
        self.said = []

    def on_note(self, text):
        self.said.append(text)


def test_a_damaged_latest_snapshot_falls_back_to_the_one_before(reference, tmp_path):
    with pytest.raises(StopError):
        run(tmp_path / "run", Interrupter("collect", 4))
    older, latest = snapshots(tmp_path / "run")
    (latest / "training.safetensors").write_bytes(b"\0" * 100)
    notes = Notes()
    assert_same(run(tmp_path / "run", notes), reference)
    (said,) = notes.said
    assert f"{latest}/training.safetensors has changed" in said
    assert said.endswith(f"going on from {older.name}")
    assert latest.with_name("epoch-000004.damaged").is_dir(), "it is kept for whoever wants it"


@pytest.mark.parametrize("action", [3, 2**30, -1])
def test_a_replay_with_actions_out_of_range_is_not_trained_on(reference, tmp_path, action):
    shutil.copytree(reference, tmp_path / "run")
    path = tmp_path / "run" / "replay" / "action.i32"
    actions = np.fromfile(path, "<i4")
    actions[4] = action
    actions.tofile(path)
    with pytest.raises(UsageError, match=r"replay is damaged: episode 0: actions outside 0 to 2"):
        run(tmp_path / "run", config=replaced(CONFIG, training={"epochs": 9}))


def test_failures_of_the_environment_lose_no_step_and_no_line(reference, tmp_path, monkeypatch):
    """In the first collection, in a later one, and in an evaluation."""
    makers = {module: module.make_env for module in (trainer_module, evaluate_module)}
    for module, left in ((trainer_module, 1), (trainer_module, 70), (evaluate_module, 5)):
        FailsOnce.left, make = left, makers[module]
        with monkeypatch.context() as patch, pytest.raises(EnvFailure):
            patch.setattr(module, "make_env", lambda *of, make=make: FailsOnce(make(*of)))
            run(tmp_path / "run")
    assert_same(run(tmp_path / "run"), reference)


def test_another_seed_is_another_run(reference, tmp_path):
    """The comparison can fail: what it compares depends on what was drawn."""
    from dataclasses import replace

    other = run(tmp_path / "run", config=replace(CONFIG, seed=1))
    mine, theirs = files(other), files(reference)
    assert all(mine[name] != theirs[name] for name in ("weights.safetensors", "frames.u8"))


@pytest.mark.slow
def test_killed_at_every_stage_and_while_saving_the_weights_are_the_same(reference, tmp_path):
    """One run, killed nine times by SIGKILL, each time in a real process of its own."""
    folder = tmp_path / "run"
    line = ["--preset", "debug", "--out", str(folder), "--training.epochs", str(EPOCHS)]
    line += ["--training.snapshot-every", "2"]
    points = [("tokenizer", 0), ("snapshot", 1), ("publish", 1), ("collect", 2), ("metrics", 3)]
    points += [("controller", 3), ("evaluate", 3), ("world_model", 4), ("snapshot", 4)]
    for point, epoch in points:
        command = [sys.executable, str(DRIVER), point, str(epoch), *line]
        status = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert status.returncode == -signal.SIGKILL, (point, epoch, status.stdout, status.stderr)
    command = [sys.executable, str(DRIVER), "nowhere", "0", *line]
    assert subprocess.run(command, timeout=300).returncode == 0
    assert_same(folder, reference)
