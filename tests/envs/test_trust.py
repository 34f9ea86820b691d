"""No folder runs code: what a file names is not imported unless somebody says so."""

import json
import shutil
import sys
from dataclasses import replace

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.cli import main
from horizon_imagination.config import Config, EnvConfig
from horizon_imagination.config_json import from_json, to_json
from horizon_imagination.data import Store
from horizon_imagination.envs import make_env
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import DEBUG

BAIT = "bait_world:run"


@pytest.fixture
def bait(tmp_path, monkeypatch):
    """A module that leaves a mark when it is imported, and another when its function is called."""
    (tmp_path / "bait_world.py").write_text(
        "from pathlib import Path\n"
        "Path(__file__).with_name('imported').touch()\n"
        "def run(**options):\n"
        "    Path(__file__).with_name('called').touch()\n"
        "    from standin_worlds import Shown\n"
        "    return Shown((32, 32, 3))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("bait_world", None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of one epoch."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert main(["train", "--preset", "debug", "--training.epochs", "1", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def poisoned(trained, bait):
    """The same run, with a world that is code in every file that names one."""
    folder = shutil.copytree(trained, bait / "run")
    named = [*folder.rglob("agent.json"), folder / "config.json", folder / "replay/dataset.json"]
    for path in named:
        path.write_text(path.read_text().replace('"catch"', json.dumps(BAIT)))
    for path in folder.rglob("sha256.json"):
        path.unlink()  # whoever poisons a folder can leave out its hashes
    return folder


@pytest.mark.parametrize(
    "line",
    [
        "evaluate {run} --episodes 1",
        "record --agent {run} --episodes 1 --out {run}/data",
        "train --out {run} --training.epochs 2",
        "study controller {run} --epochs 1 --initial 10 --out {run}/study",
        "study dreams {run} --contexts 1 --steps 10 --out {run}/study",
        "export {run} --episodes 1 --out {run}/policy",
        "strip {run} --out {run}/strips",
        "report {run}",
    ],
)
def test_no_command_runs_the_code_that_a_run_names(line, poisoned, bait, capsys):
    main([word.format(run=poisoned) for word in line.split()])
    said = capsys.readouterr().err
    assert not (bait / "imported").exists(), said
    if not line.startswith(("strip", "report")):
        assert f"{BAIT} is code that a file names" in said and said.endswith(
            "add --trust if you trust the folder\n"
        )
        assert said.count("\n") == 1


def test_with_trust_or_typed_the_world_is_used(poisoned, bait):
    wrong = ["--episodes", "1", "--env.time-limit", "3"]
    for words in (["--trust"], ["--env", BAIT]):
        # It has two actions where the agent knows three: built, looked at and refused.
        assert main(["evaluate", str(poisoned), *wrong, *words]) == 2
        assert (bait / "called").exists()
        (bait / "called").unlink()


def test_a_dataset_never_decides_what_is_imported(bait, tmp_path, capsys):
    line = f"record --env catch --env.size 32 --episodes 8 --out {tmp_path / 'data'}"
    assert main(line.split()) == 0
    path = tmp_path / "data" / "dataset.json"
    path.write_text(path.read_text().replace('"catch"', json.dumps(BAIT)))
    phases = ["tokenizer", "world-model", "controller"]
    short = [x for p in phases for x in (f"--offline.{p}-epochs", "1", f"--offline.{p}-steps", "1")]
    for number, trust in enumerate([[], ["--trust"]]):
        out = str(tmp_path / f"run{number}")
        words = ["--preset", "debug", "--offline", str(tmp_path / "data"), "--out", out, *short]
        assert main(["train", *words, *trust]) == 0
        said = capsys.readouterr()
        assert not (bait / "imported").exists()
        assert f"name it yourself with --env {BAIT}" in said.out + said.err
        assert "add --trust" not in said.out + said.err, "it would change nothing here"


def test_play_says_why_the_real_world_is_left_out(poisoned, bait, monkeypatch, capsys):
    served = []
    monkeypatch.setattr("horizon_imagination.play.server.serve", lambda app, at: served.append(app))
    assert main(["play", str(poisoned), "--port", "0"]) == 0
    reason = f"the environment {BAIT} is code that a file names"
    opened, said = capsys.readouterr().out.splitlines()
    assert opened.startswith("open http") and said.startswith(
        f"the real world is left out: {reason}"
    )
    assert said.endswith("add --trust if you trust the folder")
    hello = json.loads(served[0].state.hub.latest["hello"])
    assert not hello["real"] and reason in hello["left_out"] and not (bait / "imported").exists()


def test_a_suite_file_needs_trust_for_code(bait, tmp_path, capsys):
    suite = {"worlds": [{"env": BAIT, "preset": "debug"}], "settings": [{"name": "a"}], "seeds": 1}
    (tmp_path / "mine.json").write_text(json.dumps(suite))
    assert main(["sweep", str(tmp_path / "mine.json"), "--dry-run"]) == 2
    assert "--trust" in capsys.readouterr().err and not (bait / "imported").exists()
    assert main(["sweep", str(tmp_path / "mine.json"), "--dry-run", "--trust"]) == 0


def test_options_of_craftium_from_a_file_need_trust():
    cfg = EnvConfig(id="Craftium/Room-v0", options='{"minetest_dir": "/somewhere"}')
    read = from_json(to_json(Config(env=cfg))).env
    with pytest.raises(UsageError, match="may name programs: add --trust"):
        make_env(read, 0)


@pytest.mark.parametrize(
    "name,words",
    [
        ("subprocess:Popen", "is a class that is no gymnasium.Env"),
        ("os:abort", "is a builtin_function_or_method: expected a class"),
        ("sys:exit", "expected a class"),
        ("os:environ", "expected a class of environments"),
    ],
)
@pytest.mark.parametrize("old_api", [False, True])
def test_what_is_no_environment_is_not_called_even_if_it_is_typed(name, words, old_api):
    with pytest.raises(UsageError, match=words):
        make_env(EnvConfig(id=name, old_api=old_api), 0)


def test_an_agent_makes_its_world_and_asks_for_trust_where_that_is_code(tmp_path):
    config = replace(DEBUG, env=replace(DEBUG.env, id="standin_worlds:Painted"))
    agent = Agent(config, 3, torch.device("cpu"))
    assert agent.make_env().reset()[0].shape == (32, 32, 3)  # its id was typed
    agent.save(tmp_path)
    loaded = Agent.load(tmp_path, "cpu")
    with pytest.raises(UsageError, match="code that a file names"):
        loaded.make_env()
    assert loaded.make_env(trust=True).reset()[0].shape == (32, 32, 3)
    assert type(loaded.config.env.trusted().id) is str


def test_the_id_in_a_store_is_untrusted(tmp_path):
    Store.create(tmp_path / "data", (3, 8, 8), 2, BAIT).close()
    with pytest.raises(UsageError, match="code that a file names"):
        make_env(EnvConfig(id=Store.open(tmp_path / "data").env_id), 0)
