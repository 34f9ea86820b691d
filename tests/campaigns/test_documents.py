"""Documents made from the schemas: all that fit load, one changed field is one line or none."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from documents import SCHEMAS, changed, documents, without_defaults

from horizon_imagination.cli import main
from horizon_imagination.config import Config
from horizon_imagination.config_json import from_json, to_json
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.folder import Launch
from horizon_imagination.schema import checked, parse
from horizon_imagination.snapshots import AgentDescription, Progress

SETTINGS = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
FIELDS = {name: documents(kind) for name, kind in SCHEMAS.items()}


def loads(document, kind):
    """As from a file: through its text."""
    return checked(parse(json.dumps(document), "x.json"), kind, "x.json: ")


def loads_or_says_why(document, kind):
    """Load a document, or be refused in one line that names the file."""
    try:
        loads(document, kind)
    except UsageError as error:
        said = str(error)
        assert said.startswith("x.json") and len(said) < 400 and said.isprintable(), said


@pytest.mark.parametrize("name", SCHEMAS)
@given(data=st.data())
@SETTINGS
def test_what_fits_loads_and_one_changed_field_loads_or_is_refused_in_one_line(name, data):
    document, kind = data.draw(FIELDS[name]), SCHEMAS[name]
    assert isinstance(loads(document, kind), kind)
    for _ in range(3):
        loads_or_says_why(data.draw(changed(document)), kind)


@pytest.mark.parametrize("name", ["\x1b[2J", "\r", "a\nb", "\u202e", "x" * 999])
def test_a_file_cannot_speak_to_the_terminal(name, tmp_path, capsys):
    """A field's name is in the message, and no escape sequence of it."""
    loads_or_says_why({"preset": "debug", name: 1}, Launch)
    loads_or_says_why({"epoch": 1, "learner_steps": {name: "x"}}, Progress)
    (tmp_path / "run.json").write_text(json.dumps({name: 1}))
    (tmp_path / "config.json").write_text(json.dumps({name: 1}))
    assert main(["evaluate", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.endswith("\n") and said[:-1].isprintable(), said


@given(data=st.data())
@SETTINGS
def test_a_config_without_its_defaults_is_the_same_config(data):
    config = PRESETS[data.draw(st.sampled_from(sorted(PRESETS)))][1]
    document = without_defaults(data.draw, config)
    assert from_json(parse(json.dumps(document), "x")) == config


@given(data=st.data())
@SETTINGS
def test_one_changed_field_of_a_config_loads_or_is_refused_in_one_line(data):
    config = to_json(PRESETS[data.draw(st.sampled_from(sorted(PRESETS)))][1])
    if data.draw(st.booleans()):
        return loads_or_says_why(data.draw(changed(config)), Config)
    described = {"config": config, "num_actions": 3}
    loads_or_says_why(data.draw(changed(described)), AgentDescription)
