"""Guided fuzzing finds its way: new lines make parents, and words come from the source."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

from guided import Lines, Parents, keep_parent, worded, words_of

from horizon_imagination.play.messages import MESSAGES, Malformed, parse

SEED = b'{"type": "step"}'


def reached(lines, content):
    with lines.watching(), suppress(Malformed):
        parse(content.decode("utf-8", "replace"))
    return lines.now


def test_only_an_input_that_reaches_a_new_line_becomes_a_parent(tmp_path):
    lines, parents = Lines(), Parents(SEED, "json", [])
    assert parents.note("guided", SEED, reached(lines, SEED))
    assert {name for name, _ in lines.now} == {"play/messages.py"}
    again, other = b'{"type": "curves"}', b'{"type": "run", "on": true}'
    assert not parents.note("guided", again, reached(lines, again)) and again not in parents.kept
    assert parents.note("guided", other, reached(lines, other)) and parents.kept[-1] == other
    assert parents.lines["plain"] == set()  # the halves are counted apart
    keep_parent(tmp_path, "message", other)
    assert [x.read_bytes() for x in tmp_path.glob("message/*")] == [other]


def test_descendants_learn_words_of_the_program():
    assert {*MESSAGES, "place", "budget"} <= words_of({"play/messages.py"})
    lines, parents, dice = Lines(), Parents(SEED, "json", []), Random(0)
    for _ in range(2000):
        content = parents.child(dice)
        parents.note("guided", content, reached(lines, content))
    kinds = set()
    for content in parents.kept:
        with suppress(ValueError, AttributeError):
            kinds.add(json.loads(content).get("type"))
    assert len(kinds & {*MESSAGES}) >= 3 and len(parents.kept) >= 8


def test_a_word_takes_the_place_of_one_token():
    found = {worded(b'{"a": 1}', Random(seed), ["new"]) for seed in range(50)}
    assert b'{"new": 1}' in found and b'{"a": "new"}' in found and len(found) <= 4
