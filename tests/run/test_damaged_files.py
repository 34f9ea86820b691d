"""Damaged files of runs, datasets and suites: a reader answers with content or with one line."""

import json
import shutil

import pytest

from horizon_imagination.agent import Agent
from horizon_imagination.checkpoint import trained_for
from horizon_imagination.data import Store, validate
from horizon_imagination.errors import UsageError
from horizon_imagination.run.folder import rewind_metrics
from horizon_imagination.run.read import best_score, load_run, saved_epochs, standing
from horizon_imagination.scale.suite import read_members
from horizon_imagination.snapshots import (
    find_agent,
    read_agent_description,
    read_state,
    snapshots,
)

DAMAGE = {
    "nothing": b"",
    "zeros": b"\0" * 64,
    "not UTF-8": b"\xff\xfe{}",
    "a bomb": b"[" * 100_000,
    "a list": b"[1, 2]",
    "a number": b"1e308",
    "null": b"null",
    "no field": b"{}",
}


def wrong_values(content):
    """The file with one field at a time of another type."""
    for name in content:
        for value in (None, "x", [], {}, -1, 10**23, float("nan"), True, [[[[]]]]):
            yield json.dumps(content | {name: value}).encode()


@pytest.fixture(scope="module")
def run(trained, tmp_path_factory):
    """A copy of a run with an evaluation, and with a suite beside it."""
    folder = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(trained, folder)
    for path in folder.glob("checkpoints/*/sha256.json"):
        path.unlink()  # as before 0.3, so that the readers themselves are tried
    (folder / "evaluations").mkdir()
    content = {"snapshot": "best-000004", "episodes": [{"total_reward": 1.0, "length": 3}]}
    (folder / "evaluations" / "best.json").write_text(json.dumps(content))
    member = {"name": "a", "env": "catch", "setting": "hi", "seed": 0, "folder": "a"}
    (folder / "suite.json").write_text(json.dumps({"name": "s", "runs": [member]}))
    return folder


def read_latest(run):
    state = read_state(snapshots(run)[-1])
    Store.open(run / "replay").close()
    return state, trained_for(snapshots(run)[-1]), saved_epochs(run)


def read_run(run):
    found = load_run(run)
    return found.epochs, found.env_steps, found.stage_seconds(), standing(run, found.config)


READERS = {
    "config.json": read_run,
    "run.json": read_run,
    "metrics.jsonl": read_run,
    "sessions.jsonl": read_run,
    "evaluations/best.json": read_run,
    "checkpoints/epoch-000004/state.json": read_latest,
    "checkpoints/best-000004/score.json": lambda run: trained_for(find_agent(run)),
    "checkpoints/best-000004/agent.json": lambda run: read_agent_description(find_agent(run)),
    "checkpoints/best-000004/weights.safetensors": lambda run: Agent.load(run, "cpu"),
    "replay/dataset.json": lambda run: (validate(run / "replay"), Store.open(run / "replay")),
    "suite.json": read_members,
}


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_one_line(run, name):
    path, refused = run / name, 0
    good = path.read_bytes()
    damages = [*DAMAGE.values(), good[: len(good) // 2], good[:-3]]
    if name.endswith((".json", ".jsonl")):
        damages += wrong_values(json.loads(good.splitlines()[0] if "jsonl" in name else good))
    try:
        for damage in damages:
            path.write_bytes(damage)
            try:
                READERS[name](run)
            except UsageError as error:
                refused += 1
                assert "\n" not in str(error) and path.name in str(error), str(error)[:200]
    finally:
        path.write_bytes(good)
    READERS[name](run)
    assert refused > len(damages) / 4


def test_lines_of_metrics_that_are_damaged_go_when_a_run_goes_on(tmp_path):
    good = '{"epoch": 0, "a": 1}\n'
    for bad in ('{"epoch": "x"}', "[" * 100_000, "[1]", '{"epoch": 1e400}', "\udcff", "{}"):
        (tmp_path / "metrics.jsonl").write_text(f"{good}{bad}\n", errors="surrogateescape")
        rewind_metrics(tmp_path, 5)
        assert (tmp_path / "metrics.jsonl").read_text() == good


def test_a_damaged_score_does_not_keep_later_ones_away(trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    path = run / "checkpoints" / "best-000004" / "score.json"
    good = best_score(run)
    assert good == json.loads(path.read_text())["return"] and abs(good) < 10
    path.write_text('{"epoch": 4, "env_steps": 80, "return": 1e308}')
    assert best_score(run) == good, "its hash is wrong"
    (path.parent / "sha256.json").unlink()
    assert best_score(run) == good, "the metrics know better"
    (run / "metrics.jsonl").unlink()
    assert best_score(run) is None, "no return is so large"
