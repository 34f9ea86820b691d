"""A dataset knows the whole environment it was played in, and who played."""

import json

import numpy as np
import pytest
from coded_world import create, fill
from test_importers import save

from horizon_imagination.cli import main
from horizon_imagination.config import EnvConfig, UntrustedId
from horizon_imagination.config_json import to_json
from horizon_imagination.data import Store, info
from horizon_imagination.data.layout import read_description
from horizon_imagination.run.folder import read_config

PHASES = [
    *("--offline.tokenizer-epochs", "1", "--offline.tokenizer-steps", "2"),
    *("--offline.world-model-epochs", "1", "--offline.world-model-steps", "2"),
    *("--offline.controller-epochs", "1", "--offline.controller-steps", "1"),
    *("--training.evaluate-every", "1", "--training.evaluation-episodes", "2"),
]
ENV = EnvConfig(id="catch", size=32, time_limit=4, frame_skip=2)


@pytest.fixture
def recorded(tmp_path):
    folder = tmp_path / "data"
    settings = "--env catch --env.size 32 --env.time-limit 4 --env.frame-skip 2"
    assert main(f"record {settings} --episodes 8 --out {folder}".split()) == 0
    return folder


def test_a_recording_holds_the_whole_environment_and_who_played(recorded, capsys):
    about = json.loads((recorded / "dataset.json").read_text())
    assert about["env"] == json.loads(json.dumps(to_json(ENV)))
    assert about["played_by"] == {"policy": "random"}
    assert main(["data", "info", str(recorded)]) == 0
    said = capsys.readouterr().out
    assert "size 32, frame_skip 2, time_limit 4" in said and "policy random" in said
    assert info(recorded)["env"]["time_limit"] == 4


def test_offline_training_and_evaluation_need_no_flags(recorded, tmp_path, capsys):
    run = tmp_path / "run"
    line = ["train", "--preset", "debug", "--offline", str(recorded), "--out", str(run), *PHASES]
    assert main(line) == 0
    config = read_config(run)
    assert (config.env.id, config.env.time_limit, config.env.frame_skip) == ("catch", 4, 2)
    assert main(line) == 0  # the same command is the same run
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    assert "at most 4 steps" in capsys.readouterr().out


def test_flags_go_before_what_the_dataset_says(recorded, tmp_path):
    words = ["--env.time-limit", "3", "--env", "small-catch"]
    line = ["train", "--preset", "debug", "--offline", str(recorded), *PHASES, *words]
    assert main([*line, "--out", str(tmp_path / "run")]) == 0
    env = read_config(tmp_path / "run").env
    assert (env.id, env.time_limit, env.frame_skip) == ("small-catch", 3, 2)


def test_an_agent_that_records_is_named(tmp_path):
    run, data = tmp_path / "run", tmp_path / "data"
    assert main(["train", "--preset", "debug", "--training.epochs", "1", "--out", str(run)]) == 0
    assert main(["record", "--agent", str(run), "--episodes", "2", "--out", str(data)]) == 0
    about = Store.open(data).played_by
    assert about["policy"] == "sampled" and about["run"] == "run"
    assert about["snapshot"] == "epoch-000001" and about["epoch"] == 1
    assert Store.open(run / "replay").played_by == {"policy": "training", "run": "run"}
    assert Store.open(run / "replay").env["id"] == "catch"


def test_imported_data_without_a_world_says_which_flag_names_one(tmp_path, capsys):
    frames = np.zeros((6, 32, 32, 3), np.uint8)
    save(tmp_path / "in", frames=frames)
    assert main(["data", "import", str(tmp_path / "in"), str(tmp_path / "data")]) == 0
    run = tmp_path / "run"
    line = ["train", "--preset", "debug", "--offline", str(tmp_path / "data"), *PHASES]
    assert main([*line, "--out", str(run)]) == 0
    assert "name it with --env ID" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--episodes", "1"]) == 2
    assert "name it with --env ID" in capsys.readouterr().err


def test_a_dataset_that_knows_an_id_alone_changes_nothing_else(tmp_path):
    store = fill(create(tmp_path / "x"))
    store.close()
    assert not {"env", "played_by"} & json.loads((tmp_path / "x/dataset.json").read_text()).keys()
    env = read_description(tmp_path / "x").env_config(EnvConfig(id="fog", time_limit=5))
    assert (env.id, env.time_limit) == ("coded", 5) and isinstance(env.id, UntrustedId)


def test_a_stack_in_a_dataset_is_trained_on_as_a_stack(tmp_path):
    rng = np.random.default_rng(0)
    store = Store.create(tmp_path / "x", (4, 32, 32), 2, "mine")
    for _ in range(6):
        store.begin(rng.integers(0, 256, (4, 32, 32), dtype=np.uint8))
        for step in range(8):
            frame = rng.integers(0, 256, (4, 32, 32), dtype=np.uint8)
            store.add(step % 2, 0.0, False, step == 7, frame)
    store.seal()
    store.close()
    line = ["train", "--preset", "debug", "--offline", str(tmp_path / "x"), *PHASES]
    assert main([*line, "--out", str(tmp_path / "run")]) == 0
    env = read_config(tmp_path / "run").env
    assert (env.channels, env.stack_channels) == ("stack", 4)
