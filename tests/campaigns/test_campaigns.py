"""A short campaign of each kind; `make campaign` runs long ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def campaign(name, seconds, *flags):
    """The counts of a campaign, in a process without run-time shape checks."""
    words = [sys.executable, str(HERE / f"{name}.py"), "--seconds", str(seconds), *flags]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    about = json.loads(ended.stdout.splitlines()[-1])
    assert about["campaign"] == name and about["problems"] == 0, about
    return about


@pytest.mark.slow
def test_commands_that_are_killed_go_on_as_if_they_had_not_been():
    about = campaign("kills", 8, "--kinds", "training", "evaluation")
    assert about["kills"] >= 1  # how many more depends on what else the machine does


@pytest.mark.slow
def test_a_disk_that_fails_loses_nothing():
    about = campaign("disks", 8)
    assert about.get("skipped") or about["counts"]["repeated"] >= 1


@pytest.mark.slow
def test_damaged_files_load_or_are_refused():
    about = campaign("fuzz", 8)
    assert about["counts"]["refused"] >= 5 and about["counts"]["loaded"] >= 1


@pytest.mark.slow
def test_inputs_that_reach_new_lines_have_descendants():
    targets = ("message", "suite_toml", "suite_json", "launch", "score", "hashes", "points")
    # So many inputs, and not so many seconds: a busy machine reads few in them.
    flags = ("--guided", "--inputs", "300", "--targets", *targets)
    found = campaign("fuzz", 1, *flags)["guided"]
    assert found["parents"] >= 1 and found["lines_with"] > 0 < found["lines_without"]


@pytest.mark.slow
def test_hostile_worlds_end_in_one_line():
    assert campaign("worlds", 6)["counts"]["worlds"] >= 1


@pytest.mark.slow
def test_the_server_of_play_withstands_abuse():
    assert campaign("abuse", 6)["counts"]["frames_played"] >= 1


@pytest.mark.slow
def test_a_run_does_not_grow_while_it_trains():
    assert campaign("soak", 15)["epochs"] >= 1
