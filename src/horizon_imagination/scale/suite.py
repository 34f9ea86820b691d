"""A suite: worlds x settings x seeds, each of them one run of `horizon train`.

In a file (JSON or TOML) as

    name = "mine"
    seeds = [0, 1, 2]
    worlds = [{env = "fog", preset = "fog"}]
    settings = [
        {name = "ar", override = {"imagination.budget" = 8, "imagination.decay_horizon" = 1.0}},
        {name = "hi-2-4"},
    ]
"""

import dataclasses
import difflib
import json
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from horizon_imagination.config import Config
from horizon_imagination.config_json import from_json, to_json
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.folder import write_json

Override = dict[str, Any]
"""Values by the full name of a field of the config: {"imagination.budget": 8}."""
DESCRIPTION = "suite.json"
FILE_TYPES = {".json": json.loads, ".toml": tomllib.loads}


@dataclass(frozen=True)
class World:
    """Where runs take place, and the config they begin with."""

    env: str
    preset: str = "paper"
    override: Override = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """What is compared."""

    name: str
    override: Override = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """Every setting in every world with every seed."""

    name: str
    worlds: tuple[World, ...]
    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """One run of a suite."""

    name: str
    """Also the name of its folder."""
    env: str
    setting: str
    seed: int
    config: Config
    arguments: tuple[str, ...]
    """Of `horizon train`, without the folder."""


def runs_of(suite: Suite) -> list[Run]:
    """All runs, one seed of everything before the next, so that what is unfinished is balanced."""
    runs = [
        _run(world, setting, seed)
        for seed in suite.seeds
        for world in suite.worlds
        for setting in suite.settings
    ]
    twice = [name for name, count in Counter(run.name for run in runs).items() if count > 1]
    if twice:
        raise UsageError(f"the suite {suite.name} has the run {twice[0]} twice; leave one out")
    if not runs:
        raise UsageError(f"the suite {suite.name} has no runs: it needs worlds, settings and seeds")
    return runs


def read_file(path: Path) -> Suite:
    """A suite from a file."""
    parse = FILE_TYPES.get(path.suffix)
    if parse is None:
        raise UsageError(f"{path}: a suite is a .json or .toml file")
    try:
        found = parse(path.read_text())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is no {path.suffix[1:].upper()}: {error}") from error
    return from_plain({"name": path.stem} | found if isinstance(found, dict) else found, str(path))


def from_plain(found: Any, where: str) -> Suite:
    """A suite from plain values, strictly: an unknown or missing name is refused."""
    about = _fields(found, Suite, where)
    seeds = about["seeds"]
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        seeds = list(range(seeds))
    if not isinstance(seeds, list) or any(type(x) is not int or x < 0 for x in seeds):
        raise UsageError(f"{where}: seeds must be a list of whole numbers or their count")
    if not isinstance(about["name"], str) or not _plain(about["name"]):
        raise UsageError(f"{where}: name must be a word")
    return Suite(
        about["name"],
        tuple(_entry(x, World, f"{where}: worlds") for x in _list(about, "worlds", where)),
        tuple(_entry(x, Setting, f"{where}: settings") for x in _list(about, "settings", where)),
        tuple(seeds),
    )


def overridden(config: Config, override: Override, where: str) -> Config:
    """A config with some of its fields replaced; unknown ones and wrong types are refused."""
    tree = to_json(config)
    for name, value in override.items():
        *sections, last = name.split(".")
        place: Any = tree
        for section in sections:
            place = place.get(section) if isinstance(place, dict) else None
        if not isinstance(place, dict) or last not in place or isinstance(place[last], dict):
            close = difflib.get_close_matches(name, _names(tree), n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"{where}: the config has no field {name}{hint}")
        place[last] = value
    return from_json(tree, where=where)


def flags(override: Override) -> list[str]:
    """An override as flags of `horizon train`.

    >>> flags({"imagination.decay_horizon": 1.0, "env.grey": False, "tokenizer.multipliers": [2]})
    ['--imagination.decay-horizon', '1.0', '--env.no-grey', '--tokenizer.multipliers', '2']
    """
    words = []
    for name, value in override.items():
        *sections, last = name.replace("_", "-").split(".")
        before = "".join(f"{section}." for section in sections)
        if isinstance(value, bool):
            words.append(f"--{before}{'' if value else 'no-'}{last}")
        else:
            values = value if isinstance(value, list | tuple) else [value]
            words += [f"--{before}{last}", *map(str, values)]
    return words


def describe(suite: Suite, runs: list[Run], folder: Path) -> None:
    """Write `suite.json`, which the report reads; refuse the folder of another suite."""
    about = {
        "name": suite.name,
        "runs": [
            {"name": r.name, "env": r.env, "config": r.setting, "seed": r.seed, "folder": r.name}
            for r in runs
        ],
    }
    path = folder / DESCRIPTION
    if path.exists():
        _refuse_another(path, about)
    elif folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty and holds no suite; name another with --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, about)
    except OSError as error:
        raise UsageError(f"cannot write to the folder {folder}: {error.strerror}") from error


def _refuse_another(path: Path, about: dict[str, Any]) -> None:
    """Runs may be added to a suite; those it has must stay what they are."""
    try:
        before = {entry["name"]: entry for entry in json.loads(path.read_text())["runs"]}
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged ({error}); name another folder with --out") from error
    now = {entry["name"]: entry for entry in about["runs"]}
    gone = [name for name, entry in before.items() if now.get(name) != entry]
    if gone:
        raise UsageError(
            f"{path} describes another suite: it has {gone[0]}, which this one has not; "
            "name another folder with --out"
        )


def _run(world: World, setting: Setting, seed: int) -> Run:
    where = f"{setting.name} on {world.env}"
    if world.preset not in PRESETS:
        known = ", ".join(PRESETS)
        raise UsageError(f"{where}: unknown preset '{world.preset}'; there are {known}")
    if not _plain(setting.name):
        raise UsageError(f"a setting's name is letters, digits and -_. , not '{setting.name}'")
    override = world.override | setting.override
    reserved = {"env.id", "seed"} & set(override)
    if reserved:
        raise UsageError(f"{where}: {reserved.pop()} is set by worlds and seeds, not by override")
    begin = overridden(PRESETS[world.preset][1], override, where)
    config = dataclasses.replace(begin, env=dataclasses.replace(begin.env, id=world.env), seed=seed)
    env = world.env.removeprefix("ALE/").removesuffix("-v5").removesuffix("-v0")
    plain = "".join(x if _plain(x) else "-" for x in env)
    base = ["--preset", world.preset, "--env.id", world.env, "--seed", str(seed)]
    return Run(
        name=f"{plain}-{setting.name}-{seed}",
        env=world.env,
        setting=setting.name,
        seed=seed,
        config=config,
        arguments=(*base, *flags(override)),
    )


def _fields(found: Any, kind: type, where: str) -> dict[str, Any]:
    """The fields of a dataclass in a table, defaults filled in."""
    fields = {x.name: x for x in dataclasses.fields(kind)}
    if not isinstance(found, dict):
        raise UsageError(f"{where}: expected a table with {', '.join(fields)}, got {found!r}")
    unknown = sorted(set(found) - set(fields))
    if unknown:
        raise UsageError(f"{where}: unknown {unknown[0]}; expected {', '.join(fields)}")
    required = [
        name
        for name, x in fields.items()
        if x.default is dataclasses.MISSING and x.default_factory is dataclasses.MISSING
    ]
    missing = [name for name in required if name not in found]
    if missing:
        raise UsageError(f"{where}: {missing[0]} is missing")
    return found


def _entry(found: Any, kind: type, where: str) -> Any:
    about = _fields(found, kind, where)
    for name, value in about.items():
        expected = dict if name == "override" else str
        if not isinstance(value, expected):
            raise UsageError(f"{where}: {name} must be a {expected.__name__}, got {value!r}")
    return kind(**about)


def _list(about: dict[str, Any], name: str, where: str) -> list:
    if not isinstance(about[name], list):
        raise UsageError(f"{where}: {name} must be a list")
    return about[name]


def _names(tree: dict[str, Any], before: str = "") -> list[str]:
    found = []
    for name, value in tree.items():
        full = f"{before}{name}"
        found += _names(value, f"{full}.") if isinstance(value, dict) else [full]
    return found


def _plain(name: str) -> bool:
    return bool(name) and all(x.isalnum() or x in "-_." for x in name)
