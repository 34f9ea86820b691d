"""Runs and targets that cannot be written to: one line, nothing lost, and --out goes elsewhere."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from horizon_imagination.files import write_json

pytestmark = pytest.mark.slow

CPU = "--device cpu"
LINES = {
    "evaluate ro/run --episodes 2": "ro/run/evaluations' (.*); give a writable one with --out",
    f"evaluate ro/run --episodes 2 --video ro/film.mp4 --out ok/not.json {CPU}": "with --video",
    "evaluate ro/run --episodes 2 --random": "ro/run/baselines' (.*); give a writable one with",
    f"evaluate ro/run --episodes 2 --out ok/eval.json {CPU}": "",
    f"report ro/run {CPU}": "the folder 'ro/run' (.*); give a writable one with --out",
    f"report ro/run --out ok/report {CPU}": "",
    "report ro/suite": "the folder 'ro/suite' (.*); give a writable one with --out",
    "report ro/suite --out ok/suite": "",
    f"strip ro/run {CPU}": "the folder 'ro/run/videos' (.*); give a writable one with --out",
    f"strip ro/run --out ok/strips.png {CPU}": "",
    "record --env catch --episodes 1 --out ro/new": "the folder 'ro' (.*); give a writable one",
    f"record --agent ro/run --episodes 1 --out ok/recorded {CPU}": "",
    "data import ro/npz ro/imported": "the folder 'ro' (.*); name a writable place for the dataset",
    "data import ro/npz ok/imported": "",
    "data info ro/data": "",
    "data validate ro/data": "",
    "data repair ro/data": "the folder 'ro/data' (.*); make it writable, or repair a copy",
    "data repair ro/run": "the folder 'ro/run/replay' (.*); make it writable, or repair a copy",
    "train --preset debug --out ro/new": "ro/new: .*; make it writable, or name another one with",
    "train --out ro/run --training.epochs 9": "ro/run: .*; make it writable, or name another",
}
"""What is said on stderr; nothing where the command works."""


@pytest.fixture(scope="module")
def place(tmp_path_factory, trained, dataset):
    """`ro` with a run, data and a suite; `ok`, an empty folder."""
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(trained, place / "ro" / "run")
    shutil.copytree(dataset, place / "ro" / "data")
    (place / "ro" / "npz").mkdir()
    frames, actions = np.zeros((6, 16, 16, 3), np.uint8), np.arange(5) % 3
    np.savez(place / "ro" / "npz" / "a.npz", frames=frames, actions=actions)
    shutil.copytree(trained, place / "ro" / "suite" / "run")
    entry = {"name": "x", "env": "catch", "setting": "mine", "seed": 0, "folder": "run"}
    write_json(place / "ro" / "suite" / "suite.json", {"name": "mine", "runs": [entry]})
    (place / "ok").mkdir()
    return place


@pytest.fixture(scope="module")
def said(place):
    """Line: status, stdout and stderr of the command, all of them in one process."""
    words = [sys.executable, str(Path(__file__).parent / "read_only.py")]
    folder, root = place / "ro", os.getuid() == 0
    if root:
        if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
            pytest.skip("the superuser writes everywhere, and there is no unshare here")
        words = ["unshare", "-rm", *words, str(folder)]
    paths = [folder, *folder.rglob("*")]
    modes = [(path, path.stat().st_mode) for path in paths]
    for path, mode in [] if root else modes:
        path.chmod(mode & ~0o222)
    try:
        options = {"cwd": place, "capture_output": True, "text": True}
        found = subprocess.run(words, input="\n".join(LINES), **options)
    finally:
        for path, mode in modes:
            path.chmod(mode)
    assert found.returncode == 0, found.stderr[-2000:]
    return dict(zip(LINES, json.loads(found.stdout), strict=True))


@pytest.mark.parametrize("line", LINES)
def test_what_cannot_be_written_is_one_line_and_goes_elsewhere_with_out(line, said):
    status, out, err = said[line]
    before, _, after = LINES[line].partition(".*")
    assert status == (2 if LINES[line] else 0), err
    assert before in err and after in err and err.count("\n") == bool(LINES[line])
    assert not out or not err, "it is told before any work is done"


def test_results_are_where_out_says_and_nothing_was_left_half_done(said, place):
    results = {"eval.json", "report", "suite", "strips.png", "strips.mp4", "recorded", "imported"}
    assert {path.name for path in (place / "ok").iterdir()} == results
    for page in ("report", "suite"):
        assert (place / "ok" / page / "report.html").stat().st_size
    assert {path.name for path in (place / "ro").iterdir()} == {"run", "data", "npz", "suite"}
