"""The agents that come with the package stand wherever an agent's file does."""

import json
import re
from pathlib import Path

import pytest

from horizon_imagination.data import Store
from horizon_imagination.play.library import FOLDER

RESULTS = Path("runs/catch-results")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, where a dataset is."""
    monkeypatch.chdir(tmp_path)
    before = sorted(FOLDER.rglob("*"))
    yield tmp_path
    assert sorted(FOLDER.rglob("*")) == before, "nothing is written into the package"


def test_a_bundled_agent_is_evaluated_and_its_results_are_kept_apart(here, command):
    status, out, err = command("evaluate catch --episodes 3")
    assert status == 0, err
    assert out.startswith("agent: catch\n") and "3 episodes of catch, seed 0, 3 conc" in out
    (path,) = (here / RESULTS / "evaluations").iterdir()
    assert json.loads(path.read_text())["snapshot"] == "catch"


def test_a_bundled_agent_records_and_draws_strips_of_what_it_recorded(here, command):
    status, out, err = command("record --agent catch --episodes 3 --out data")
    assert status == 0, err
    assert re.search(r"mean return -?[\d.]{1,6}$", out), "written as everywhere"
    assert len(Store.open(here / "data").starts) == 3
    status, _, err = command("strip catch")
    assert status == 2 and "name a dataset with --data" in err and err.count("\n") == 1
    status, _, err = command("strip catch --data data --examples 1")
    assert status == 0, err
    assert (here / RESULTS / "videos" / "strips.png").is_file()


def test_a_bundled_agent_is_studied(here, command):
    status, _, err = command("study dreams catch --contexts 2 --steps 20")
    assert status == 0, err
    assert (here / RESULTS / "studies/dreams/dreams.json").is_file()


def test_a_folder_of_ones_own_comes_before_a_bundled_agent(here, command):
    (here / "catch").mkdir()
    status, _, err = command("evaluate catch --episodes 1")
    assert status == 2 and "catch holds no snapshot yet" in err


def test_a_bundled_agent_is_played_by_name(here, command, monkeypatch):
    served = []
    monkeypatch.setattr("horizon_imagination.play.server.serve", lambda app, at: served.append(app))
    status, out, err = command("play fog --port 0")
    assert status == 0, err
    (hub,) = (app.state.hub for app in served)
    assert list(hub.worker.players) == ["fog"] and "left out" not in out


def test_an_evaluation_says_which_snapshot_plays(here, trained, command):
    _, out, _ = command(f"evaluate {trained} --episodes 2 --out {here / 'found.json'}")
    first, second = out.splitlines()[:2]
    assert first.startswith(("agent: best-", "agent: epoch-")) and ", epoch " in first
    assert second.endswith("2 concurrently"), "no more than there are"
