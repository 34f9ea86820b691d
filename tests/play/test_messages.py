"""What a browser may say: everything else is refused with a reason."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_imagination.play import messages as m

PLACE = {"source": 0, "episode": 3, "frame": 2}
GOOD = {
    "act": {"action": 2},
    "hold": {"action": None},
    "step": {},
    "run": {"on": True},
    "reset": {"place": PLACE},
    "choose": {"world": "both", "speed": 12.5},
    "record": {"on": False},
    "control": {"want": True},
    "imagine": {
        "kind": "horizon",
        "budget": 8,
        "decay_horizon": 2,
        "samplers": ["stable", "naive"],
        "seed": 5,
        "place": None,
    },
    "load": {"agent": "fog", "snapshot": "best"},
    "sources": {},
    "episodes": {"source": 0, "offset": 50},
    "look": {"place": PLACE},
    "curves": {},
}


@pytest.mark.parametrize("kind", m.MESSAGES)
def test_every_message_of_the_page_is_understood(kind):
    message = m.parse(json.dumps({"type": kind, **GOOD[kind]}))
    assert type(message) is m.MESSAGES[kind][0]


def test_fields_arrive_as_they_were_sent():
    message = m.parse(json.dumps({"type": "imagine", **GOOD["imagine"], "place": PLACE}))
    wanted = m.Imagine("horizon", 8, 2.0, ("stable", "naive"), 5, m.Place(0, 3, 2))
    assert message == wanted
    assert m.parse('{"type": "choose", "steps": 4}') == m.Choose(steps=4)


BAD = [
    ("", "not JSON"),
    ("{", "not JSON"),
    ("[" * 4000, "not JSON"),
    ("[]", "object"),
    ('"act"', "object"),
    ("{}", "unknown type"),
    ('{"type": 3}', "unknown type"),
    ('{"type": ["act"]}', "unknown type"),
    ('{"type": "open", "path": "/etc/passwd"}', "unknown type"),
    ('{"type": "act"}', "action"),
    ('{"type": "act", "action": true}', "whole number"),
    ('{"type": "act", "action": 1.5}', "whole number"),
    ('{"type": "act", "action": -1}', "whole number"),
    ('{"type": "act", "action": 1, "path": "x"}', "unknown field"),
    ('{"type": "run", "on": 1}', "true or false"),
    ('{"type": "choose", "speed": NaN}', "not JSON"),
    ('{"type": "choose", "speed": 1e9}', "number in"),
    ('{"type": "choose", "speed": 1e999}', "number in"),
    ('{"type": "choose", "world": "moon"}', "one of"),
    ('{"type": "choose", "world": ["model"]}', "one of"),
    ('{"type": "reset", "place": "../../secret"}', "recorded frame"),
    ('{"type": "look", "place": {"source": "/etc", "episode": 0, "frame": 0}}', "whole number"),
    ('{"type": "load", "agent": "' + "x" * 65 + '", "snapshot": "best"}', "64 letters"),
]


@pytest.mark.parametrize(("text", "reason"), BAD)
def test_a_malformed_message_is_refused_with_a_reason(text, reason):
    with pytest.raises(m.Malformed, match=reason):
        m.parse(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["both", "../x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.fixed_dictionaries({"source": inner}),
    max_leaves=4,
)
FIELDS = sorted({name for _, checks in m.MESSAGES.values() for name in checks})
CONTENT = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)


@given(st.sampled_from(sorted(m.MESSAGES)), CONTENT)
def test_whatever_is_sent_is_understood_or_malformed(kind, content):
    try:
        m.parse(json.dumps({"type": kind, **content}))
    except m.Malformed as reason:
        assert 0 < len(str(reason).encode()) < 200


def test_no_message_has_a_field_for_a_path():
    assert not {"path", "file", "folder", "out", "name"} & set(FIELDS)


def test_pictures_travel_behind_their_head():
    packed = m.packed({"type": "frame", "step": 3}, [b"abc", b"", b"de"])
    length = int.from_bytes(packed[:4], "little")
    assert json.loads(packed[4 : 4 + length]) == {"type": "frame", "step": 3, "blobs": [3, 0, 2]}
    assert packed[4 + length :] == b"abcde"


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_sent_without_loss(channels):
    from io import BytesIO

    from PIL import Image

    picture = np.random.default_rng(0).integers(0, 256, (8, 9, channels), dtype=np.uint8)
    again = np.asarray(Image.open(BytesIO(m.png(picture)))).reshape(picture.shape)
    assert (again == picture).all()


def test_a_sheet_holds_rows_below_one_another_and_frames_beside_one_another():
    from io import BytesIO

    from PIL import Image

    pictures = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 5, 3), dtype=np.uint8)
    sheet = np.asarray(Image.open(BytesIO(m.sheet(pictures))).convert("RGB"))
    assert sheet.shape == (8, 15, 3)
    assert (sheet[4:8, 5:10] == pictures[1, 1]).all()
