"""Checks and figures of a dataset folder."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from horizon_imagination.action_json import space_to_json
from horizon_imagination.actions import ActionSpace, Box, Discrete
from horizon_imagination.data.layout import (
    FIRST,
    FRAMES,
    LAST,
    Description,
    columns_of,
    read_description,
)
from horizon_imagination.data.store import Store
from horizon_imagination.errors import UsageError
from horizon_imagination.files import file_hash


def validate(folder: Path | str) -> list[str]:
    """Everything wrong with a dataset, one line each; an empty list for a good one."""
    folder = Path(folder)
    try:
        description = read_description(folder)
    except UsageError as error:
        return [str(error)]
    problems = _file_problems(folder, description)
    if problems:
        return problems + _hash_problems(folder, description)
    types = columns_of(description.action_space)
    marks, rows = types["marks"].read(folder), description.rows
    if not description.sha256:
        # Rows after the last flush count as soon as their mark is there.
        rows = min(len(marks), *(_rows_there(folder, description, name) for name in types))
    problems = _mark_problems(marks[:rows])
    if not problems:
        columns = {name: column.read(folder, rows) for name, column in types.items()}
        if rows and not marks[rows - 1] & LAST:
            # A step that was never completed may have left its action; readers clear it too.
            for name in ("action", "reward", "terminated"):
                columns[name][-1] = 0
        problems = _description_problems(columns, description)
        problems += _episode_problems(columns, description.action_space)
    return problems + _hash_problems(folder, description)


def info(folder: Path | str) -> dict[str, Any]:
    """The figures of a dataset: what it holds, how its episodes end, what they return."""
    store = Store.open(folder)
    episodes, returns = store.episodes, store.returns
    taken = np.ones(store.num_frames, bool)
    taken[store.ends - 1] = False
    return {
        "env_id": store.env_id,
        "env": dict(store.env),
        "played_by": dict(store.played_by),
        "frame_shape": list(store.frame_shape),
        **space_to_json(store.action_space),
        "episodes": len(episodes),
        "ended": dict(Counter(x.ended for x in episodes)),
        "frames": store.num_frames,
        "steps": store.num_steps,
        "steps_per_episode": float(np.mean([x.num_steps for x in episodes])) if episodes else None,
        "return_mean": float(np.mean(returns)) if returns else None,
        "return_min": float(np.min(returns)) if returns else None,
        "return_max": float(np.max(returns)) if returns else None,
        **_action_figures(store.action_space, store.action[taken]),
        "bytes": sum(x.stat().st_size for x in Path(folder).iterdir() if x.is_file()),
        "sealed": bool(read_description(Path(folder)).sha256),
    }


def _row_bytes(description: Description, name: str) -> int:
    columns = columns_of(description.action_space)
    if name in columns:
        return columns[name].row_bytes
    return int(np.prod(description.frame_shape))


def _path(folder: Path, description: Description, name: str) -> Path:
    columns = columns_of(description.action_space)
    return folder / (columns[name].file if name in columns else FRAMES)


def _rows_there(folder: Path, description: Description, name: str) -> int:
    path = _path(folder, description, name)
    return path.stat().st_size // _row_bytes(description, name)


def _file_problems(folder: Path, description: Description) -> list[str]:
    problems = []
    for name in ("frames", *columns_of(description.action_space)):
        path = _path(folder, description, name)
        if not path.is_file():
            problems.append(f"{path.name}: missing")
            continue
        size, expected = path.stat().st_size, description.rows * _row_bytes(description, name)
        if size < expected:
            lost = description.rows - _rows_there(folder, description, name)
            problems.append(
                f"{path.name}: truncated, {size} bytes instead of {expected} ({lost} of "
                f"{description.rows} rows lost{_first_lost(folder, description, name)})"
            )
        elif size > expected and description.sha256:
            problems.append(f"{path.name}: {size} bytes instead of {expected} in a sealed dataset")
    return problems


def _first_lost(folder: Path, description: Description, name: str) -> str:
    there = _rows_there(folder, description, name)
    for index, episode in enumerate(description.episodes):
        if episode["start"] + episode["length"] > there:
            return f", from episode {index} on"
    return ""


def _hash_problems(folder: Path, description: Description) -> list[str]:
    """Hashes of exactly the files of a dataset; others that are listed are never opened."""
    if not description.sha256:
        return []  # not sealed
    columns, listed = columns_of(description.action_space), description.sha256
    files = (FRAMES, *(column.file for column in columns.values()))
    problems = [f"sha256 in dataset.json lists {name!r}" for name in listed if name not in files]
    for name in files:
        if name not in listed:
            problems.append(f"{name}: dataset.json has hashes, and none of this file")
        elif (folder / name).is_file() and file_hash(folder / name) != listed[name]:
            problems.append(f"{name}: its content does not match the sha256 in dataset.json")
    return problems


def _mark_problems(marks: np.ndarray) -> list[str]:
    if len(marks) and not marks[0] & FIRST:
        return ["marks.u8: row 0 does not begin an episode"]
    unknown = np.flatnonzero(marks > (FIRST | LAST))
    problems = [f"marks.u8: row {row} has the unknown mark {marks[row]}" for row in unknown[:5]]
    # Wherever one episode ends, and only there, the next begins.
    begins, ends = (marks[1:] & FIRST) > 0, (marks[:-1] & LAST) > 0
    for row in np.flatnonzero(begins != ends)[:5] + 1:
        problems.append(f"marks.u8: an episode ends and the next begins at odds around row {row}")
    return problems


def _description_problems(columns: dict[str, np.ndarray], description: Description) -> list[str]:
    starts = np.flatnonzero(columns["marks"][: description.rows] & FIRST).tolist()
    said = [(x["start"], x["length"]) for x in description.episodes]
    lengths = np.diff(starts, append=description.rows).tolist()
    if said == list(zip(starts, lengths, strict=True)):
        return []
    for index, (mine, line) in enumerate(
        zip(zip(starts, lengths, strict=True), said, strict=False)
    ):
        if mine != line:
            return [
                f"episode {index}: dataset.json says start {line[0]}, length {line[1]}; "
                f"the marks say start {mine[0]}, length {mine[1]}"
            ]
    return [f"dataset.json lists {len(said)} episodes, the marks have {len(starts)}"]


def _action_figures(space: ActionSpace, action: np.ndarray) -> dict[str, Any]:
    """How often each action was taken, for each factor; of vectors their mean and spread."""
    for what, bad in _outside(space, action).items():
        if bad.any():
            raise UsageError(f"the dataset has {what}; see horizon data validate")
    if isinstance(space, Discrete):
        return {"action_counts": np.bincount(action, minlength=space.n).tolist()}
    if isinstance(space, Box):
        figures = {"action_mean": action.mean(0), "action_std": action.std(0)}
        return {name: x.round(4).tolist() if len(action) else None for name, x in figures.items()}
    factors = zip(action.T, space.factors, strict=True)
    return {"action_counts": [np.bincount(x, minlength=n).tolist() for x, n in factors]}


def _outside(space: ActionSpace, action: np.ndarray) -> dict[str, Any]:
    """Rows whose action is not in the space, under the words for it."""
    if isinstance(space, Discrete):
        return {f"actions outside 0 to {space.n - 1}": (action < 0) | (action >= space.n)}
    if isinstance(space, Box):
        reach = np.subtract(space.high, space.low) * 1e-5
        inside = (action >= space.low - reach) & (action <= space.high + reach)
        return {f"actions that are not {space.words()}": ~np.all(inside, axis=-1)}
    inside = (action >= 0) & (action < np.array(space.factors))
    return {f"actions outside {space.words()}": ~np.all(inside, axis=-1)}


def step_problems(store: Store) -> list[str]:
    """What is wrong with the steps of a store that is open, one line per episode."""
    marks = store.marks.copy()
    marks[-1:] |= LAST  # no step was taken yet on the last frame of an open episode
    columns = {"action": store.action, "reward": store.reward, "terminated": store.terminated}
    return _episode_problems(columns | {"marks": marks}, store.action_space)


def _episode_problems(columns: dict[str, np.ndarray], space: ActionSpace) -> list[str]:
    marks, action, flags = columns["marks"], columns["action"], columns["terminated"]
    last = (marks & LAST) > 0
    before_last = np.append(last[1:], False)
    # A last frame has action 0, whether a box holds it or not.
    given = (action != 0) if action.ndim == 1 else (action != 0).any(-1)
    outside = {what: bad & (given | ~last) for what, bad in _outside(space, action).items()}
    checks = {
        **outside,
        "rewards that are not finite": ~np.isfinite(columns["reward"]),
        "terminated flags that are neither 0 nor 1": flags > 1,
        "terminated flags before the last step": (flags == 1) & ~before_last & ~last,
        "an action, reward or flag on the last frame": last
        & (given | (columns["reward"] != 0) | (flags != 0)),
    }
    episode = np.cumsum(marks & FIRST) - 1
    starts = np.flatnonzero(marks & FIRST)
    problems = []
    for what, bad in checks.items():
        rows = np.flatnonzero(bad)
        for index in np.unique(episode[rows]):
            steps = rows[episode[rows] == index] - starts[index]
            shown = ", ".join(map(str, steps[:3])) + (", ..." if len(steps) > 3 else "")
            problems.append(f"episode {index}: {what} (step {shown})")
    return problems
