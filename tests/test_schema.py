"""The one reader of JSON files: what fits is built, what does not is one line."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from horizon_imagination.errors import UsageError
from horizon_imagination.schema import DEEPEST, checked, parse, read_bytes, read_json, read_lines


@dataclass(frozen=True)
class Inner:
    width: float
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    count: int
    inner: Inner
    names: tuple[str, ...] = ()
    pair: tuple[int, int] | None = None
    by_name: Mapping[str, float] = field(default_factory=dict)
    anything: Any = None
    return_: float = field(default=0.0, metadata={"key": "return"})


GOOD = '{"count": 3, "inner": {"width": 2}, "names": ["x"], "pair": [1, 2], "return": 1.5}'


def test_what_fits_is_built_with_the_defaults_of_what_is_missing(tmp_path):
    (tmp_path / "x.json").write_text(GOOD)
    found = read_json(tmp_path / "x.json", Outer)
    assert found == Outer(3, Inner(2.0), ("x",), (1, 2), return_=1.5)
    assert isinstance(found.inner.width, float)


DAMAGED = {
    "": "is damaged, no JSON",
    "{": "is damaged, no JSON",
    "\udcff": "is damaged, no JSON: 'utf-8' codec",
    "[" * 100_000: "nested too deep",
    '{"count": ' + "9" * 5000 + "}": "no JSON: Exceeds the limit",
    "null": "x.json must be an object of named fields, got None",
    "[]": "x.json must be an object of named fields, got a list of 0 entries",
    '{"inner": {"width": 1}}': "x.json: count is missing",
    '{"count": 1}': "x.json: inner is missing",
    '{"count": 1, "inner": {}}': "x.json: inner.width is missing",
    '{"count": "1", "inner": {"width": 1}}': "x.json: count must be a whole number, got '1'",
    '{"count": true, "inner": {"width": 1}}': "count must be a whole number, got True",
    '{"count": 1.5, "inner": {"width": 1}}': "count must be a whole number, got 1.5",
    '{"count": 1' + "0" * 23 + ', "inner": {"width": 1}}': "count must be a whole number below",
    '{"count": 1, "inner": {"width": NaN}}': "inner.width must be a finite number, got nan",
    '{"count": 1, "inner": {"width": 1e400}}': "inner.width must be a finite number, got inf",
    '{"count": 1, "inner": {"width": [1]}}': "inner.width must be a number, got a list of 1",
    '{"count": 1, "inner": {"width": 1, "kind": "c"}}': "inner.kind must be one of",
    '{"count": 1, "inner": {"width": 1, "kind": {}}}': "inner.kind must be one of",
    '{"count": 1, "inner": {"width": 1, "odd": 2}}': "inner: unknown odd; made by another",
    '{"count": 1, "inner": {"width": 1}, "names": "xy"}': "names must be a list, got 'xy'",
    '{"count": 1, "inner": {"width": 1}, "names": [3]}': "names[0] must be a text, got 3",
    '{"count": 1, "inner": {"width": 1}, "names": ["\\udc80"]}': "must be a text in UTF-8",
    '{"count": 1, "inner": {"width": 1}, "names": ["\\u0000"]}': "must be a text in UTF-8",
    '{"count": 1, "inner": {"width": 1}, "pair": [1]}': "pair must be a list of 2 entries",
    '{"count": 1, "inner": {"width": 1}, "by_name": {"a": "b"}}': "by_name.a must be a number",
    '{"count": 1, "inner": {"width": 1}, "by_name": [1]}': "by_name must be an object",
}


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_what_does_not_fit_is_one_line_with_file_field_and_expectation(tmp_path, content):
    (tmp_path / "x.json").write_text(content, errors="surrogateescape")
    with pytest.raises(UsageError) as said:
        read_json(tmp_path / "x.json", Outer)
    message = str(said.value)
    assert str(tmp_path / "x.json") in message and DAMAGED[content] in message
    assert "\n" not in message and len(message) < 300 + len(str(tmp_path))


def test_a_value_of_any_type_may_be_nested_only_so_deep():
    deep = parse("[" * DEEPEST + "]" * DEEPEST, "x")
    assert checked(deep, Any, "x") == deep
    with pytest.raises(UsageError, match="x is nested too deep; expected at most 64 levels"):
        checked([deep], Any, "x")


def test_fields_that_a_reader_does_not_know_may_be_dropped(tmp_path):
    (tmp_path / "x.json").write_text('{"width": 1, "odd": [[]]}')
    assert read_json(tmp_path / "x.json", Inner, extra=True) == Inner(1.0)


def test_half_lines_are_skipped_and_lines_that_do_not_fit_are_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"width": 1}\n{"wid\n\xff\n{"width": 2}\n{"wi')
    assert read_lines(path, Inner) == [Inner(1.0), Inner(2.0)]
    path.write_text('{"width": 1}\n{"width": "x"}\n')
    with pytest.raises(UsageError, match=r"x.jsonl, line 2: width must be a number"):
        read_lines(path, Inner)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "x.json"
    with open(path, "wb") as file:
        file.truncate(2**40)  # sparse
    for read in (lambda: read_json(path, Inner), lambda: read_lines(path, Inner)):
        with pytest.raises(UsageError, match="expected at most 67108864"):
            read()


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "zero", "folder"):
        with pytest.raises(UsageError, match=f"{name} is no regular file"):
            read_bytes(tmp_path / name)
    for name in ("missing", "x" * 300, "a\0b"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_bytes(tmp_path / name)
