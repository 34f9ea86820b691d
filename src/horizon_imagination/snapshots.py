"""Where agents are kept: in the snapshots of a run, in a folder, or in one file."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horizon_imagination.action_json import WrittenActions, check_written, space_from_json
from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError
from horizon_imagination.files import file_hash, sync, write_json
from horizon_imagination.schema import LARGEST, checked, opened, parse, read_json

if TYPE_CHECKING:
    from horizon_imagination.actions import ActionSpace

DESCRIPTION, WEIGHTS = "agent.json", "weights.safetensors"
HEADER = "horizon_imagination"
"""The entry of a file's header that says which agent the file is."""
CHECKPOINTS, SNAPSHOT, BEST = "checkpoints", "epoch-", "best-"
STATE, SCORE = "state.json", "score.json"
"""The counters of a snapshot, and the score of the best weights."""
HASHES, DAMAGED = "sha256.json", ".damaged"
RESTORE = "restore the snapshot from a copy, or name another one"


@dataclass
class UnfinishedEpoch:
    """An epoch in whose middle a snapshot was taken; its metrics are in `training.safetensors`."""

    over: tuple[str, ...]
    """Names of the stages that are over."""
    stage: str
    """The stage that was going on, or came next."""
    steps: int
    """Steps of it that were done."""
    seconds: float
    collected: int = 0
    """Steps of a collection that was under way."""
    failures: int = 0
    """Failures of the environment in it."""
    visible: int | None = None
    """Rows of the replay that were learned from while others were collected; none for all."""

    def __post_init__(self) -> None:
        if min(self.steps, self.collected, self.failures, self.visible or 0) < 0:
            raise ValueError("steps, rows and failures are counted from 0")


@dataclass
class Progress:
    """Counters and small values of a run, besides its networks; `state.json` of a snapshot."""

    epoch: int = 0
    """Epochs completed."""
    env_steps: int = 0
    seconds: float = 0.0
    """Wall time over all stretches of the run."""
    best_return: float | None = None
    reached: float | None = None
    """The evaluation that reached `training.target_return`, if one did."""
    failures: int = 0
    """Failures of the environment so far."""
    store: dict[str, Any] = field(default_factory=dict)
    """Where the writing of the replay stands."""
    env: Any = None
    """State of the environment, or None where it has none."""
    learner_steps: dict[str, int] = field(default_factory=dict)
    unfinished: UnfinishedEpoch | None = None
    """None between two epochs."""

    def __post_init__(self) -> None:
        if min(self.epoch, self.env_steps, self.failures, *self.learner_steps.values()) < 0:
            raise ValueError("epochs, steps and failures are counted from 0")


@dataclass(frozen=True)
class BestScore:
    """What `score.json` says of the best weights."""

    epoch: int
    env_steps: int
    score: float = field(metadata={"key": "return"})


@dataclass(frozen=True)
class AgentDescription:
    """What `agent.json` says: all that is needed to build the agent."""

    config: Config
    num_actions: int | None = None
    """Of a discrete space; another one is in `actions`."""
    view: dict[str, Any] | None = None
    """How the world is read; none in files of before 0.3."""
    actions: WrittenActions | None = None
    given_world: bool = False
    """Whether the world model was given from Python, and is not here."""

    def __post_init__(self) -> None:
        check_written(self.num_actions, self.actions)

    @property
    def action_space(self) -> "ActionSpace":
        """What the agent can do."""
        return space_from_json(self.num_actions, self.actions)


@dataclass(frozen=True)
class AgentFile:
    """What the header of a file says that is an agent."""

    agent: AgentDescription
    version: str
    """Of the package that wrote it."""
    trained: dict[str, int] = field(default_factory=dict)
    """Epochs and environment steps, as far as they are known."""


def snapshots(run: Path, prefix: str = SNAPSHOT) -> list[Path]:
    """Complete snapshots, oldest first; one that was being written is not among them."""
    folder = run / CHECKPOINTS
    found = folder.glob(f"{prefix}[0-9]*") if folder.is_dir() else []
    return sorted(path for path in found if path.is_dir() and not path.suffix)


def check_hashes(folder: Path, *names: str) -> None:
    """Refuse a snapshot of which a file has changed since it was written; `names` or all of them.

    Snapshots of before 0.3 have no hashes.
    """
    path = folder / HASHES
    if not path.exists():
        return
    listed = checked(read_json(path, dict), dict[str, str], f"{path}: ")
    for name in names or listed:
        if "/" in name or not (folder / name).is_file():
            raise UsageError(f"{folder / name} is missing; {RESTORE}")
        if file_hash(folder / name) != listed.get(name):
            raise UsageError(f"{folder / name} has changed since it was written; {RESTORE}")


def set_aside(folder: Path) -> None:
    """Keep a damaged snapshot under a name by which nobody loads it."""
    aside = folder.with_name(f"{folder.name}{DAMAGED}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)


def publish(temporary: Path, keep: int, prefix: str = SNAPSHOT, *, hours: float = 0.0) -> Path:
    """Rename a written snapshot atomically to its name, and drop old ones (see `superseded`).

    Of several snapshots of one epoch each has a `+` more than the one before, which stays until
    the new one is there.
    """
    final = temporary.with_suffix("")
    there = [path.name for path in final.parent.iterdir() if path.name.rstrip("+") == final.name]
    if there:
        final = final.with_name(max(there, key=len) + "+")
    hashes = {path.name: file_hash(path) for path in sorted(temporary.iterdir())}
    write_json(temporary / HASHES, hashes)
    for file in (*temporary.iterdir(), temporary):
        sync(file)
    temporary.rename(final)
    sync(final.parent)
    others = [path for path in snapshots(final.parent.parent, prefix) if path != final]
    for old in superseded(others, keep - 1, hours):
        shutil.rmtree(old)
    return final


def superseded(kept: list[Path], last: int, hours: float) -> list[Path]:
    """The snapshots, oldest first, that may go: all but the `last` ones, and with `hours` all but
    the first of every so many hours of training."""
    old, periods, found = kept[: max(0, len(kept) - last)], set(), []
    for path in old:
        period = _period(path, hours) if hours > 0 else 0
        if period == 0 or period in periods:
            found.append(path)
        periods.add(period)
    return found


def _period(snapshot: Path, hours: float) -> int:
    """In which stretch of so many hours of training a snapshot was taken, from 0 on."""
    try:
        return int(read_state(snapshot).seconds / (3600 * hours))
    except UsageError:
        return 0  # one that cannot be read is not worth keeping


def find_agent(path: Path) -> Path:
    """Where an agent is: the folder of a run's best snapshot, or of its latest; or `path` itself,
    which is a snapshot or a file with an agent."""
    if path.is_file():
        return path
    for candidate in (path, *snapshots(path, BEST)[::-1], *snapshots(path)[::-1]):
        if (candidate / DESCRIPTION).is_file():
            return candidate
    if not path.exists():
        raise UsageError(
            f"{path} does not exist; expected the folder of a run or of a snapshot, "
            "or a file of horizon export --agent"
        )
    raise UsageError(f"{path} holds no snapshot yet; train first (horizon train --out {path})")


def home(path: Path) -> Path:
    """Where the results of an agent go: into its run, or into a folder beside its file."""
    if path.is_file():
        return path.with_name(f"{path.stem}-results")
    if path.absolute().parent.name != CHECKPOINTS:
        return path
    whole = path if path.parent.name else path.absolute()  # named from within the run
    return whole.parent.parent


def agent_files(place: Path) -> tuple[Path, Path]:
    """The files of an agent's description and weights: one file may hold both."""
    return (place, place) if place.is_file() else (place / DESCRIPTION, place / WEIGHTS)


def read_agent_description(place: Path) -> AgentDescription:
    """The config, the action space and the view of an agent."""
    if place.is_file():
        return read_agent_file(place).agent
    return read_json(place / DESCRIPTION, AgentDescription)


def read_agent_file(path: Path) -> AgentFile:
    """What the header of a file says of its agent, without reading the weights."""
    refused = f"{path} holds no agent; expected a file of horizon export --agent, or a run's folder"
    with opened(path) as file:
        length = int.from_bytes(file.read(8), "little")  # how many bytes of JSON follow
        if not 0 < length <= min(LARGEST, os.fstat(file.fileno()).st_size):
            raise UsageError(refused)
        header = file.read(length)
    try:
        said = checked(parse(header, str(path))["__metadata__"][HEADER], str)
    except (UsageError, KeyError, TypeError) as error:
        raise UsageError(refused) from error
    return checked(parse(said, str(path)), AgentFile, f"{path}: ")


def read_state(folder: Path) -> Progress:
    """The counters of a snapshot; arrays of the environment's state are references."""
    return read_json(folder / STATE, Progress)


def read_score(folder: Path) -> BestScore:
    """The score of the best weights."""
    return read_json(folder / SCORE, BestScore)
