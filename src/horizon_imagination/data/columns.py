"""The files of a dataset: flat, append-only, one row per frame."""

import os
from pathlib import Path

import numpy as np

GROWTH_BYTES = 64 * 2**20
"""The most by which the frame file grows ahead of its last row."""


class GrowingArray:
    """An array in memory that doubles its rows when it is full."""

    def __init__(self, values: np.ndarray) -> None:
        self._room = values
        self._size = len(values)

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> np.ndarray:
        """A view of what has been put so far."""
        return self._room[: self._size]

    def put(self, row: int, values: np.ndarray) -> None:
        """Write `values` from `row` on; the array grows as needed, without holes."""
        if row > self._size:
            raise IndexError(f"row {row} would leave a hole after {self._size} rows")
        end = row + len(values)
        if end > len(self._room):
            rows = max(1024, end, 2 * len(self._room))
            room = np.zeros((rows, *self._room.shape[1:]), self._room.dtype)
            room[: self._size] = self._room[: self._size]
            self._room = room
        self._room[row:end] = values
        self._size = max(self._size, end)

    def truncate(self, size: int) -> None:
        """Forget everything from row `size` on."""
        self._size = min(self._size, size)


class Column(GrowingArray):
    """A number or a vector per row, in memory and in a file; writes go to both."""

    def __init__(self, path: Path, values: np.ndarray, writable: bool) -> None:
        super().__init__(values)
        self._row_bytes = values.itemsize * int(np.prod(values.shape[1:]))
        # Unbuffered, so that a killed process leaves exactly what it has put.
        self._file = open(path, "r+b", buffering=0) if writable else None  # noqa: SIM115

    def put(self, row: int, values: np.ndarray) -> None:
        """Write `values` from `row` on, to the file first."""
        assert self._file is not None
        values = np.asarray(values, self._room.dtype)
        write_at(self._file, row * self._row_bytes, values.tobytes())
        super().put(row, values)

    def truncate(self, size: int) -> None:
        """Cut memory and file after `size` rows."""
        assert self._file is not None
        self._file.truncate(size * self._row_bytes)
        super().truncate(size)

    def sync(self) -> None:
        """Return once the file is safe on the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; what is in memory stays readable."""
        if self._file is not None:
            self._file.close()
            self._file = None


class FrameFile:
    """Frames on disk, read through a memory map that is rarely opened anew.

    The file grows ahead of its rows in (sparse) steps so that one map serves many appends. Rows
    are written with plain writes: a full disk is then an error to catch, where a write through
    the map would kill the process.
    """

    def __init__(self, path: Path, shape: tuple[int, int, int], writable: bool) -> None:
        self.path = path
        self.shape = shape
        self._row_bytes = int(np.prod(shape))
        self._room = path.stat().st_size // self._row_bytes
        self._map: np.ndarray | None = None
        self._file = open(path, "r+b", buffering=0) if writable else None  # noqa: SIM115

    def put(self, row: int, frame: np.ndarray) -> None:
        """Write one frame."""
        assert self._file is not None
        if row >= self._room:
            step = min(max(1024, row // 2), max(1, GROWTH_BYTES // self._row_bytes))
            self._file.truncate((row + step) * self._row_bytes)
            self._room, self._map = row + step, None
        write_at(self._file, row * self._row_bytes, frame.tobytes())

    def view(self) -> np.ndarray:
        """All rows the file has room for, as a read-only memory map."""
        if self._map is None:
            if self._room == 0:
                return np.empty((0, *self.shape), np.uint8)
            shape = (self._room, *self.shape)
            # A plain view of the map: indexing numpy's own subclass costs much more.
            self._map = np.memmap(self.path, np.uint8, "r", shape=shape).view(np.ndarray)
        return self._map

    def sync(self) -> None:
        """Return once the frames are safe on the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def trim(self, rows: int) -> None:
        """Give back the room after `rows` rows."""
        assert self._file is not None
        if rows != self._room:
            self._map = None
            self._file.truncate(rows * self._row_bytes)
            self._room = rows

    def close(self) -> None:
        """Close the file; reading stays possible."""
        if self._file is not None:
            self._file.close()
            self._file = None


def write_at(file, offset: int, data: bytes) -> None:
    """Write all of `data` at `offset` of an unbuffered file, or raise."""
    file.seek(offset)
    written = file.write(data)
    if written != len(data):
        raise OSError(f"{file.name}: only {written} of {len(data)} bytes could be written")
