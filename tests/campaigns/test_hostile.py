"""A hostile world that raises what is no `Exception` ends a command in one line, too."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from horizon_imagination.cli import main


@pytest.mark.parametrize("where", ["make", "reset", "step", "close"])
def test_a_world_that_leaves_as_a_generator_does_is_one_line(where, tmp_path, capsys):
    options = json.dumps({"how": "generator_exit", "at": 1, "where": where})
    words = ["record", "--env", "hostile_world:Hostile", "--env.options", options]
    status = main([*words, "--env.size", "16", "--episodes", "1", "--out", str(tmp_path / "data")])
    said = capsys.readouterr().err
    assert status in (1, 2) and "GeneratorExit" in said.splitlines()[-1], said
    assert said.splitlines()[-1].startswith("horizon: ") and "Traceback (most" not in said
