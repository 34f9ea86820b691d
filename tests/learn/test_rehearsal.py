"""Steps of a throw-away agent: timed, corrected for other programs, and nothing left behind."""

import os
import subprocess
import sys

import pytest
import torch

from horizon_imagination.costs import costs
from horizon_imagination.learn import rehearsal
from horizon_imagination.learn.rehearsal import rehearse, rehearsed_by_count
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.timing import Seconds, ThreadTrial

DEBUG, CPU = PRESETS["debug"][1], torch.device("cpu")
LEARNERS = ["tokenizer", "world_model", "controller"]
KILLED = """
import os, torch
from horizon_imagination.learn import learner, rehearsal
from horizon_imagination.presets import PRESETS
learner.Learner.step = lambda self: os._exit(9)
rehearsal.rehearse(PRESETS["debug"][1], 3, torch.device("cpu"))
"""


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def test_every_learner_takes_steps_and_random_streams_stay_as_they_are():
    before = torch.get_rng_state()
    found = rehearse(DEBUG, 3, CPU)
    assert list(found.steps) == LEARNERS and found.trial is None
    assert min(*found.steps.values(), found.encode, found.act) > 0 and found.slowdown >= 1
    assert torch.equal(torch.get_rng_state(), before)


def test_a_kill_while_it_runs_leaves_nothing_behind(tmp_path):
    place = os.environ | {"TMPDIR": str(tmp_path)}
    status = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=place).returncode
    assert status == 9 and not list(tmp_path.iterdir())


def fake_seconds(monkeypatch, price):
    """Calls cost what `price` says for the number of threads: wall and CPU time."""
    asked = []

    def seconds(step, device, *, warm_up):
        asked.append(torch.get_num_threads())
        return Seconds(*price[torch.get_num_threads()])

    monkeypatch.setattr(rehearsal, "call_seconds", seconds)
    return asked


def test_on_a_busy_machine_the_cpu_time_of_one_thread_counts(monkeypatch):
    asked = fake_seconds(monkeypatch, {1: (0.3, 0.1), 2: (0.9, 0.4)})
    found = rehearse(replaced(DEBUG, runtime={"threads": 2}), 3, CPU)
    assert found.steps == dict.fromkeys(LEARNERS, 0.1)
    assert found.slowdown == pytest.approx(0.9 / 0.1)
    assert asked[0] == 2 and set(asked[1:]) == {1}  # a slow machine is probed once


def test_on_a_quiet_machine_the_wall_time_of_the_threads_counts(monkeypatch):
    asked = fake_seconds(monkeypatch, {2: (0.06, 0.055)})
    found = rehearse(replaced(DEBUG, runtime={"threads": 2}), 3, CPU)
    assert found.steps == dict.fromkeys(LEARNERS, 0.06) and found.slowdown == 1
    assert set(asked) == {2}


def test_threads_that_are_left_open_are_chosen_by_a_trial(monkeypatch):
    trial = ThreadTrial(2, {1: 0.2, 2: 0.1})
    monkeypatch.setattr(rehearsal, "choose_threads", lambda step, most: trial)
    asked = fake_seconds(monkeypatch, {2: (0.06, 0.055)})
    assert rehearse(replaced(DEBUG, runtime={"threads": 0}), 3, CPU).trial is trial
    assert set(asked) == {2}


def test_large_networks_are_counted_and_other_programs_do_not_slow_the_count(monkeypatch):
    counted = costs(DEBUG, 3)
    fake_seconds(monkeypatch, {torch.get_num_threads(): (0.3, 0.1)})
    found = rehearsed_by_count(counted, CPU)
    speed = 0.5 * 2 * 1024**3 / 0.1
    assert found.steps["controller"] == pytest.approx(counted.steps["controller"].flops / speed)
    assert found.slowdown == pytest.approx(3)
