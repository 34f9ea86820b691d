"""The folder of a run: what it was started with, who works in it, and its metrics."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from horizon_imagination.config import Config
from horizon_imagination.config_json import differences, from_json, to_json
from horizon_imagination.errors import UsageError

CONFIG, LAUNCH, METRICS, LOCK = "config.json", "run.json", "metrics.jsonl", ".lock"

MAY_CHANGE = (
    "runtime.",
    "training.epochs",
    "training.snapshot_every",
    "training.keep_snapshots",
    "training.evaluate_every",
    "training.evaluation_episodes",
    "training.target_return",
    "training.strips_every",
    "offline.controller_epochs",
    "env.step_timeout",
    "env.reset_timeout",
    "env.max_failures",
)
"""Fields that may differ when a run goes on: none of them decides what is learned from what."""


@dataclass(frozen=True)
class Launch:
    """What a run was started from, besides its config."""

    preset: str
    offline: str | None = None
    init_from: str | None = None
    freeze: tuple[str, ...] = ()


def read_config(folder: Path) -> Config:
    """The config of a run."""
    return from_json(_read(folder / CONFIG), where=str(folder / CONFIG))


def read_launch(folder: Path) -> Launch:
    """What a run was started from."""
    found = _read(folder / LAUNCH)
    try:
        return Launch(**(found | {"freeze": tuple(found["freeze"])}))
    except (TypeError, KeyError) as error:
        raise UsageError(f"{folder / LAUNCH} is damaged: {error}") from error


def is_run(folder: Path) -> bool:
    """Whether a run was started in this folder."""
    return (folder / CONFIG).is_file()


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep every other process from training in the folder, which is made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / LOCK, "a+")  # noqa: SIM115  (it stays open as long as the claim)
    except OSError as error:
        raise UsageError(f"cannot write to the folder {folder}: {error.strerror}") from error
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
        yield


def prepare(folder: Path, config: Config, launch: Launch) -> None:
    """Write down what the run is, or check that a run that is there is the same one."""
    if not is_run(folder):
        strange = sorted(x.name for x in folder.iterdir() if x.name not in _mine())
        if strange:
            raise UsageError(
                f"{folder} is not empty and holds no run ({', '.join(strange[:3])}); "
                "name a new folder with --out"
            )
        write_json(folder / LAUNCH, asdict(launch))
        write_json(folder / CONFIG, to_json(config))
        return
    _refuse_another(folder, config, launch)
    write_json(folder / CONFIG, to_json(config))


def rewind_metrics(folder: Path, epoch: int) -> None:
    """Forget the metrics of epochs that will be trained again, from `epoch` on."""
    path = folder / METRICS
    if not path.is_file():
        return
    kept = [line for line in path.read_text().splitlines() if _epoch(line) < epoch]
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(f"{line}\n" for line in kept))
    os.replace(temporary, path)


def write_json(path: Path, content: Any) -> None:
    """Replace a JSON file in one go."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _refuse_another(folder: Path, config: Config, launch: Launch) -> None:
    before = read_launch(folder)
    found = [
        line
        for line in differences(read_config(folder), config)
        if not line.split(":")[0].startswith(MAY_CHANGE)
    ]
    for name in ("offline", "init_from", "freeze"):
        old, new = getattr(before, name), getattr(launch, name)
        if old != new:
            found.append(f"{name}: {old} -> {new}")
    if found:
        more = f" and {len(found) - 6} more" if len(found) > 6 else ""
        raise UsageError(
            f"{folder} is a run of another config ({', '.join(found[:6])}{more}); "
            "name another folder with --out, or give the same options to resume it"
        )


def _mine() -> set[str]:
    return {LOCK, LAUNCH, f"{LAUNCH}.tmp", f"{CONFIG}.tmp"}


def _epoch(line: str) -> float:
    try:
        return json.loads(line)["epoch"]
    except (ValueError, KeyError, TypeError):
        return float("inf")  # the half line of a killed process


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise UsageError(f"{path.parent} is no run: it has no {path.name}") from None
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}") from error
