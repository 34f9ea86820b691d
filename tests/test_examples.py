"""The examples run at toy size; what they learn at full size is in docs/log.md."""

import json
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = {
    "own_environment": ("debug", "1"),
    "own_denoiser": ("3", "1"),
    "own_policy": (),
    "own_data": ("debug",),
    "own_schedule": ("1",),
}
"""Arguments after the folder."""


def test_scripts_have_at_most_forty_lines():
    for name in SCRIPTS:
        assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 40, name


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs_and_says_what_came_out(name, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path / "out"), *SCRIPTS[name]])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert "return" in capsys.readouterr().out.splitlines()[-1]
    assert name != "own_schedule" or (tmp_path / "out" / "schedules.png").stat().st_size > 1000


def test_the_cells_of_the_notebook_run_and_end_with_pictures(monkeypatch, capsys):
    monkeypatch.setenv("EPOCHS", "1")
    notebook = json.loads((EXAMPLES / "imagine.ipynb").read_text())
    names: dict = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            exec(compile("".join(cell["source"]), "imagine.ipynb", "exec"), names)
    assert "\x1b[" not in capsys.readouterr().out
    assert names["strip"].size[0] > 100 and len(names["strip"].getcolors(2**16)) > 3
