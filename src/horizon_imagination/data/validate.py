"""Checks and figures of a dataset folder."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from horizon_imagination.data.layout import (
    COLUMNS,
    FILES,
    FIRST,
    FRAMES,
    LAST,
    Description,
    file_hash,
    read_description,
)
from horizon_imagination.data.store import Store
from horizon_imagination.errors import UsageError


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
    marks, rows = np.fromfile(folder / FILES["marks"], COLUMNS["marks"]), description.rows
    if not description.sha256:
        # Rows after the last flush count as soon as their mark is there.
        rows = min(len(marks), *(_rows_there(folder, description, name) for name in FILES))
    problems = _mark_problems(marks[:rows])
    if not problems:
        columns = {
            name: np.fromfile(folder / FILES[name], dtype, count=rows)
            for name, dtype in COLUMNS.items()
        }
        if rows and not marks[rows - 1] & LAST:
            # A step that was never completed may have left its action; readers clear it too.
            for name in ("action", "reward", "terminated"):
                columns[name][-1] = 0
        problems = _description_problems(columns, description)
        problems += _episode_problems(columns, description.num_actions)
    return problems + _hash_problems(folder, description)


def info(folder: Path | str) -> dict[str, Any]:
    """The figures of a dataset: what it holds, how its episodes end, what they return."""
    store = Store.open(folder)
    episodes, returns = store.episodes, store.returns
    taken = np.ones(store.num_frames, bool)
    taken[store.ends - 1] = False
    return {
        "env_id": store.env_id,
        "frame_shape": list(store.frame_shape),
        "num_actions": store.num_actions,
        "episodes": len(episodes),
        "ended": dict(Counter(x.ended for x in episodes)),
        "frames": store.num_frames,
        "steps": store.num_steps,
        "steps_per_episode": float(np.mean([x.num_steps for x in episodes])) if episodes else None,
        "return_mean": float(np.mean(returns)) if returns else None,
        "return_min": float(np.min(returns)) if returns else None,
        "return_max": float(np.max(returns)) if returns else None,
        "action_counts": np.bincount(store.action[taken], minlength=store.num_actions).tolist(),
        "bytes": sum(x.stat().st_size for x in Path(folder).iterdir() if x.is_file()),
        "sealed": bool(read_description(Path(folder)).sha256),
    }


def _row_bytes(description: Description, name: str) -> int:
    if name in COLUMNS:
        return np.dtype(COLUMNS[name]).itemsize
    return int(np.prod(description.frame_shape))


def _rows_there(folder: Path, description: Description, name: str) -> int:
    path = folder / FILES.get(name, FRAMES)
    return path.stat().st_size // _row_bytes(description, name)


def _file_problems(folder: Path, description: Description) -> list[str]:
    problems = []
    for name in ("frames", *FILES):
        path = folder / FILES.get(name, FRAMES)
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
    return [
        f"{name}: its content does not match the sha256 in dataset.json"
        for name, expected in description.sha256.items()
        if (folder / name).is_file() and file_hash(folder / name) != expected
    ]


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


def _episode_problems(columns: dict[str, np.ndarray], num_actions: int) -> list[str]:
    marks, action, flags = columns["marks"], columns["action"], columns["terminated"]
    last = (marks & LAST) > 0
    before_last = np.append(last[1:], False)
    checks = {
        f"actions outside 0 to {num_actions - 1}": (action < 0) | (action >= num_actions),
        "rewards that are not finite": ~np.isfinite(columns["reward"]),
        "terminated flags that are neither 0 nor 1": flags > 1,
        "terminated flags before the last step": (flags == 1) & ~before_last & ~last,
        "an action, reward or flag on the last frame": last
        & ((action != 0) | (columns["reward"] != 0) | (flags != 0)),
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
