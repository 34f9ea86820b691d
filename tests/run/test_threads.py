"""The number of threads: chosen when a run begins, kept in its folder, kept when it goes on."""

import json

import pytest
import torch

from horizon_imagination.learn import rehearsal
from horizon_imagination.timing import ThreadTrial

LINE = "train --preset debug --runtime.threads {threads} --training.epochs {epochs} --out {out}"


def chosen(out):
    return json.loads((out / "config.json").read_text())["runtime"]["threads"]


@pytest.fixture
def trials(monkeypatch):
    """Counts the trials, each of which finds two threads fastest."""
    found = []

    def choose(step, most):
        found.append(most)
        return ThreadTrial(2, {1: 0.02, 2: 0.01})

    monkeypatch.setattr(rehearsal, "choose_threads", choose)
    return found


def test_a_run_keeps_the_number_that_was_chosen_when_it_began(tmp_path, trials, command):
    out = tmp_path / "run"
    status, said, _ = command(LINE, threads=0, epochs=1, out=out)
    assert status == 0 and chosen(out) == 2 and len(trials) == 1
    assert "2, the fastest in a short trial (a step with 1: 20 ms, 2: 10 ms)" in said
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert command(LINE, threads=0, epochs=2, out=out)[0] == 0
    assert chosen(out) == 2 and len(trials) == 1 and torch.get_num_threads() == 2


def test_a_number_that_is_given_is_taken_without_a_trial(tmp_path, trials, command):
    out = tmp_path / "run"
    assert command(LINE, threads=1, epochs=1, out=out)[0] == 0
    assert chosen(out) == 1 and not trials
    assert command(LINE, threads=2, epochs=2, out=out)[0] == 0
    assert chosen(out) == 2 and not trials


def test_a_run_from_before_this_choice_goes_on_with_the_number_of_torch(tmp_path, trials, command):
    out = tmp_path / "run"
    assert command(LINE, threads=1, epochs=1, out=out)[0] == 0
    config = json.loads((out / "config.json").read_text())
    config["runtime"]["threads"] = 0
    (out / "config.json").write_text(json.dumps(config))
    torch.set_num_threads(1)
    assert command(LINE, threads=0, epochs=2, out=out)[0] == 0
    assert chosen(out) == 0 and not trials and torch.get_num_threads() == 1


def test_a_dry_run_says_the_number_and_writes_nothing(tmp_path, trials, command):
    line = LINE + " --dry-run"
    status, said, _ = command(line, threads=0, epochs=1, out=tmp_path / "run")
    assert status == 0 and "threads     2, the fastest" in said
    assert not list(tmp_path.iterdir())
