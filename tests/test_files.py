import json
import os

import pytest

from horizon_imagination.files import (
    append_jsonl,
    is_temporary,
    replacing,
    write_bytes,
    write_json,
    write_jsonl,
    write_text,
)
from horizon_imagination.schema import read_lines


def test_the_old_file_stands_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_an_error_before_the_first_byte_is_the_error_that_is_raised(tmp_path):
    with pytest.raises(ValueError, match="mine"), replacing(tmp_path / "a.txt"):
        raise ValueError("mine")
    assert not list(tmp_path.iterdir())


def test_a_file_has_its_content_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    order = []
    sync, move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (order.append("sync"), sync(file)))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("name"), move(a, b)))
    write_text(tmp_path / "a.txt", "x")
    assert order == ["sync", "name", "sync"]


def test_missing_folders_are_made_and_the_suffix_is_kept(tmp_path):
    with replacing(tmp_path / "deep" / "er" / "film.mp4") as temporary:
        assert temporary.suffix == ".mp4" and temporary.parent == tmp_path / "deep" / "er"
        assert is_temporary(temporary)
        temporary.touch()
    assert not is_temporary(tmp_path / "film.mp4") and not is_temporary(tmp_path / ".lock")


def test_what_is_written_is_read(tmp_path):
    write_text(tmp_path / "t", "größe\n")
    write_bytes(tmp_path / "b", b"\0\1")
    write_json(tmp_path / "j", {"a": [1, None]})
    assert (tmp_path / "t").read_bytes() == "größe\n".encode()
    assert (tmp_path / "b").read_bytes() == b"\0\1"
    assert json.loads((tmp_path / "j").read_text()) == {"a": [1, None]}


def test_lines_are_added_after_the_half_line_of_a_killed_program(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_jsonl(path, {"a": 0})
    assert path.read_text() == '{"a": 0}\n'
    path.write_text(path.read_text() + '{"a": 1')
    append_jsonl(path, {"a": 2})
    append_jsonl(path, {"a": 3})
    assert read_lines(path, dict) == [{"a": 0}, {"a": 2}, {"a": 3}]
    write_jsonl(path, [{"b": 1}, {"b": 2}])
    assert path.read_text() == '{"b": 1}\n{"b": 2}\n'


def test_a_line_and_a_name_are_on_the_disk_before_work_goes_on(tmp_path, monkeypatch):
    """What a loss of power may take is what was not synced: contents, and names in folders."""
    synced = []

    def fsync(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", fsync)
    lines = tmp_path / "metrics.jsonl"
    append_jsonl(lines, {"epoch": 0})
    assert synced == [str(lines), str(tmp_path)]
    append_jsonl(lines, {"epoch": 1})
    assert synced[2:] == [str(lines)]
    write_text(tmp_path / "config.json", "{}")
    assert synced[3].endswith(".tmp.json") and synced[4:] == [str(tmp_path)]
