import importlib
import json
import re

import numpy as np
import pytest
from coded_world import LENGTHS, create, fill

from horizon_imagination.data import info, validate


@pytest.fixture
def folder(tmp_path):
    store = fill(create(tmp_path / "x"))
    store.close()
    return tmp_path / "x"


@pytest.fixture
def sealed(tmp_path):
    store = fill(create(tmp_path / "s"))
    store.seal()
    store.close()
    return tmp_path / "s"


def poke(path, dtype, row, value):
    data = np.fromfile(path, dtype)
    data[row] = value
    data.tofile(path)


def test_good_datasets_have_no_problem(folder, sealed):
    assert validate(folder) == [] and validate(sealed) == []


@pytest.mark.parametrize(
    ("name", "dtype", "row", "value", "expected"),
    [
        ("action.i32", "<i4", 10, 5, r"episode 1: actions outside 0 to 4 \(step 2\)"),
        ("action.i32", "<i4", 0, -1, r"episode 0: actions outside 0 to 4 \(step 0\)"),
        ("action.i32", "<i4", 7, 2, r"episode 0: an action, .* on the last frame \(step 7\)"),
        ("reward.f32", "<f4", 9, np.nan, r"episode 1: rewards that are not finite \(step 1\)"),
        ("reward.f32", "<f4", 7, 1.0, r"episode 0: an action, reward"),
        ("terminated.u8", "u1", 2, 1, r"episode 0: terminated flags before the last step"),
        ("terminated.u8", "u1", 6, 3, r"episode 0: terminated flags that are neither 0 nor 1"),
        ("marks.u8", "u1", 0, 0, r"row 0 does not begin an episode"),
        ("marks.u8", "u1", 7, 0, r"at odds around row 8"),
        ("marks.u8", "u1", 5, 1, r"at odds around row 5"),
        ("marks.u8", "u1", 5, 64, r"row 5 has the unknown mark 64"),
    ],
)
def test_each_kind_of_damage_is_named(folder, name, dtype, row, value, expected):
    poke(folder / name, dtype, row, value)
    problems = validate(folder)
    assert len(problems) == 1
    assert re.search(expected, problems[0])


def rehash(folder, **changes):
    """Replace entries of the hash list; None takes one out."""
    path = folder / "dataset.json"
    content = json.loads(path.read_text())
    listed = content["sha256"] | changes
    content["sha256"] = {name: value for name, value in listed.items() if value is not None}
    path.write_text(json.dumps(content))


def test_a_hash_list_that_leaves_a_file_out_is_not_believed(sealed):
    rehash(sealed, **{"reward.f32": None})
    assert validate(sealed) == ["reward.f32: dataset.json has hashes, and none of this file"]


@pytest.mark.parametrize("name", ["../../secret", "other.u8", "/etc/hostname"])
def test_a_hash_list_that_names_other_files_is_told_and_they_are_not_opened(
    sealed, name, monkeypatch
):
    (sealed / "other.u8").write_bytes(b"x")
    opened = []
    module = importlib.import_module("horizon_imagination.data.validate")
    monkeypatch.setattr(module, "file_hash", lambda path: opened.append(path.name))
    rehash(sealed, **{name: "0"})
    assert f"sha256 in dataset.json lists {name!r}" in validate(sealed)
    assert len(opened) == 5 and name not in opened


def test_an_altered_frame_breaks_the_hash_of_a_sealed_dataset(sealed):
    poke(sealed / "frames.u8", "u1", 100, 200)
    assert validate(sealed) == ["frames.u8: its content does not match the sha256 in dataset.json"]


def test_a_truncated_file_names_the_first_episode_it_spoils(folder, sealed):
    for place in (folder, sealed):
        path = place / "frames.u8"
        path.write_bytes(path.read_bytes()[: 48 * 15 + 7])
        problem = validate(place)[0]
        assert problem.startswith("frames.u8: truncated, 727 bytes instead of 3216 (52 of 67 rows")
        assert "from episode 1 on" in problem


def test_missing_and_lengthened_files_are_named(sealed):
    (sealed / "reward.f32").unlink()
    with open(sealed / "action.i32", "ab") as file:
        file.write(b"1234")
    problems = validate(sealed)
    assert "reward.f32: missing" in problems
    assert "action.i32: 272 bytes instead of 268 in a sealed dataset" in problems


def test_a_description_that_disagrees_with_the_rows_is_named(folder):
    path = folder / "dataset.json"
    content = json.loads(path.read_text())
    content["episodes"][1]["length"] = 12
    path.write_text(json.dumps(content))
    assert validate(folder) == [
        "episode 1: dataset.json says start 8, length 12; the marks say start 8, length 13"
    ]
    content["episodes"] = content["episodes"][:1]
    path.write_text(json.dumps(content))
    assert validate(folder) == ["dataset.json lists 1 episodes, the marks have 6"]
    path.unlink()
    assert "no dataset" in validate(folder)[0]


def test_info_counts_what_is_there(folder, sealed):
    figures = info(folder)
    assert figures["steps"] == sum(LENGTHS) == sum(figures["action_counts"])
    assert figures["episodes"] == 6 and figures["frames"] == 67
    assert figures["ended"] == {"terminated": 3, "truncated": 2, "open": 1}
    assert figures["env_id"] == "coded" and figures["frame_shape"] == [3, 4, 4]
    assert not figures["sealed"] and info(sealed)["sealed"]
    assert figures["return_min"] == pytest.approx(sum(t / 64 for t in range(7)))


def test_info_of_an_empty_dataset_has_no_returns(tmp_path):
    create(tmp_path / "e").close()
    assert info(tmp_path / "e")["return_mean"] is None and validate(tmp_path / "e") == []


@pytest.mark.parametrize("action", [-1, 2**31 - 1])
def test_info_refuses_actions_out_of_range_instead_of_counting_them(folder, action):
    """Counting them took 16 GiB, or failed."""
    poke(folder / "action.i32", "<i4", 0, action)
    with pytest.raises(ValueError, match="see horizon data validate"):
        info(folder)
