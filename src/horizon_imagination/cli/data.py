"""`horizon data` and `horizon record`: look at, check, import and record datasets."""

import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from horizon_imagination.cli.parse import parse, parse_with_run_defaults
from horizon_imagination.cli.place import place_of
from horizon_imagination.config import EnvConfig
from horizon_imagination.config_json import to_json
from horizon_imagination.errors import UsageError
from horizon_imagination.files import output_folder
from horizon_imagination.wording import number, size


@dataclass(frozen=True)
class InfoArguments:
    """Print what a dataset holds."""

    folder: Positional[Path]
    """The dataset."""
    json: bool = False
    """Print one JSON object instead of a table."""


@dataclass(frozen=True)
class ValidateArguments:
    """Check every episode and file of a dataset; exit status 1 if anything is wrong."""

    folder: Positional[Path]
    """The dataset."""


@dataclass(frozen=True)
class ImportArguments:
    """Make a dataset of a folder of .npz episodes, or of videos with tables of actions."""

    folder: Positional[Path]
    """The folder with one file, or one video and one table, per episode."""
    out: Positional[Path]
    """The dataset to write; must not exist."""
    size: int | None = None
    """Resize frames to this height and width (by default videos to 64, .npz not at all)."""
    num_actions: int | None = None
    """Number of actions, where not all of them occur in the data."""
    bounds: tuple[float, float] | None = None
    """Lowest and highest value of the entries, where actions are vectors (.npz alone)."""
    env_id: str = "imported"
    """The world the data comes from: what --env would name."""


@dataclass(frozen=True)
class RepairArguments:
    """Set rewards that are not finite to 0: in a dataset, or in the replay of a run.

    Environments could store such rewards before version 0.3, and a run that has them cannot be
    resumed. The run goes on after the repair.
    """

    folder: Positional[Path]
    """The dataset, or the folder of a run that is not being trained."""


def info_main(argv: list[str]) -> int:
    """Run `horizon data info`."""
    args = parse(InfoArguments, argv, prog="horizon data info")
    from horizon_imagination.data import info

    figures = info(args.folder)
    if args.json:
        print(json.dumps(figures))
        return 0
    for name, value in figures.items():
        if name == "env":
            value = _changes(value)
        elif name == "played_by":
            value = ", ".join(f"{key} {said}" for key, said in value.items()) or "unknown"
        elif isinstance(value, dict):
            value = ", ".join(f"{count} {key}" for key, count in value.items())
        elif name == "bytes":
            name, value = "size", size(value)
        elif isinstance(value, list):
            value = " ".join(map(str, value))
        elif isinstance(value, float):
            value = number(value)
        print(f"{name.replace('_', ' '):<18} {'-' if value is None else value}")
    return 0


def _changes(env: dict[str, Any]) -> str:
    """What the environment of a dataset has that is not the default."""
    if not env:
        return "unknown but for its id"
    known = to_json(EnvConfig())
    told = [f"{key} {env[key]}" for key in env if key != "id" and env[key] != known.get(key)]
    return ", ".join(told) or "all settings at their defaults"


def validate_main(argv: list[str]) -> int:
    """Run `horizon data validate`."""
    args = parse(ValidateArguments, argv, prog="horizon data validate")
    from horizon_imagination.data import info, validate

    if not args.folder.is_dir():
        raise UsageError(f"{args.folder} is no folder; name the folder of a dataset")
    problems = validate(args.folder)
    for problem in problems:
        print(problem)
    if problems:
        print(f"{args.folder}: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
        return 1
    figures = info(args.folder)
    print(f"{args.folder}: good, {figures['episodes']} episodes, {figures['steps']} steps")
    return 0


def repair_main(argv: list[str]) -> int:
    """Run `horizon data repair`."""
    args = parse(RepairArguments, argv, prog="horizon data repair")
    from horizon_imagination.data import Store
    from horizon_imagination.run.folder import claimed, is_run

    replay = args.folder / "replay"
    folder = replay if is_run(args.folder) else args.folder
    run = folder.resolve().parent
    if folder.is_dir():
        output_folder(folder, "make it writable, or repair a copy")
    with claimed(run) if is_run(run) else contextlib.nullcontext():
        store = Store.open(folder, "a")
        count = store.repair_rewards()
        store.close()
    print(f"{folder}: {count} rewards that were not finite are now 0")
    return 0


def import_main(argv: list[str]) -> int:
    """Run `horizon data import`."""
    args = parse(ImportArguments, argv, prog="horizon data import")
    from horizon_imagination.data import import_npz, import_videos, info
    from horizon_imagination.data.video import VIDEO_SUFFIXES

    if not args.folder.is_dir():
        raise UsageError(f"{args.folder} is no folder; name the folder that holds the episodes")
    suffixes = {path.suffix.lower() for path in args.folder.iterdir()}
    arrays, videos = ".npz" in suffixes, bool(VIDEO_SUFFIXES & suffixes)
    if arrays and videos:
        raise UsageError(f"{args.folder} has .npz files and videos; import them one after another")
    if not arrays and not videos:
        raise UsageError(f"{args.folder} has neither .npz files nor videos (.mp4 with .csv)")
    if arrays:
        import_npz(args.folder, args.out, args.size, args.num_actions, args.env_id, args.bounds)
    else:
        size = 64 if args.size is None else args.size
        import_videos(args.folder, args.out, size, args.num_actions, args.env_id)
    figures = info(args.out)
    print(f"{args.out}: {figures['episodes']} episodes, {figures['steps']} steps imported")
    return 0


@dataclass(frozen=True, kw_only=True)
class RecordArguments:
    """Record a dataset. With --agent, the environment is as in the agent's training by default.

    --env is short for --env.id.
    """

    out: Path
    """Folder for the dataset; it must not exist."""
    episodes: int | None = None
    """Episodes to record."""
    steps: int | None = None
    """Steps to record, instead of episodes."""
    agent: Path | None = None
    """Who plays: a run, a snapshot, an agent's file, or catch or fog; without it, at random."""
    greedy: bool = False
    """The agent takes the most probable action instead of sampling."""
    seed: int = 0
    """Seed of the world and of the actions."""
    device: str = "auto"
    """Where the agent's networks run."""
    trust: bool = False
    """Import the environment that the agent's own files name as `module:Name`."""
    env: EnvConfig = field(default_factory=lambda: EnvConfig(id=""))


def record_main(argv: list[str]) -> int | None:
    """Run `horizon record`."""
    args = parse_with_run_defaults(
        RecordArguments, argv, prog="horizon record", run="agent", section="env"
    )
    if not args.env.id:
        raise UsageError("say which world to record: --env ID, or --agent RUN for the run's own")
    from horizon_imagination.agent import Agent
    from horizon_imagination.checkpoint import trained_for
    from horizon_imagination.data import info
    from horizon_imagination.run.display import counted
    from horizon_imagination.run.record_dataset import Recording, record

    agent, source = None, {}
    if args.agent is not None:
        snapshot = place_of(args.agent).agent
        agent = Agent.load(snapshot, args.device)
        run = args.agent.resolve().name
        source = {"run": run, "snapshot": snapshot.name} | trained_for(snapshot)
    what = Recording(
        env=args.env,
        out=args.out,
        episodes=args.episodes,
        steps=args.steps,
        seed=args.seed,
        greedy=args.greedy,
        source=source,
    )
    unit = "episodes" if args.episodes is not None else "steps"
    with counted(unit, args.episodes or args.steps or 0) as done:
        by_episode = args.episodes is not None
        record(what, agent, lambda ended: done(int(ended) if by_episode else 1, 1))
    figures = info(args.out)
    print(
        f"{args.out}: {figures['episodes']} episodes, {figures['steps']} steps, "
        f"mean return {number(figures['return_mean'])}"
    )
    return 0
