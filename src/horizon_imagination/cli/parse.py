"""Command lines from dataclasses: tyro parses, one line tells what was wrong."""

import contextlib
import dataclasses
import inspect
import io
import os
import re
import shutil
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from horizon_imagination.cli.place import place_of
from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError, did_you_mean
from horizon_imagination.presets import PRESETS
from horizon_imagination.snapshots import read_agent_description

T = TypeVar("T")
A = TypeVar("A", bound=Any)
"""The arguments of a command that has a preset and a config."""
SHORT = {
    "--env": "--env.id",
    "--pixels": "--env.pixels",
    "--device": "--runtime.device",
    "--precision": "--runtime.precision",
}
"""Short names of fields of the config, in every command that takes these fields."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """The flags that decide where the defaults of all other flags come from."""

    preset: str | None = None
    out: Path | None = None
    offline: Path | None = None
    env: Annotated[str | None, tyro.conf.arg(name="env.id")] = None


def parse(kind: type[T], argv: list[str], *, prog: str, default: T | None = None) -> T:
    """Parse `argv` into the dataclass `kind`; a mistake becomes a one-line `UsageError`."""
    defaults: dict[str, Any] = {} if default is None else {"default": default}
    if {"-h", "--help"} & set(argv):
        print(_description(kind), end="\n\n")
    with _one_line_mistakes(prog):
        return tyro.cli(
            kind,
            args=expand(argv, kind),
            prog=prog,
            description="",
            config=(tyro.conf.HelptextFromCommentsOff,),
            **defaults,
        )


def parse_with_preset(kind: type[A], argv: list[str], *, prog: str) -> A:
    """Parse the arguments of a command whose config begins as the preset that is named."""
    return parse(kind, argv, prog=prog, default=from_preset(kind(), named(argv, kind, prog)))


def parse_with_run_defaults(
    kind: type[T], argv: list[str], *, prog: str, run: str, section: str
) -> T:
    """Parse the arguments of a command that changes a section of the config of a trained agent.

    `run` is the field that names the agent. Where it is given, the defaults of `section`
    are those of the agent, so that what no flag names is as in training. Its environment is used as
    if it had been typed where the command has the flag --trust, and it is given.
    """
    args: Any = parse(kind, argv, prog=prog)
    if getattr(args, run) is None:
        _check_atari(args, argv)
        return args
    config = read_agent_description(place_of(getattr(args, run)).agent).config
    if getattr(args, "trust", False):
        config = dataclasses.replace(config, env=config.env.trusted())
    default = dataclasses.replace(args, **{section: getattr(config, section)})
    args = parse(kind, argv, prog=prog, default=default)
    _check_atari(args, argv)
    return args


def given(argv: list[str], *flags: str) -> str | None:
    """The first word of a command line that is one of these flags, or begins with one that ends
    in a dot.

    >>> given(["--web", "--no_webgpu"], "--no-webgpu"), given(["--a.b=3"], "--a."), given([], "--a")
    ('--no-webgpu', '--a.b', None)
    """
    words = (word.partition("=")[0].replace("_", "-") for word in argv)
    whole, begun = (tuple(x for x in flags if x.endswith(".") == dot) for dot in (False, True))
    return next((word for word in words if word in whole or word.startswith(begun)), None)


def _check_atari(args: Any, argv: list[str]) -> None:
    """Refuse flags of Atari's protocol where another world is played."""
    from horizon_imagination.envs.known import atari_game

    flag = given(argv, "--env.atari.")
    if flag and args.env.id and not atari_game(args.env.id):
        raise UsageError(f"{flag} is about Atari games, and {args.env.id} is none: leave it out")


def named(argv: list[str], kind: type, prog: str) -> Named:
    """Preset, folder and environment where a command line names them; other flags are left."""
    with _one_line_mistakes(prog):
        return tyro.cli(
            Named, args=expand(argv, kind), prog=prog, add_help=False, return_unknown_args=True
        )[0]


def from_preset(chosen: A, flags: Named) -> A:
    """The arguments of a command with the preset that is named, or its own one, as the config."""
    name = flags.preset or chosen.preset
    return dataclasses.replace(chosen, preset=name, config=preset(name))


def preset(name: str) -> Config:
    """The config of a preset; an unknown one names its nearest neighbour."""
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise UsageError(f"unknown preset '{name}'; {hint} (horizon presets lists them)")
    return PRESETS[name][1]


def expand(argv: list[str], kind: type) -> list[str]:
    """Short names as the full ones, where the command has the fields they stand for."""
    hints = typing.get_type_hints(kind)
    sections = {name for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    if hints.get("config") is Config:
        sections |= {field.name for field in dataclasses.fields(Config)}
    short = {name: full for name, full in SHORT.items() if full[2:].split(".")[0] in sections}
    words = (word.partition("=") for word in argv)
    return [short.get(name, name) + equals + value for name, equals, value in words]


@contextlib.contextmanager
def _one_line_mistakes(prog: str) -> Iterator[None]:
    """What tyro or a config complains about, as a one-line `UsageError`."""
    if os.environ.get("NO_COLOR"):
        tyro._experimental_options["ansi_codes"] = False
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UsageError(_one_line(said.getvalue(), prog)) from None
    except ValueError as error:
        raise UsageError(str(error)) from error


def _description(kind: type) -> str:
    """The docstring in lines that fit the terminal; tyro would print each paragraph as one."""
    width = shutil.get_terminal_size().columns
    paragraphs = (inspect.getdoc(kind) or "").split("\n\n")
    return "\n\n".join(textwrap.fill(paragraph, width) for paragraph in paragraphs)


def _one_line(message: str, prog: str) -> str:
    """What tyro said, without its box, the help of the argument and pointers to more."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", message)
    inside = [line for line in text.splitlines() if not line.lstrip().startswith(("╭", "╰"))]
    body = " ".join(re.sub(r"[│─]+", " ", line).strip() for line in inside)
    body = re.split(r"Argument helptext|For full helptext|─{3}", body)[0]
    body, _, proposed = body.partition("Perhaps you meant:")
    said = " ".join(body.split()).rstrip(".,; ") or "bad arguments"
    if flags := re.findall(r"--[a-z][\w.-]*", proposed):
        said += f"; did you mean {_likeliest(said, flags)}?"
    return f"{said}; see '{prog} --help'"


def _likeliest(said: str, flags: list[str]) -> str:
    """The flag that was meant: one of the very name in another section, first of all in training.

    >>> _likeliest("no --epochs", ["--offline.tokenizer-epochs", "--training.epochs"])
    '--training.epochs'
    """
    typed = re.findall(r"--([\w.-]+)", said)
    return min(
        flags, key=lambda flag: (flag.split(".")[-1] not in typed, "--training." not in flag)
    )
