"""`horizon data`: look at, check and import datasets."""

import json
import re

import pytest
from coded_world import create, fill
from test_importers import filmed, save

from horizon_imagination.cli import DATA, command_of
from horizon_imagination.data import Store
from horizon_imagination.errors import UsageError


def main(argv):
    return command_of(argv, DATA, "horizon data")() or 0


def test_info_prints_a_table_or_json(tmp_path, capsys):
    fill(create(tmp_path / "x")).close()
    assert main(["info", str(tmp_path / "x")]) == 0
    table = capsys.readouterr().out
    assert "3 terminated, 2 truncated, 1 open" in table and "steps" in table
    assert re.search(r"^size +\d+\.\d kB$", table, re.MULTILINE) and "bytes" not in table
    assert main(["info", str(tmp_path / "x"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 61


def test_validate_says_good_or_lists_problems(tmp_path, capsys):
    fill(create(tmp_path / "x")).close()
    assert main(["validate", str(tmp_path / "x")]) == 0
    assert "good, 6 episodes, 61 steps" in capsys.readouterr().out
    (tmp_path / "x" / "reward.f32").unlink()
    assert main(["validate", str(tmp_path / "x")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "reward.f32: missing",
        f"{tmp_path / 'x'}: 1 problem",
    ]


def test_import_finds_out_what_the_folder_holds(tmp_path, capsys):
    arrays, videos = save(tmp_path / "arrays"), filmed(tmp_path / "videos")
    assert main(["import", str(arrays), str(tmp_path / "a"), "--env-id", "coded"]) == 0
    assert main(["import", str(videos), str(tmp_path / "v"), "--size", "8"]) == 0
    assert "1 episodes, 3 steps imported" in capsys.readouterr().out
    assert Store.open(tmp_path / "a").env_id == "coded"
    assert Store.open(tmp_path / "v").frame_shape == (3, 8, 8)
    filmed(arrays)
    with pytest.raises(UsageError, match=r"\.npz files and videos"):
        main(["import", str(arrays), str(tmp_path / "b")])
    with pytest.raises(UsageError, match=r"neither \.npz files nor videos"):
        main(["import", str(tmp_path), str(tmp_path / "b")])
    with pytest.raises(UsageError, match="size must be at least 1"):
        main(["import", str(videos), str(tmp_path / "b"), "--size", "0"])


def test_bad_words_and_folders_are_one_clear_error(tmp_path):
    for argv in (["look"], ["info", str(tmp_path)], ["validate", str(tmp_path / "no")], ["info"]):
        with pytest.raises(UsageError):
            main(argv)


def test_help_is_help(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert "usage: horizon data COMMAND" in said and all(f"  {name} " in said for name in DATA)
