"""The examples run at toy size; what they learn at full size is in docs/log.md."""

import base64
import runpy
import sys
from io import BytesIO
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from PIL import Image

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = {
    "own_environment": ("debug", "1"),
    "own_denoiser": ("3", "1", "0"),
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


@pytest.mark.slow
def test_the_notebook_runs_in_a_kernel_and_shows_lines_and_pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("EPOCHS", "1")
    notebook = nbformat.read(EXAMPLES / "imagine.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=280, startup_timeout=120, resources=where).execute()
    said = [output for cell in cells for output in cell.outputs]
    assert {output.name for output in said if output.output_type == "stream"} == {"stdout"}
    text = "".join(output.text for output in said if output.output_type == "stream")
    assert "\x1b" not in text and "\r" not in text, "no cursor can be moved in a notebook"
    assert text.count("epoch 1/1 ") == 1 and text.count("\n") == 3
    pictures = [cell.outputs[-1].data.get("image/png") for cell in cells[-2:]]
    for coded in pictures:
        picture = Image.open(BytesIO(base64.b64decode(coded))).convert("RGB")
        assert picture.width > 100 and len(picture.getcolors(2**16)) > 3
