"""`import horizon_imagination as hi`: every public name is there, and torch waits for its use."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import horizon_imagination as hi
from horizon_imagination.errors import UsageError

TOP = Path(hi.__file__)


def modules_after(code):
    """The modules that a fresh interpreter has loaded after some code."""
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules, file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(shown.stderr.split())


def statically_imported():
    """Names that type checkers see: the block that never runs."""
    block = next(node for node in ast.parse(TOP.read_text()).body if isinstance(node, ast.If))
    return {a.asname or a.name for n in block.body for a in n.names}  # type: ignore[attr-defined]


def test_every_public_name_is_there_at_run_time_and_for_type_checkers():
    assert len(set(hi.__all__)) == len(hi.__all__) > 40
    assert all(getattr(hi, name) is not None for name in hi.__all__)
    assert statically_imported() == set(hi.__all__) - {"__version__"}
    assert set(hi.__all__) <= set(dir(hi))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'imagin'"):
        hi.imagin  # type: ignore[attr-defined]  # noqa: B018


def test_names_are_those_of_their_modules():
    from horizon_imagination.agent import Agent
    from horizon_imagination.config import Config
    from horizon_imagination.schedules import horizon_schedule

    assert (hi.Agent, hi.Config, hi.horizon_schedule) == (Agent, Config, horizon_schedule)


@pytest.mark.parametrize(
    "code",
    [
        "import horizon_imagination",
        "import horizon_imagination as hi; hi.Config(); dir(hi); hi.load_run",
    ],
)
def test_torch_is_not_imported_before_it_is_used(code):
    loaded = modules_after(code)
    assert "horizon_imagination.version" in loaded
    assert not {"torch", "numpy", "gymnasium", "tyro"} & loaded


def test_torch_is_imported_with_the_first_name_that_needs_it():
    assert "torch" in modules_after("import horizon_imagination as hi; hi.horizon_schedule")


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_folder_that_is_no_run_is_refused(name, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="expected a folder written by horizon train"):
        hi.load_run(tmp_path / name)
