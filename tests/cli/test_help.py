"""Help texts: fast, in plain words, within the terminal."""

import os
import pty
import re
import subprocess
import sys
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from horizon_imagination.cli import COMMANDS, Group, main
from horizon_imagination.cli.parse import expand, parse

PROGRAM = [sys.executable, "-m", "horizon_imagination"]
LINES = [
    words
    for name, entry in COMMANDS.items()
    for words in ([[name, x] for x in entry.commands] if isinstance(entry, Group) else [[name]])
]
"""Every command, with its group."""


def help_of(words, capsys):
    try:
        assert main([*words, "--help"]) == 0
    except SystemExit as stop:
        assert stop.code in (0, None)
    return capsys.readouterr().out


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_help_fits_80_columns_and_holds_no_word_of_a_linter(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = help_of(words, capsys)
    assert f"usage: horizon {' '.join(words)}" in said
    assert max(len(x) for x in said.splitlines() if not x.startswith("usage: ")) <= 80
    for word in ("noqa", "RUF", "type: ignore", "fmt:"):
        assert word not in said


def test_the_groups_and_the_list_of_commands_fit_80_columns(capsys):
    groups = [[name] for name, entry in COMMANDS.items() if isinstance(entry, Group)]
    for words in ([], *groups):
        assert max(map(len, help_of(words, capsys).splitlines())) <= 80


def loaded_by(code):
    """The modules of a fresh interpreter after some code."""
    show = "\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code + show], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(run.stderr.split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["presets"], ["study"]])
def test_what_needs_no_torch_does_not_import_it(words):
    loaded = loaded_by(f"from horizon_imagination.cli import main\nassert main({words}) == 0")
    assert "horizon_imagination.cli" in loaded
    assert not {"torch", "numpy", "rich", "matplotlib"} & loaded


def test_no_help_and_no_completion_imports_torch():
    code = f"""
from horizon_imagination.cli import main
for words in {[[*words, "--help"] for words in LINES]}:
    try:
        main(words)
    except SystemExit:
        pass
main(["completion", "bash"])"""
    assert "torch" not in loaded_by(code)


def test_every_number_of_a_run_is_explained(capsys):
    silent = r"(--[a-z-]+\.[\w.-]+|--[a-z-]*) [^\n]*\n\s+\(default: "
    plain = "\n".join(line.strip("│ ") for line in help_of(["train"], capsys).splitlines())
    assert re.findall(silent, plain) == []


def on_a_terminal(environment):
    """What `horizon schedule --help` writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"} | environment
    run = subprocess.Popen([*PROGRAM, "schedule", "--help"], stdout=theirs, env=environment)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        said += part
    assert run.wait() == 0
    os.close(ours)
    return said.decode()


def test_help_has_no_colours_where_the_user_wants_none():
    assert "\x1b[" in on_a_terminal({"NO_COLOR": ""})
    assert "\x1b[" not in on_a_terminal({"NO_COLOR": "1"})


@pytest.mark.parametrize(
    "line,said",
    [
        ("evaluate {tmp} --device=cpu", "holds no snapshot yet"),
        ("record --env=catch --out={tmp}/x", "--episodes N or --steps N"),
        ("train --preset=debgu", "did you mean 'debug'?"),
        ("study controller {tmp} --device=cpu --epochs=3", "holds no snapshot yet"),
        ("study quality {tmp} --device=cpu --budgets=3", "holds no snapshot yet"),
        ("report {tmp} --device=cpu", "is no run"),
        ("strip {tmp} --device=cpu --budgets=3", "holds no snapshot yet"),
        ("info --preset=debug --env=cach", "did you mean catch?"),
        ("sweep --envs=catch --settings=a:b", "expected NAME:FIELD=VALUE"),
    ],
)
def test_a_flag_and_its_value_may_be_one_word(line, said, capsys, tmp_path):
    assert main(line.format(tmp=tmp_path).split()) == 2
    heard = capsys.readouterr().err
    assert said in heard and len(heard.splitlines()) == 1


def arguments_of(words):
    """The dataclass of a command's flags."""
    entry = COMMANDS[words[0]]
    entry = entry.commands[words[1]] if isinstance(entry, Group) else entry
    return getattr(import_module(f"horizon_imagination.cli.{entry.module}"), entry.arguments)


VALUES = {int: "3", float: "0.5", str: "word", Path: "place"}


def test_every_flag_of_every_command_takes_its_value_in_one_word():
    """Short names of the config, too: `--device=cpu` where the command has a config."""
    tried = 0
    for words in LINES:
        kind = arguments_of(words)
        hints, needed, flags = get_type_hints(kind, include_extras=True), [], []
        for field in fields(kind):
            options = get_args(hints[field.name]) or (hints[field.name],)
            plain = next((x for x in options if x in VALUES), None)
            positional = "Positional" in str(hints[field.name])
            name = f"--{field.name.replace('_', '-')}"
            if field.default is MISSING and field.default_factory is MISSING:
                value = "place" if "Path" in str(hints[field.name]) else "word"
                needed += [value] if positional else [f"{name}={value}"]
            elif plain is not None and not positional:
                flags.append(f"{name}={VALUES[plain]}")
        short = [f"{x}={y}" for x, y in (("--env", "fog"), ("--device", "cpu"))]
        flags += [x for x in short if expand([x], kind) != [x]]
        for flag in flags:
            parse(kind, [*needed, flag], prog="horizon")
            tried += 1
    assert tried > 80


def test_a_flag_that_takes_several_values_is_a_plural_and_no_other_is():
    for words in LINES:
        for name, hint in get_type_hints(arguments_of(words)).items():
            several = "tuple[" in str(hint) and "..." in str(hint)
            if several:
                assert name.endswith("s") or name == "data", f"{words} --{name}"
            if name.removesuffix("s") in ("budget", "decay_horizon", "kind", "setting"):
                assert name.endswith("s") == several, f"{words} --{name}"
