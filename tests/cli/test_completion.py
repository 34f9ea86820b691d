"""`horizon completion`: what a shell offers."""

import re
import shutil
import subprocess
import sys

import pytest

from horizon_imagination.cli import COMMANDS, STUDIES, main
from horizon_imagination.cli.completion import script
from horizon_imagination.presets import PRESETS

bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    """What bash offers for the last of some words."""
    path = tmp_path_factory.mktemp("completion") / "horizon.bash"
    path.write_text(script("bash"))

    def ask(*words):
        ask = f'source {path}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _horizon; '
        ask += 'printf "%s\\n" "${COMPREPLY[@]}"'
        run = subprocess.run(["bash", "-c", ask, "bash", *words], capture_output=True, text=True)
        assert run.returncode == 0 and run.stderr == ""
        return run.stdout.split()

    return ask


@bash
def test_bash_completes_commands(completed):
    assert set(COMMANDS) <= set(completed("horizon", ""))
    assert completed("horizon", "ev") == ["evaluate"]
    assert set(STUDIES) <= set(completed("horizon", "study", ""))


@bash
def test_bash_completes_flags_their_short_names_and_their_values(completed):
    assert completed("horizon", "train", "--imagination.b") == ["--imagination.budget"]
    assert completed("horizon", "train", "--dev") == ["--device"]
    assert completed("horizon", "study", "quality", "--bu") == ["--budgets"]
    assert completed("horizon", "train", "--preset", "") == list(PRESETS)
    assert set(completed("horizon", "train", "--imagination.engine", "")) == {"window", "plain"}


@bash
def test_bash_offers_nothing_but_files_where_a_run_is_named(completed):
    assert completed("horizon", "evaluate", "runs/") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script_with_one_line_per_flag(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    spec = re.search(r"^COMPLETION_SPEC = (.*)$", text, re.MULTILINE)
    assert spec and "--imagination.decay-horizon" in spec[1] and r"\n" not in spec[1]


def test_the_program_inside_the_fish_script_answers():
    """fish itself is seldom there; it runs this program with the words so far."""
    quoted = re.search(r'set -l pycode "(.*?)(?<!\\)"\n', script("fish"), re.DOTALL)
    assert quoted
    program = re.sub(r'\\([\\"$])', r"\1", quoted[1])
    words = [sys.executable, "-c", program, "horizon", "study", "2"]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in run.stdout.splitlines()][2:] == list(STUDIES)


def test_an_unknown_shell_is_refused_in_one_line(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
