"""A run of two processes that is asked to stop: one snapshot, a status, and not a bit is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from horizon_imagination.run.signals import RESUME, StopRequest
from horizon_imagination.scale import distributed
from horizon_imagination.snapshots import read_state, snapshots

DRIVER = Path(__file__).parent / "stopped_ranks.py"
SMALL = [f"--{name}.learner.steps-per-epoch=4" for name in ("tokenizer", "world-model")]
SMALL += ["--controller.learner.steps-per-epoch=4", "--training.collect-steps=20"]
PATIENCE = 240.0
"""Seconds that anything may take on a busy machine."""


class Commands:
    """A driver that runs commands one after another."""

    def __init__(self, log):
        self.log = log
        with open(log, "w") as file:
            self.driver = subprocess.Popen(
                [sys.executable, str(DRIVER), str(log.with_suffix(""))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )

    def start(self, words):
        """The process of a command."""
        print(json.dumps(words), file=self.driver.stdin, flush=True)
        return psutil.Process(int(self.driver.stdout.readline()))

    def status(self):
        """The exit status of the command that was started."""
        return int(self.driver.stdout.readline())

    def close(self):
        for process in psutil.Process(self.driver.pid).children(recursive=True):
            process.kill()
        self.driver.kill()
        self.driver.communicate()


@pytest.fixture
def commands(tmp_path):
    found = Commands(tmp_path / "log.txt")
    yield found
    found.close()


def training(folder, epochs):
    words = ["train", "--preset", "debug", "--out", str(folder), "--processes", "2", *SMALL]
    words += ["--device", "cpu", "--training.snapshot-every", "1000"]
    return [*words, "--training.epochs", str(epochs)]


def epochs_of(folder):
    path = folder / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def begun(commands, folder):
    """A launcher and its ranks, which have just finished one more epoch."""
    before, until = epochs_of(folder), time.monotonic() + PATIENCE
    launcher = commands.start(training(folder, 1000))
    while epochs_of(folder) == before:
        assert launcher.is_running() and time.monotonic() < until, commands.log.read_text()
        time.sleep(0.02)
    ranks = sorted(launcher.children(), key=lambda rank: rank.pid)
    assert len(ranks) == 2
    return launcher, ranks


def contents(folder):
    """Everything of a run that must not depend on when it was stopped: wall times are left out."""
    last = snapshots(folder)[-1]
    found = {path.name: path.read_bytes() for path in last.glob("*.safetensors")}
    found |= {path.name: path.read_bytes() for path in (folder / "replay").iterdir()}
    state = json.loads((last / "state.json").read_text())
    found["state"] = {k: v for k, v in state.items() if k != "seconds"}
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = [{k: v for k, v in x.items() if not k.startswith("time/")} for x in lines]
    return found


@pytest.mark.slow
def test_two_ranks_that_are_asked_to_stop_go_on_bit_for_bit(tmp_path, commands):
    run, whole = tmp_path / "run", tmp_path / "whole" / "run"

    launcher, ranks = begun(commands, run)
    launcher.send_signal(signal.SIGTERM)
    assert commands.status() == RESUME, commands.log.read_text()
    assert not any(rank.is_running() for rank in ranks)
    (first,) = snapshots(run)  # the only one: none was due
    assert read_state(first).unfinished is not None
    assert "stopped by SIGTERM" in commands.log.read_text()

    # Any rank may be asked; all of them stop, and the first one saves.
    launcher, ranks = begun(commands, run)
    ranks[1].send_signal(signal.SIGTERM)
    assert commands.status() == RESUME, commands.log.read_text()
    assert "stopped by a signal to another rank" in commands.log.read_text()
    kept = snapshots(run)
    assert kept[-1] != first

    # A second signal ends at once, though the step cannot end.
    launcher, ranks = begun(commands, run)
    ranks[0].suspend()
    launcher.send_signal(signal.SIGTERM)
    launcher.send_signal(signal.SIGINT)
    assert commands.status() == 130, commands.log.read_text()
    assert not any(rank.is_running() for rank in ranks) and snapshots(run) == kept

    done = epochs_of(run) + 1
    for folder in (run, whole):
        commands.start(training(folder, done))
        assert commands.status() == 0, commands.log.read_text()
    mine, unbroken = contents(run), contents(whole)
    assert [name for name in unbroken if mine.get(name) != unbroken[name]] == []
    assert len(unbroken["metrics"]) == done and "Traceback" not in commands.log.read_text()


def sleeping(*codes):
    """Processes that end with these codes, or not by themselves."""
    words = [
        ["sh", "-c", f"exit {code}"] if code is not None else ["sleep", "600"] for code in codes
    ]
    return [subprocess.Popen(line) for line in words]


def test_a_rank_that_outlives_the_first_is_ended(monkeypatch):
    monkeypatch.setattr(distributed, "GRACE", 0.3)
    ranks = sleeping(RESUME, None)
    assert distributed._watch(ranks, StopRequest()) == RESUME
    assert ranks[1].returncode == -signal.SIGKILL


def test_ranks_that_are_stopped_before_they_listen_are_to_be_started_again(monkeypatch):
    monkeypatch.setattr(distributed, "GRACE", 0.3)
    ranks = sleeping(None, None)
    assert distributed._watch(ranks, StopRequest("SIGTERM")) == RESUME
    assert ranks[0].returncode == -signal.SIGTERM and ranks[1].returncode is not None
