"""A run folder of version 0.1.0: it loads, and goes on as that version would have gone on.

`run_before/run.tar.gz` was trained for four epochs by the code of that version, and
`run_before/continued.json` holds what the same code made of two further ones. Neither is ever
written again: a change that fails here breaks the runs that people have.
"""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from horizon_imagination.agent import Agent
from horizon_imagination.cli import main
from horizon_imagination.run.read import RENAMED

BEFORE = Path(__file__).parent / "run_before"


@pytest.fixture
def run(tmp_path):
    with tarfile.open(BEFORE / "run.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "run"


@pytest.fixture
def expected():
    return json.loads((BEFORE / "continued.json").read_text())


def machine():
    """What decides the last bits of a sum."""
    models = [x for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x]
    return [torch.__version__, torch.backends.cpu.get_cpu_capability(), *models[:1]]


def weights_hash(snapshot):
    """Of the names and the bytes of all weights."""
    digest = hashlib.sha256()
    for name, value in sorted(load_file(snapshot / "weights.safetensors").items()):
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def test_a_run_of_the_version_before_goes_on_as_if_nothing_had_changed(run, expected, capsys):
    old = (run / "metrics.jsonl").read_text().splitlines()
    line = ["train", "--out", str(run), "--training.epochs", "6", "--runtime.threads", "1"]
    assert main(line) == 0
    assert "resuming after epoch 4" in capsys.readouterr().out
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert lines[:4] == old and len(lines) == 6
    for text, then in zip(lines[4:], expected["metrics"], strict=True):
        now = json.loads(text)
        then = {RENAMED.get(name, name): value for name, value in then.items()}
        assert then.keys() <= now.keys()
        now = {name: now[name] for name in then}
        if machine() == expected["machine"]:
            assert now == then
        else:  # another processor rounds otherwise
            assert now == pytest.approx(then, rel=1e-2, abs=1e-3)
    if machine() == expected["machine"]:
        assert weights_hash(run / "checkpoints" / "epoch-000006") == expected["weights"]


def test_the_best_agent_of_a_run_of_the_version_before_is_loaded_whole(run):
    agent, stored = (
        Agent.load(run, "cpu"),
        load_file(run / "checkpoints/best-000003/weights.safetensors"),
    )
    assert agent.weights().keys() == stored.keys()
    assert all(torch.equal(value, stored[name]) for name, value in agent.weights().items())
