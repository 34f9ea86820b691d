"""Rewards that are not finite: refused where they enter, and a way out where they are stored."""

import json
import shutil

import numpy as np
import pytest
from coded_world import create, fill, frame_at

from horizon_imagination.cli import main
from horizon_imagination.data import Store, info, validate
from horizon_imagination.errors import UsageError


def poison(folder, rows, value=np.nan):
    reward = np.fromfile(folder / "reward.f32", "<f4")
    reward[rows] = value
    reward.tofile(folder / "reward.f32")


@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, 1e39])
def test_a_reward_that_is_not_finite_is_refused_and_changes_nothing(tmp_path, reward):
    store = create(tmp_path / "x")
    store.begin(frame_at(0, 0))
    with pytest.raises(UsageError, match="takes finite numbers only"):
        store.add(0, reward, False, False, frame_at(0, 1))
    store.add(0, 1.0, False, False, frame_at(0, 1))
    assert store.num_steps == 1


@pytest.mark.parametrize("sealed", [False, True])
def test_a_repair_sets_bad_rewards_to_zero_and_says_where(tmp_path, sealed, capsys):
    store = fill(create(tmp_path / "x"))
    before = store.reward.copy()
    if sealed:
        store.seal()
    store.close()
    poison(tmp_path / "x", [1, 2, 9])
    assert main(["data", "validate", str(tmp_path / "x")]) == 1
    assert main(["data", "repair", str(tmp_path / "x")]) == 0
    assert "3 rewards that were not finite are now 0" in capsys.readouterr().out
    assert validate(tmp_path / "x") == [] and info(tmp_path / "x")["sealed"] == sealed
    store = Store.open(tmp_path / "x")
    before[[1, 2, 9]] = 0
    assert np.array_equal(store.reward, before)
    assert [x.info.get("repaired_rewards") for x in store.episodes[:3]] == [2, 1, None]


def test_a_repair_of_good_data_changes_no_byte(tmp_path):
    store = fill(create(tmp_path / "x"))
    store.seal()
    store.close()
    before = {path.name: path.read_bytes() for path in (tmp_path / "x").iterdir()}
    assert main(["data", "repair", str(tmp_path / "x")]) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "x").iterdir()} == before


def test_a_run_with_a_poisoned_replay_goes_on_after_a_repair(tmp_path, capsys):
    run, line = tmp_path / "run", ["train", "--preset", "debug", "--out", str(tmp_path / "run")]
    learn = ["--world-model.learner.first-epoch", "0", "--training.snapshot-every", "1"]
    assert main([*line, *learn, "--training.epochs", "2"]) == 0
    poison(run / "replay", slice(0, 100, 3))
    broken = shutil.copytree(run, tmp_path / "broken")
    on = ["--training.epochs", "3"]
    assert main(["train", "--out", str(broken), *on]) == 2
    assert f"horizon data repair {broken}" in capsys.readouterr().err
    assert main(["data", "repair", str(run)]) == 0
    assert main(["train", "--out", str(run), *on]) == 0
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 3

    def refuse(word):
        raise AssertionError(word)

    assert [json.loads(x, parse_constant=refuse)["epoch"] for x in lines] == [0, 1, 2]
