"""The folder of a run: what it was started with, who works in it, and its metrics."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from horizon_imagination.config import Config
from horizon_imagination.config_json import differences, from_json, to_json
from horizon_imagination.errors import UsageError
from horizon_imagination.files import in_place, is_temporary, write_json, write_text
from horizon_imagination.schema import NUMBERS, parse, read_bytes, read_json
from horizon_imagination.snapshots import snapshots

T = TypeVar("T")

CONFIG, LAUNCH, METRICS, LOCK = "config.json", "run.json", "metrics.jsonl", ".lock"
EVALUATIONS, VIDEOS, SESSIONS = "evaluations", "videos", "sessions.jsonl"
REPLAY, TENSORBOARD = "replay", "tensorboard"
OF_A_START = (REPLAY, TENSORBOARD)
"""Folders that a run has before its first epoch is finished."""
METRICS_LARGEST = 2**30
"""Bytes of metrics that are read at most."""

MAY_CHANGE = (
    "runtime.",
    "training.epochs",
    "training.snapshot_every",
    "training.keep_snapshots",
    "training.keep_every_hours",
    "training.evaluate_every",
    "training.evaluation_episodes",
    "training.target_return",
    "training.strips_every",
    "training.examine_every",
    "offline.controller_epochs",
    "env.step_timeout",
    "env.reset_timeout",
    "env.max_failures",
    "env.memory_limit",
)
"""Fields that may differ when a run goes on: none of them decides what is learned from what."""


@dataclass(frozen=True)
class Launch:
    """What a run was started from, besides its config."""

    preset: str
    offline: str | None = None
    init_from: str | None = None
    freeze: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    """What was given as a Python object, and is needed again."""


def read_config(folder: Path) -> Config:
    """The config of a run."""
    return _read(folder / CONFIG, Config)


def read_launch(folder: Path) -> Launch:
    """What a run was started from."""
    return _read(folder / LAUNCH, Launch)


def is_run(folder: Path) -> bool:
    """Whether a run was started in this folder."""
    return (folder / CONFIG).is_file()


def has_begun(folder: Path) -> bool:
    """Whether a run has anything to go on from: a snapshot, or metrics of an epoch."""
    metrics = folder / METRICS
    return bool(snapshots(folder)) or (metrics.is_file() and metrics.stat().st_size > 0)


def abandon(folder: Path, described: bool) -> None:
    """Remove what a start has left that finished no epoch; all, unless the run was described by
    another command before."""
    for path in folder.iterdir():
        if path.name == LOCK or (described and path.name in (CONFIG, LAUNCH)):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def strips_of(folder: Path, epoch: int) -> Path:
    """The film strips that a run writes after an epoch, counted from 0.

    >>> strips_of(Path("run"), 19).as_posix()
    'run/videos/epoch-000020.png'
    """
    return folder / VIDEOS / f"epoch-{epoch + 1:06d}.png"


def default_folder(name: str, config: Config) -> Path:
    """runs/PRESET-ENV-SEED.

    >>> default_folder("demo", Config()).as_posix()
    'runs/demo-catch-0'
    """
    env = config.env.id.removeprefix("ALE/").removesuffix("-v5")
    plain = "".join(x if x.isalnum() or x in "-_." else "-" for x in env)
    return Path("runs") / f"{name}-{plain}-{config.seed}"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep every other process from training in the folder, which is made if it is missing.

    A folder that holds no run in the end is left as it was.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / LOCK, "a+", opener=in_place)  # noqa: SIM115  (it stays open as long as the claim)
    except OSError as error:
        raise UsageError(
            f"cannot write to the folder {folder}: {error.strerror}; make it writable, or name "
            "another one with --out"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UsageError(
                f"another process ({file.read().strip() or 'unknown'}) is training in {folder}; "
                "wait for it, stop it, or name another folder with --out"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            if not is_run(folder):
                (folder / LOCK).unlink(missing_ok=True)
                if made and not any(folder.iterdir()):
                    folder.rmdir()


def prepare(folder: Path, config: Config, launch: Launch) -> None:
    """Write down what the run is, or check that a run that is there is the same one.

    A config that could not be read back, such as one with an infinite number, is refused.
    """
    from_json(json.loads(json.dumps(to_json(config))))
    if not is_run(folder):
        strange = sorted(x.name for x in folder.iterdir() if not _may_be_there(x))
        if strange:
            raise UsageError(
                f"{folder} is not empty and holds no run ({', '.join(strange[:3])}); "
                "name a new folder with --out"
            )
        write_json(folder / LAUNCH, asdict(launch))
        write_json(folder / CONFIG, to_json(config))
        return
    another = _differences(folder, config, launch)
    if another and has_begun(folder):
        more = f" and {len(another) - 6} more" if len(another) > 6 else ""
        raise UsageError(
            f"{folder} is a run of another config ({', '.join(another[:6])}{more}); "
            "name another folder with --out, or give the same options to resume it"
        )
    if another:  # a start that finished no epoch claims nothing
        for name in OF_A_START:
            shutil.rmtree(folder / name, ignore_errors=True)
        write_json(folder / LAUNCH, asdict(launch))
    write_json(folder / CONFIG, to_json(config))


def rewind_metrics(folder: Path, epoch: int) -> None:
    """Forget the metrics of epochs that will be trained again, from `epoch` on."""
    path = folder / METRICS
    if not path.is_file():
        return
    lines = read_bytes(path, METRICS_LARGEST).split(b"\n")
    kept = [line.decode() for line in lines if _epoch(line) < epoch]
    write_text(path, "".join(f"{line}\n" for line in kept))


def _differences(folder: Path, config: Config, launch: Launch) -> list[str]:
    """What keeps a run from going on with this config, as `name: before -> now`."""
    before = read_launch(folder)
    if before.given != launch.given:
        given = ", ".join(f"{name}=..." for name in before.given) or "none of those"
        raise UsageError(
            f"{folder} was started from Python and needs what it was given then: "
            f"hi.train(config, out={str(folder)!r}, {given})"
        )
    found = [
        line
        for line in differences(read_config(folder), config)
        if not line.split(":")[0].startswith(MAY_CHANGE)
    ]
    for name in ("offline", "init_from", "freeze"):
        old, new = getattr(before, name), getattr(launch, name)
        if old != new:
            found.append(f"{name}: {old} -> {new}")
    return found


def _may_be_there(path: Path) -> bool:
    """Whether a start that was killed leaves this."""
    return path.name in (LOCK, LAUNCH) or is_temporary(path)


def _epoch(line: bytes) -> int:
    """The epoch of a line of metrics; a large number for half a line, or a damaged one."""
    try:
        value = parse(line, METRICS)
    except UsageError:
        return NUMBERS
    epoch = value.get("epoch") if isinstance(value, dict) else None
    return epoch if type(epoch) is int and epoch >= 0 else NUMBERS


def _read(path: Path, kind: type[T]) -> T:
    if not path.exists():
        raise UsageError(f"{path.parent} is no run: it has no {path.name}")
    return read_json(path, kind)
