"""The programs in `benchmarks/` run, at their smallest sizes, and end with a line of JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from horizon_imagination.run.read import load_run

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SMALLEST = {
    "atari_wrapper": ["--steps", "20", "--repeats", "1"],
    "env_process": ["--envs", "catch", "--steps", "20", "--repeats", "1"],
    "given_world": ["--repeats", "1"],
    "overlap": ["--rounds", "1", "--repeats", "1"],
    "play": ["--preset", "debug", "--repeats", "2"],
    "threads": ["--preset", "debug", "--rounds", "1", "--others", "1"],
}
SUITE = """
seeds = [0]
worlds = [{env = "catch", preset = "debug"}]
settings = [{name = "plain"}, {name = "budget", override = {"imagination.budget" = 6}}]
"""
ENDLESS = """
seeds = [0]
worlds = [{env = "catch", preset = "debug"}]
settings = [
    {name = "broken", override = {"runtime.device" = "cuda:99"}},
    {name = "endless", override = {"training.epochs" = 1_000_000}},
]
"""


def run(name, *words, cwd=None, status=0):
    """The last line of what a program prints, as a document."""
    program = [sys.executable, str(BENCHMARKS / f"{name}.py"), *map(str, words)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, cwd=cwd, env=env, text=True, capture_output=True)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs(name):
    assert run(name, *SMALLEST[name])


@pytest.mark.slow
def test_candidates_are_trained_two_at_a_time_and_judged_even_where_the_clock_stops_them(tmp_path):
    (tmp_path / "short.toml").write_text(SUITE)
    (tmp_path / "long.toml").write_text(ENDLESS)
    small = ("--jobs", 2, "--episodes", 2, "--contexts", 2, "--steps", 40, "--device", "cpu")

    def compare(*words, **expected):
        return run("candidates", *words, *small, cwd=tmp_path, **expected)

    whole = compare("short.toml", "--only", "*-plain-*")
    assert [row["run"] for row in whole["rows"]] == ["short/catch-plain-0"]
    assert whole["left_out"] == []
    row = whole["rows"][0]
    assert row["env_steps"] == 180 and -1 <= row["return"] <= 1
    assert set(row["futures_that_end"]) == {"imagined", "real"}

    # A run fails, the clock stops the endless one; what is measured already is read.
    clock = ("--minutes", 0.9, "--reserve", 0.4)
    both = compare("short.toml", "long.toml", *clock, status=1)
    rows = {row["run"]: row for row in both["rows"]}
    assert rows["short/catch-plain-0"] == row
    assert 0 < rows["short/catch-budget-0"]["env_steps"] <= 180
    assert 0 < rows["long/catch-endless-0"]["env_steps"] < 20_000_000
    assert both["left_out"] == both["failed"] == ["long/catch-broken-0"]
    endless = tmp_path / "runs" / "long" / "catch-endless-0"
    (judged,) = (endless / "candidate").iterdir()
    assert judged.name == f"epoch-{load_run(endless).epochs}"
    assert len((tmp_path / "runs" / "candidates.md").read_text().splitlines()) == 2 + len(rows)

    # Without a reserve, a run that would not end in time is not begun.
    none = compare("long.toml", "--only", "*-endless-*", "--minutes", 0.001)
    assert none["rows"] == [] and none["left_out"] == ["long/catch-endless-0"]


@pytest.mark.slow
def test_settings_of_a_part_are_tried_in_the_world_of_one_run(tmp_path):
    (tmp_path / "short.toml").write_text(SUITE)
    folder = tmp_path / "run"
    train = ("train", "--preset", "debug", "--training.epochs", "4", "--out", str(folder))
    subprocess.run([sys.executable, "-m", "horizon_imagination", *train], check=True)
    small = ("--seconds", 1, "--fresh", 40, "--episodes", 2, "--play", 8, "--device", "cpu")
    tried = run("parts", folder, "short.toml", "--part", "reward", *small, cwd=tmp_path)
    assert [row["setting"] for row in tried["rows"]] == ["plain", "budget"]
