"""Datasets from what people have: `.npz` episodes, videos with a table of actions."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from einops import rearrange

from horizon_imagination.action_json import MOST_ACTIONS
from horizon_imagination.actions import ActionSpace, Box, Discrete, MultiDiscrete
from horizon_imagination.data.npz import read_npz
from horizon_imagination.data.store import Store
from horizon_imagination.data.video import VIDEO_SUFFIXES, decode, read_table
from horizon_imagination.envs.resize import resize
from horizon_imagination.errors import UsageError
from horizon_imagination.files import output_folder


@dataclass(frozen=True)
class SourceFile:
    """One episode to import: n steps, and how to read its n + 1 frames one by one."""

    name: str
    action: np.ndarray
    reward: np.ndarray
    terminated: bool
    frames: Callable[[], Iterator[np.ndarray]]
    """Yields uint8 frames, (height, width, channel)."""


def import_npz(
    folder_in: Path | str,
    out: Path | str,
    size: int | None = None,
    num_actions: int | None = None,
    env_id: str = "imported",
    bounds: tuple[float, float] | None = None,
) -> Path:
    """Import a folder with one `.npz` per episode; `size` resizes, none keeps the frames' size.

    `bounds` are the lowest and the highest value of every entry of vectors.
    """
    sources = [SourceFile(path.name, *read_npz(path)) for path in _files(folder_in, {".npz"})]
    return import_episodes(sources, out, size, num_actions, env_id, bounds)


def import_videos(
    folder_in: Path | str,
    out: Path | str,
    size: int | None = 64,
    num_actions: int | None = None,
    env_id: str = "imported",
) -> Path:
    """Import `name.mp4` with `name.csv` (header `action[,reward[,terminated]]`) per episode."""
    videos = _files(folder_in, VIDEO_SUFFIXES)
    stems = {path.stem for path in videos}
    for table in sorted(Path(folder_in).glob("*.csv")):
        if table.stem not in stems:
            raise UsageError(f"{table} has no video of the same name; add it or remove the table")
    sources = [
        SourceFile(path.name, *read_table(path.with_suffix(".csv")), lambda path=path: decode(path))
        for path in videos
    ]
    return import_episodes(sources, out, size, num_actions, env_id)


def import_episodes(
    sources: Sequence[SourceFile],
    out: Path | str,
    size: int | None,
    num_actions: int | None,
    env_id: str,
    bounds: tuple[float, float] | None = None,
) -> Path:
    """Write a sealed dataset to `out`, which appears only once it is complete."""
    out = Path(out)
    if out.exists():
        raise UsageError(f"{out} exists already; name a new folder for the dataset")
    if size is not None and size < 1:
        raise UsageError(f"size must be at least 1, got {size}")
    _check_steps(sources)
    space = _action_space(sources, num_actions, bounds)
    output_folder(out.parent, "name a writable place for the dataset")
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        store: Store | None = None
        for source in sources:
            store = _write(source, store, temporary, size, space, env_id)
        assert store is not None
        store.seal()
        store.close()
        temporary.chmod(0o755)
        os.rename(temporary, out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return out


def _files(folder: Path | str, suffixes: set[str]) -> list[Path]:
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; name the folder that holds the episodes")
    files = sorted(x for x in folder.iterdir() if x.suffix.lower() in suffixes)
    if not files:
        raise UsageError(f"{folder} has no {' or '.join(sorted(suffixes))} file to import")
    return files


def _check_steps(sources: Sequence[SourceFile]) -> None:
    for source in sources:
        if len(source.action) == 0:
            raise UsageError(f"{source.name} has no action; an episode has at least one step")
        if len(source.reward) != len(source.action):
            raise UsageError(
                f"{source.name} has {len(source.action)} actions and {len(source.reward)} rewards; "
                "expected as many of both"
            )
        if not np.isfinite(source.reward).all():
            raise UsageError(f"{source.name} has a reward that is not finite")


def _action_space(
    sources: Sequence[SourceFile], num_actions: int | None, bounds: tuple[float, float] | None
) -> ActionSpace:
    """The space of all episodes; of vectors its bounds must be given, since data cannot tell."""
    shapes = {(x.action.shape[1:], np.issubdtype(x.action.dtype, np.floating)) for x in sources}
    if len(shapes) > 1:
        raise UsageError("the episodes have actions of different kinds; import them apart")
    shape, real = shapes.pop()
    if not shape:
        return Discrete(_check_actions(sources, num_actions))
    if num_actions is not None:
        raise UsageError("--num-actions is for single whole numbers; these actions have several")
    if not real:
        most = np.max([x.action.max(0) for x in sources], axis=0)
        if min(x.action.min() for x in sources) < 0 or most.max() >= MOST_ACTIONS:
            raise UsageError("actions of several numbers: expected 0, 1, 2, ... below 2^31")
        return MultiDiscrete(tuple(int(x) + 1 for x in most))
    if bounds is None:
        raise UsageError(
            "actions are vectors: give the bounds of their entries with --bounds LOW HIGH"
        )
    try:
        return Box((bounds[0],) * shape[0], (bounds[1],) * shape[0])
    except ValueError as error:
        raise UsageError(f"--bounds: {error}") from None


def _check_actions(sources: Sequence[SourceFile], num_actions: int | None) -> int:
    for source in sources:
        if source.action.min() < 0:
            raise UsageError(f"{source.name} has a negative action; expected 0, 1, 2, ...")
        if int(source.action.max()) >= MOST_ACTIONS:
            raise UsageError(
                f"{source.name} has the action {int(source.action.max())}; expected numbers below "
                "2^31, from 0 on without gaps"
            )
    highest = max(int(source.action.max()) for source in sources)
    if num_actions is not None and highest >= num_actions:
        raise UsageError(
            f"action {highest} is not one of {num_actions} actions (0 to {num_actions - 1}); "
            "raise the number of actions or correct the data"
        )
    return highest + 1 if num_actions is None else num_actions


def _write(
    source: SourceFile,
    store: Store | None,
    folder: Path,
    size: int | None,
    space: ActionSpace,
    env_id: str,
) -> Store:
    """Append one episode; the first one decides the shape of all frames."""
    steps, count = len(source.action), 0
    for count, frame in enumerate(source.frames(), start=1):
        image = frame if size is None else resize(frame, size)
        image = np.ascontiguousarray(rearrange(image, "h w c -> c h w"))
        if store is None:
            played_by = {"policy": "imported"}
            store = Store.create(folder, image.shape, space, env_id, played_by=played_by)
        if image.shape != store.frame_shape:
            raise UsageError(
                f"{source.name} has frames of shape {image.shape}, earlier episodes "
                f"{store.frame_shape} (channel, height, width); give a size to make them equal"
            )
        if count == 1:
            store.begin(image, {"source": source.name})
        elif count <= steps + 1:
            at, last = count - 2, count == steps + 1
            ended = last and source.terminated
            store.add(source.action[at], float(source.reward[at]), ended, last and not ended, image)
    if store is None or count != steps + 1:
        raise UsageError(
            f"{source.name} has {count} frames for {steps} actions; expected {steps + 1} frames, "
            "one before each action and one after the last"
        )
    return store
