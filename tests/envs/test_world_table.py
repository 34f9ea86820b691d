"""The commands of the table in docs/environments.md, each for two epochs of every learner.

Rows whose package the extra `dev` does not have are marked `network`: install the extra `worlds`.
"""

import json
import re
import sys
from pathlib import Path

import pytest

from horizon_imagination.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
MODULES = {
    "gymnasium[classic-control]": "pygame",
    "minigrid": "minigrid",
    "crafter": "crafter",
    "vizdoom": "vizdoom",
    "highway-env": "highway_env",
    "minatar": "minatar",
    "none": "horizon_imagination",
}
"""The package of a row, as pip calls it: its module."""
ANYWHERE = ("pygame", "minigrid", "crafter", "horizon_imagination")
"""Installed with the extra `dev`."""
SHORT = {
    "--training.epochs": "2",
    "--training.initial-steps": "20",
    "--training.collect-steps": "10",
    "--training.evaluation-episodes": "1",
    "--env.time-limit": "12",
    "--world-model.learner.first-epoch": "0",
    "--controller.learner.first-epoch": "0",
}


def table():
    """(package, words of the command, picture as read) of every row."""
    line = re.compile(r"^\| [^|]+ \| `?([^|`]+)`? \| `horizon ([^|`]+)` \| ([^|]+) \|[^|]*\|$")
    found = [line.match(x) for x in PAGE.read_text().splitlines()]
    return [(x[1].strip(), x[2].split(), x[3].strip()) for x in found if x]


def row(package, words, picture):
    marks = [] if MODULES[package] in ANYWHERE else [pytest.mark.network]
    return pytest.param(package, words, picture, marks=marks, id=words[words.index("--env") + 1])


def test_the_table_names_every_world_that_was_tried():
    packages = [package for package, *_ in table()]
    assert set(packages) == set(MODULES) and packages.count("minatar") == 2


@pytest.mark.slow
@pytest.mark.parametrize("package,words,picture", [row(*x) for x in table()])
def test_the_command_of_a_row_trains_and_reads_what_the_row_says(
    package, words, picture, tmp_path, capsys, monkeypatch
):
    pytest.importorskip(MODULES[package])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_worlds.py").write_text(
        re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    short = [word for pair in SHORT.items() for word in pair]
    assert main([*words, *short, "--out", "run"]) == 0
    assert f"the agent sees {picture}" in " ".join(capsys.readouterr().out.split())
    lines = [json.loads(x) for x in Path("run/metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and "controller/actor" in lines[1]
    assert main(["evaluate", "run", "--episodes", "1", "--trust"]) == 0
    sys.modules.pop("my_worlds", None)
