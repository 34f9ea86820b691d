"""Episodes on disk: the format of datasets and of a run's own replay (see docs/data.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from horizon_imagination.actions import ActionSpace, as_space
from horizon_imagination.config import EnvConfig
from horizon_imagination.config_json import to_json
from horizon_imagination.data.columns import Column, FrameFile, GrowingArray
from horizon_imagination.data.layout import (
    FIRST,
    FRAMES,
    LAST,
    Description,
    Episode,
    columns_of,
    complete_rows,
    episode_table,
    is_storable,
    read_description,
)
from horizon_imagination.errors import UsageError
from horizon_imagination.files import file_hash
from horizon_imagination.schema import checked


@dataclass(frozen=True)
class Position:
    """Where the writing of a store stood."""

    rows: int
    open: bool
    """Whether the last episode went on."""
    info: dict[str, Any] = field(default_factory=dict)
    """Of that episode."""


class Store:
    """Episodes in a folder of flat append-only files, one row per frame.

    Row t holds a frame and the action taken on it, the reward and the end that followed. Rows
    count once their byte is in `marks.u8`, which is written last: a process that is killed at any
    point leaves every earlier row as it was.
    """

    def __init__(self, folder: Path, description: Description, writable: bool) -> None:
        self.folder = folder
        self.frame_shape = description.frame_shape
        self.action_space = description.action_space
        self.env_id = description.env_id
        self.env, self.played_by = description.env, description.played_by
        self.writable = writable
        self.version = 0
        """Changes whenever rows or episodes do."""
        self._sha256 = dict(description.sha256)
        types = columns_of(self.action_space)
        self._files = (FRAMES, *(column.file for column in types.values()))
        rows = complete_rows(folder, self.frame_shape, types)
        if rows < description.rows:
            raise UsageError(
                f"{folder} is truncated: {description.rows} rows are promised, {rows} are there; "
                "restore it from a copy, or see horizon data validate"
            )
        self._frames = FrameFile(folder / FRAMES, self.frame_shape, writable)
        self._columns = {
            name: Column(folder / column.file, column.read(folder, rows), writable)
            for name, column in types.items()
        }
        marks = self._columns["marks"].values
        if rows and not marks[0] & FIRST:
            raise UsageError(
                f"{folder} is damaged: row 0 of {types['marks'].file} begins no episode"
            )
        self._starts = GrowingArray(np.flatnonzero(marks & FIRST))
        self._open = rows > 0 and not marks[-1] & LAST
        self._info = {int(x["start"]): dict(x["info"]) for x in description.episodes if "info" in x}
        if writable:
            self._cut(rows)
        elif self._open:
            for name in ("action", "reward", "terminated"):
                self._columns[name].values[-1] = 0

    @classmethod
    def create(
        cls,
        folder: Path | str,
        frame_shape: tuple[int, int, int],
        action_space: ActionSpace | int,
        env_id: str,
        *,
        env: EnvConfig | None = None,
        played_by: Mapping[str, Any] | None = None,
    ) -> "Store":
        """Start an empty dataset in a folder that does not hold one yet.

        `env` is the whole config of the world `env_id`, and `played_by` says who acts.
        """
        folder = Path(folder)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists and is not empty; name a new folder for the dataset")
        folder.mkdir(parents=True, exist_ok=True)
        space = as_space(action_space)
        for name in (FRAMES, *(column.file for column in columns_of(space).values())):
            (folder / name).touch()
        description = Description(
            frame_shape,
            space,
            env_id,
            env={} if env is None else to_json(env),
            played_by=played_by or {},
        )
        description.write(folder)
        return cls(folder, description, writable=True)

    @classmethod
    def open(cls, folder: Path | str, mode: Literal["r", "a"] = "r") -> "Store":
        """Open a dataset to read ("r") or to go on writing where it stops ("a")."""
        return cls(Path(folder), read_description(Path(folder)), writable=mode == "a")

    def reload(self) -> None:
        """Read the files again, up to what another process, which writes them, has flushed."""
        if self.writable:
            raise ValueError(f"{self.folder} is written here, so there is nothing to read again")
        version = self.version
        self.close()
        self.__init__(self.folder, read_description(self.folder), writable=False)
        self.version = version + 1

    def begin(self, frame: np.ndarray, info: Mapping[str, Any] | None = None) -> None:
        """Start an episode; one that is still open ends here, truncated."""
        self._check_frame(frame)
        self._unseal()
        if self._open:
            self.end()
        row = self.num_frames
        self._append(row, frame, FIRST)
        self._starts.put(len(self._starts), np.array([row]))
        self._open = True
        if info:
            self._info[row] = dict(info)

    def add(
        self,
        action: Any,
        reward: float,
        terminated: bool,
        truncated: bool,
        next_frame: np.ndarray,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        """Append one step; the episode is closed when it terminated or was truncated."""
        if not self._open:
            raise ValueError("no episode is open; call begin(frame) after an episode's end")
        if problem := self.action_space.problem(action):
            raise UsageError(problem)
        if not is_storable(reward):
            raise UsageError(f"the reward is {reward}: {self.folder} takes finite numbers only")
        self._check_frame(next_frame)
        self._unseal()
        row = self.num_frames
        ended = terminated or truncated
        taken = np.asarray(action).reshape(self.action_space.shape)
        step = {"action": taken, "reward": float(reward), "terminated": bool(terminated)}
        self._append(row, next_frame, LAST if ended else 0, step)
        self._open = not ended
        if info:
            start = int(self._starts.values[-1])
            self._info[start] = self._info.get(start, {}) | dict(info)

    def end(self, info: Mapping[str, Any] | None = None) -> None:
        """Close the open episode as truncated, without a further frame."""
        if self._open:
            self._unseal()
            row = self.num_frames - 1
            self._columns["marks"].put(row, self.marks[row:] | LAST)
            self._open = False
            self.version += 1
        if info and len(self._starts):
            start = int(self._starts.values[-1])
            self._info[start] = self._info.get(start, {}) | dict(info)

    def position(self) -> dict[str, Any]:
        """Where the writing stands, as JSON; everything before it is safe on the disk."""
        self.flush()
        start = int(self._starts.values[-1]) if len(self._starts) else -1
        return {"rows": self.num_frames, "open": self._open, "info": self._info.get(start, {})}

    def rewind(self, position: Mapping[str, Any]) -> None:
        """Forget what was written after `position`, exactly; its open episode is open again."""
        where = checked(dict(position), Position, "the position of the replay")
        rows = where.rows
        if not 0 <= rows <= self.num_frames:
            raise UsageError(
                f"{self.folder} has {self.num_frames} rows, the snapshot expects {rows}; "
                "restore the replay folder that belongs to the snapshot"
            )
        self._unseal()
        self._starts.truncate(int(np.searchsorted(self._starts.values, rows)))
        self._info = {start: info for start, info in self._info.items() if start < rows}
        if len(self._starts):
            start = int(self._starts.values[-1])
            self._info.pop(start, None)
            if where.info:
                self._info[start] = dict(where.info)
        self._open = where.open
        # The promise of dataset.json is lowered before any row goes.
        self._describe(rows).write(self.folder)
        self._cut(rows)
        self.version += 1

    def flush(self) -> None:
        """Return once all rows and `dataset.json` are safe on the disk."""
        if not self.writable:
            return
        self._frames.sync()
        for column in self._columns.values():
            column.sync()
        self._describe(self.num_frames).write(self.folder)

    def seal(self) -> None:
        """Close an open episode and write the hashes that make the dataset checkable."""
        self.end()
        self._frames.trim(self.num_frames)
        self._sha256 = {name: file_hash(self.folder / name) for name in self._files}
        self.flush()

    def close(self) -> None:
        """Flush, give back spare room and close the files; reading stays possible."""
        if self.writable:
            self._frames.trim(self.num_frames)
            self.flush()
            self.writable = False
        self._frames.close()
        for column in self._columns.values():
            column.close()

    @property
    def num_frames(self) -> int:
        return len(self._columns["marks"])

    @property
    def num_steps(self) -> int:
        """Actions taken, in all episodes."""
        return self.num_frames - len(self._starts)

    @property
    def frames(self) -> np.ndarray:
        """Frames by row, a read-only memory map."""
        return self._frames.view()[: self.num_frames]

    @property
    def action(self) -> np.ndarray:
        """The action taken on each frame, in the units of the world; 0 on an episode's last."""
        return self._columns["action"].values[: self.num_frames]

    @property
    def reward(self) -> np.ndarray:
        """The reward that followed each frame; 0 on an episode's last."""
        return self._columns["reward"].values[: self.num_frames]

    @property
    def terminated(self) -> np.ndarray:
        """1 where the step taken on the frame ended the episode for good."""
        return self._columns["terminated"].values[: self.num_frames]

    @property
    def marks(self) -> np.ndarray:
        """Bits that mark the first and the last frame of each episode."""
        return self._columns["marks"].values

    @property
    def is_open(self) -> bool:
        """Whether the last episode still goes on."""
        return self._open

    @property
    def starts(self) -> np.ndarray:
        """The first row of each episode."""
        return self._starts.values

    @property
    def ends(self) -> np.ndarray:
        """The row after the last frame of each episode."""
        return np.append(self._starts.values[1:], self.num_frames)[: len(self._starts)]

    @property
    def episodes(self) -> list[Episode]:
        """All episodes, the open one included."""
        return self._table(self.num_frames)

    def info(self, start: int) -> Mapping[str, Any]:
        """What is known of the episode that begins at a row besides its steps."""
        return self._info.get(start, {})

    @property
    def returns(self) -> list[float]:
        """Sum of rewards of each episode that has ended."""
        return [x.total_reward for x in self.episodes if x.ended != "open"]

    def repair_rewards(self) -> int:
        """Set rewards that are not finite to 0, and say so in their episodes; how many there were.

        Versions before 0.3 stored them, and no learner can use them.
        """
        bad = np.flatnonzero(~np.isfinite(self.reward))
        sealed = bool(self._sha256)
        if len(bad):
            self._unseal()
        for row in bad.tolist():
            self._columns["reward"].put(row, np.zeros(1))
            start = int(self.starts[np.searchsorted(self.starts, row, side="right") - 1])
            count = self._info.get(start, {}).get("repaired_rewards", 0) + 1
            self._info[start] = self._info.get(start, {}) | {"repaired_rewards": count}
        if len(bad):
            self.version += 1
            self.seal() if sealed else self.flush()
        return len(bad)

    def _describe(self, rows: int) -> Description:
        shape, sha256 = self.frame_shape, self._sha256
        lines = tuple(x.line() for x in self._table(rows))
        return Description(
            shape, self.action_space, self.env_id, rows, lines, sha256, self.env, self.played_by
        )

    def _table(self, rows: int) -> list[Episode]:
        reward, terminated = self.reward[:rows], self.terminated[:rows]
        return episode_table(self.starts, reward, terminated, self._open, self._info)

    def _append(
        self, row: int, frame: np.ndarray, mark: int, step: Mapping[str, Any] | None = None
    ) -> None:
        """Write the step taken on the previous row, then the new row; its mark makes it count."""
        self._frames.put(row, frame)
        for name in ("action", "reward", "terminated"):
            column = self._columns[name]
            nothing = np.zeros((1, *column.values.shape[1:]))
            if step is None:
                column.put(row, nothing)
            else:
                column.put(row - 1, np.concatenate([np.asarray(step[name])[None], nothing]))
        self._columns["marks"].put(row, np.array([mark]))
        self.version += 1

    def _cut(self, rows: int) -> None:
        """Drop all rows from `rows` on, and what a step in the making left on the last row."""
        for name in ("marks", "action", "reward", "terminated"):
            self._columns[name].truncate(rows)
        if rows:
            last = self.marks[-1] & ~np.uint8(LAST)
            self._columns["marks"].put(rows - 1, np.array([last if self._open else last | LAST]))
            for name in ("action", "reward", "terminated"):
                column = self._columns[name]
                column.put(rows - 1, np.zeros((1, *column.values.shape[1:])))

    def _unseal(self) -> None:
        if not self.writable:
            raise ValueError(f"{self.folder} was opened to read; open it with mode 'a' to write")
        if self._sha256:
            self._sha256 = {}
            self._describe(self.num_frames).write(self.folder)

    def _check_frame(self, frame: np.ndarray) -> None:
        if frame.shape != self.frame_shape or frame.dtype != np.uint8:
            raise UsageError(
                f"a frame of {self.folder} is uint8 {self.frame_shape} (channel, height, width), "
                f"got {frame.dtype} {frame.shape}"
            )
