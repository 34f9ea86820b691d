"""A run that was killed goes on as if it had not been: bit for bit, wherever it was killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.run.logs import MetricsFile
from horizon_imagination.run.trainer import Trainer
from horizon_imagination.run.watch import Watcher, Watchers
from horizon_imagination.snapshots import snapshots

EPOCHS = 5
CONFIG = replaced(PRESETS["debug"][1], training={"epochs": EPOCHS, "snapshot_every": 2})
DRIVER = Path(__file__).parent / "killed_train.py"


class StopError(Exception):
    pass


class Interrupter(Watcher):
    """Raises at the second step of a stage of an epoch."""

    def __init__(self, stage, epoch):
        self.where, self.at, self.steps = (stage, epoch), None, 0

    def stage(self, epoch, name, steps):
        self.at, self.steps = (name, epoch), 0

    def step(self, count=1):
        self.steps += count
        if self.at == self.where and self.steps == 2:
            raise StopError


def run(folder, *watchers, config=CONFIG):
    folder.mkdir(exist_ok=True)
    trainer = Trainer(config, folder, Watchers([MetricsFile(folder), *watchers]))
    try:
        trainer.resume()
        trainer.run()
    finally:
        trainer.close()
    return folder


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return run(tmp_path_factory.mktemp("reference") / "run")


def files(folder):
    """Everything of a finished run that must not depend on where it was interrupted."""
    last = snapshots(folder)[-1]
    names = ["weights.safetensors", "training.safetensors"]
    found = {name: (last / name).read_bytes() for name in names}
    found["best"] = (snapshots(folder, "best-")[-1] / "weights.safetensors").read_bytes()
    for path in (folder / "replay").iterdir():
        found[path.name] = path.read_bytes()
    state = json.loads((last / "state.json").read_text())
    found["state"] = {k: v for k, v in state.items() if k != "seconds"}
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = [
        {k: v for k, v in line.items() if not k.startswith("time/")} for line in lines
    ]
    return found


def assert_same(folder, reference):
    mine, theirs = files(folder), files(reference)
    assert mine.keys() == theirs.keys()
    different = [name for name in mine if mine[name] != theirs[name]]
    assert different == []
    assert [line["epoch"] for line in mine["metrics"]] == list(range(EPOCHS))


def test_a_run_that_was_interrupted_equals_one_that_was_not(reference, tmp_path):
    with pytest.raises(StopError):
        run(tmp_path / "run", Interrupter("world_model", 3))
    assert snapshots(tmp_path / "run")[-1].name == "epoch-000002"
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
