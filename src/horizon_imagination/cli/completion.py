"""`horizon completion`: scripts by which a shell completes commands and flags."""

import ast
import contextlib
import importlib
import io
import re
from dataclasses import dataclass, make_dataclass
from textwrap import shorten
from typing import Annotated, Any, Literal, Union

import tyro
from tyro.conf import Positional

from horizon_imagination.cli import COMMANDS, Command, Group, Table
from horizon_imagination.cli.parse import SHORT, parse
from horizon_imagination.presets import PRESETS

LONGEST = 44
"""Most characters of a flag's description in a list of completions."""
MOST_BYTES = 128 * 1024
"""Of a script: fish hands nearly all of it to Python as one argument, and Linux allows no more."""
BASH = """
# Names of files where no flag and no command fits.
_horizon() {
  _tyro_horizon
  [[ -n "${COMPREPLY[*]}" ]] || COMPREPLY=()
}
complete -o default -F _horizon horizon
"""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Print a script that completes commands and flags of horizon in a shell.

    bash: source <(horizon completion bash), in ~/.bashrc.

    zsh: horizon completion zsh > FOLDER/_horizon, for a FOLDER of $fpath.

    fish: horizon completion fish > ~/.config/fish/completions/horizon.fish
    """

    shell: Positional[Literal["bash", "zsh", "fish"]]
    """The shell."""


def main(argv: list[str]) -> int | None:
    """Run `horizon completion`."""
    args = parse(Arguments, argv, prog="horizon completion")
    print(script(args.shell))
    return 0


def script(shell: str) -> str:
    """The completion script of a shell, made by tyro from the flags of every command."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        tyro.cli(
            _every(COMMANDS),
            prog="horizon",
            args=["--tyro-print-completion", shell],
            config=(tyro.conf.HelptextFromCommentsOff, tyro.conf.OmitSubcommandPrefixes),
        )
    before, spec, after = re.split(r"(?<=^COMPLETION_SPEC = )(.*)$", said.getvalue(), flags=re.M)
    if shell == "fish":  # there the program is a string in double quotes
        spec = re.sub(r'\\([\\"$])', r"\1", spec)
    known, after = ast.literal_eval(spec), after + (BASH if shell == "bash" else "")
    for longest in range(LONGEST, 0, -4):
        subcommands = _described(known["subcommands"], COMMANDS, longest)
        spec = repr(known | {"subcommands": subcommands})
        if shell == "fish":
            spec = re.sub(r'([\\"$])', r"\\\1", spec)
        if len((before + spec + after).encode()) <= MOST_BYTES:
            break
    return before + spec + after


def _every(table: Table) -> Any:
    """All commands of a table as one type: a union of subcommands."""
    kinds = [
        Annotated[_kind(name, entry), tyro.conf.subcommand(name)] for name, entry in table.items()
    ]
    return Union[tuple(kinds)]  # noqa: UP007  (of a list that is made here)


def _kind(name: str, entry: Command | Group) -> Any:
    if isinstance(entry, Group):
        return make_dataclass(name.title(), [("command", _every(entry.commands))])
    module = importlib.import_module(f"horizon_imagination.cli.{entry.module}")
    return getattr(module, entry.arguments)


def _described(commands: dict[str, Any], table: Table, longest: int) -> dict[str, Any]:
    """What tyro knows of commands, with their help, short flags and names of presets; descriptions
    of flags have at most so many characters."""
    full = {}
    for name, entry in table.items():
        inner = entry.commands if isinstance(entry, Group) else {}
        full[name] = commands[name] | {
            "description": entry.help,
            "options": [_option(option, longest) for option in commands[name]["options"]],
            "subcommands": _described(commands[name]["subcommands"], inner, longest),
        }
    return full


def _option(option: dict[str, Any], longest: int) -> dict[str, Any]:
    short = [name for name, long in SHORT.items() if long in option["flags"]]
    # A line break would be read as another completion.
    text = shorten(option["description"], longest, placeholder=" …")
    option = option | {"flags": short + option["flags"], "description": text}
    if "--preset" in option["flags"]:
        option |= {"type": "choice", "choices": list(PRESETS)}
    return option
