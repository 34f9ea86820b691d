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
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from horizon_imagination.config import Config
from horizon_imagination.config_json import from_json, to_json
from horizon_imagination.errors import UsageError
from horizon_imagination.files import write_json
from horizon_imagination.presets import PRESETS
from horizon_imagination.schema import checked, parse, read_bytes, read_json

Override = dict[str, Any]
"""Values by the full name of a field of the config: {"imagination.budget": 8}."""
DESCRIPTION = "suite.json"
MOST_SEEDS = 10_000
FILE_TYPES = (".json", ".toml")


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
class Member:
    """A run of a suite, as `suite.json` lists it."""

    name: str
    env: str
    setting: str
    seed: int
    folder: str
    """Inside the suite's."""


@dataclass(frozen=True)
class PlannedRun(Member):
    """A run of a suite with all that `horizon train` needs to begin it."""

    preset: str
    config: Config


def runs_of(suite: Suite) -> list[PlannedRun]:
    """All runs, one seed of everything before the next, so that what is unfinished is balanced."""
    pairs = [(world, setting) for world in suite.worlds for setting in suite.settings]
    begun = [(world, setting, _config(world, setting)) for world, setting in pairs]
    runs = [_run(*pair, seed) for seed in suite.seeds for pair in begun]
    twice = [name for name, count in Counter(run.name for run in runs).items() if count > 1]
    if twice:
        raise UsageError(f"the suite {suite.name} has the run {twice[0]} twice; leave one out")
    if not runs:
        raise UsageError(f"the suite {suite.name} has no runs: it needs worlds, settings and seeds")
    return runs


def read_file(path: Path) -> Suite:
    """A suite from a file."""
    if path.suffix not in FILE_TYPES:
        raise UsageError(f"{path}: a suite is a .json or .toml file")
    content = read_bytes(path)
    found = parse(content, str(path)) if path.suffix == ".json" else _parse_toml(content, path)
    found = checked(found, dict, f"{path}: ")
    return from_plain({"name": path.stem} | found, str(path))


def _parse_toml(content: bytes, path: Path) -> Any:
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from error


def from_plain(found: Any, where: str) -> Suite:
    """A suite from plain values, strictly: an unknown or missing name is refused."""
    about = _fields(found, Suite, where)
    seeds = about["seeds"]
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        seeds = list(range(min(seeds, MOST_SEEDS + 1)))
    if isinstance(seeds, list) and len(seeds) > MOST_SEEDS:
        raise UsageError(f"{where}: at most {MOST_SEEDS} seeds")
    if not isinstance(seeds, list) or any(type(x) is not int or not 0 <= x < 2**63 for x in seeds):
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


def is_suite(folder: Path) -> bool:
    """Whether a folder holds the description of a suite."""
    return (folder / DESCRIPTION).is_file()


def read_members(folder: Path) -> tuple[str, list[Member]]:
    """The name and the runs of the suite in a folder, those that have not begun included."""
    path = folder / DESCRIPTION
    about = read_json(path, _Described)
    return about.name or folder.name, [entry.member(path) for entry in about.runs]


def describe(suite: Suite, runs: list[PlannedRun], folder: Path) -> None:
    """Write `suite.json`, which the report reads; refuse the folder of another suite."""
    members = [Member(r.name, r.env, r.setting, r.seed, r.folder) for r in runs]
    if is_suite(folder):
        _refuse_another(folder, members)
    elif folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty and holds no suite; name another with --out")
    about = {"name": suite.name, "runs": [asdict(member) for member in members]}
    try:
        write_json(folder / DESCRIPTION, about)
    except OSError as error:
        raise UsageError(f"cannot write to the folder {folder}: {error.strerror}") from error


def _refuse_another(folder: Path, members: list[Member]) -> None:
    """Runs may be added to a suite; those it has must stay what they are."""
    now = {member.name: member for member in members}
    gone = [before.name for before in read_members(folder)[1] if now.get(before.name) != before]
    if gone:
        raise UsageError(
            f"{folder / DESCRIPTION} describes another suite: it has {gone[0]}, which this one has "
            "not; name another folder with --out"
        )


@dataclass(frozen=True)
class _Entry:
    """A run in `suite.json`; before 0.3 a setting was called `config`, a name could be missing."""

    env: str
    seed: int
    folder: str
    setting: str | None = None
    config: str | None = None
    name: str | None = None

    def member(self, path: Path) -> Member:
        """The run, in a folder that is inside the suite's."""
        setting = self.config if self.setting is None else self.setting
        if setting is None:
            raise UsageError(f"{path}: runs: a setting is missing; restore the file from a copy")
        if not _is_inside(self.folder):
            raise UsageError(f"{path}: runs: the folder {self.folder!r} is not inside the suite's")
        return Member(self.name or self.folder, self.env, setting, self.seed, self.folder)


@dataclass(frozen=True)
class _Described:
    """The schema of `suite.json`."""

    runs: tuple[_Entry, ...]
    name: str | None = None


def _is_inside(folder: str) -> bool:
    """
    >>> _is_inside("catch-hi-0"), _is_inside("../other"), _is_inside("/etc"), _is_inside("")
    (True, False, False, False)
    """
    parts = Path(folder).parts
    return bool(parts) and ".." not in parts and not Path(folder).is_absolute()


def _config(world: World, setting: Setting) -> Config:
    """The config of all seeds of a setting on a world."""
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
    # Threads are the sweep's to choose, unless the override does.
    begin = overridden(PRESETS[world.preset][1], {"runtime.threads": 0} | override, where)
    return dataclasses.replace(begin, env=dataclasses.replace(begin.env, id=world.env))


def _run(world: World, setting: Setting, config: Config, seed: int) -> PlannedRun:
    env = world.env.removeprefix("ALE/").removesuffix("-v5").removesuffix("-v0")
    plain = "".join(x if _plain(x) else "-" for x in env)
    name = f"{plain}-{setting.name}-{seed}"
    config = dataclasses.replace(config, seed=seed)
    return PlannedRun(name, world.env, setting.name, seed, name, world.preset, config)


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
    """
    >>> _plain("hi-2.4"), _plain(".."), _plain("a/b"), _plain("x" * 101)
    (True, False, False, False)
    """
    letters = all((x.isalnum() and x.isascii()) or x in "-_." for x in name)
    return letters and 0 < len(name) <= 100 and not set(name) <= {"."}
