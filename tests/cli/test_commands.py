"""The command line: help, version, and one line with status 2 for anything wrong."""

import subprocess
import sys

import pytest

from horizon_imagination import __version__
from horizon_imagination.cli import COMMANDS, STUDIES, Group, main


def test_help_lists_every_command_with_a_line(capsys):
    assert main(["--help"]) == 0 == main([])
    lines = capsys.readouterr().out.splitlines()
    for name, entry in COMMANDS.items():
        inner = f": {', '.join(entry.commands)}" if isinstance(entry, Group) else ""
        assert f"  {name:<{max(map(len, COMMANDS))}}  {entry.help}{inner}" in lines
    assert any("actions, controller, dreams, imagination, quality" in line for line in lines)


def test_version_is_printed_alone(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_asked_for_help(name, capsys):
    try:
        status = main([name, "--help"])
    except SystemExit as stop:
        status = stop.code
    assert status in (0, None)
    assert f"horizon {name}" in capsys.readouterr().out


def test_study_alone_lists_the_studies(capsys):
    assert main(["study"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in STUDIES)


@pytest.mark.parametrize(
    "line,said",
    [
        ("shedule", "did you mean 'schedule'?"),
        ("nothing-like-it", "see 'horizon --help'"),
        ("strip run --budget 3", "did you mean --budgets?"),
        ("schedule --nonsense 3", "Unrecognized options: --nonsense"),
        ("schedule --budget 3", "did you mean --budgets?"),
        ("schedule --horizon few", "--horizon"),
        ("schedule --kinds spiral", "'autoregressive'"),
        ("schedule --decay-horizon 0", "decay_horizon must lie in [1, 16]"),
        ("schedule --decay-horizon nan", "decay_horizon must lie in [1, 16]"),
        ("schedule --decay-horizon 17", "decay_horizon must lie in [1, 16]"),
        ("schedule --budgets 0", "at least 1"),
        ("schedule --budgets 8", "the pyramidal schedule needs a budget of at least the horizon"),
        ("schedule --kinds autoregressive --budgets 24", "multiple of the horizon"),
        ("schedule --context -1", "context of at least 0"),
        ("schedule --out {file}/below", "cannot write to the folder"),
        ("schedule --out {file}", "cannot write to the folder"),
        ("study acton", "did you mean 'actions'?"),
        ("study nothing-like-it", "there are actions,"),
        ("study actions --pairs 0", "at least 1"),
        ("study actions --monte-carlo -1", "at least 0"),
        ("study actions --out {file}/below", "cannot write to the folder"),
        ("study imagination --budget 0", "at least 1"),
    ],
)
def test_bad_input_is_one_line_and_status_two(line, said, capsys, tmp_path):
    file = tmp_path / "file"
    file.touch()
    status = main(line.format(file=file).split())
    heard = capsys.readouterr()
    assert status == 2 and heard.out == ""
    assert heard.err.startswith("horizon: ") and heard.err.count("\n") == 1
    assert said in heard.err and "Traceback" not in heard.err


def test_the_schedule_command_prints_matrices_and_costs_and_draws_them(capsys, tmp_path):
    arguments = ["--horizon", "4", "--budgets", "4", "6", "--decay-horizon", "2"]
    assert main(["schedule", *arguments, "--out", str(tmp_path / "new" / "folder")]) == 0
    said = capsys.readouterr().out
    assert "Horizon schedule: 4 frames, budget 4, decay horizon 2\n" in said
    assert "Pyramidal schedule: 4 frames, budget 6\n" in said
    assert "   1 0.62 0.12 0.00 0.00     3" in said, "a row of the matrix and the frames that move"
    assert "8 with the window, 20 without" in said
    picture = tmp_path / "new" / "folder" / "schedules.png"
    assert picture.read_bytes().startswith(b"\x89PNG") and len(list(picture.parent.iterdir())) == 1


def test_the_installed_command_exits_with_the_status_and_no_traceback():
    run = subprocess.run(
        [sys.executable, "-m", "horizon_imagination", "schedule", "--decay-horizon", "0"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2 and run.stdout == ""
    assert run.stderr.count("\n") == 1 and "decay_horizon must lie in" in run.stderr


def test_numbers_that_are_not_whole_are_refused_without_run_time_checks():
    code = "from horizon_imagination import horizon_schedule as f; f(4, 2.5, 1)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ValueError: horizon and budget must be whole numbers" in run.stderr
