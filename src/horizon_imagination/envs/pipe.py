"""Messages between a run and a supervised environment, with a deadline for every byte."""

import pickle
import select
import socket
import struct
import time
from typing import Any

HEADER = struct.Struct(">8sQ")
"""The mark of this pipe, then the length of the message."""
LONGEST = 2**30
"""Bytes of a message; whoever announces more is not talking to us."""


class StrayBytes(RuntimeError):  # noqa: N818  (what came, not what was wrong)
    """Something else than a message came through the pipe."""


class Pipe:
    """One end of a socket. Every message begins with a mark that no stray write can know."""

    def __init__(self, end: socket.socket, mark: bytes) -> None:
        self._socket, self._mark = end, mark
        end.setblocking(False)
        self._poll = select.poll()

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Send a message; `TimeoutError` if the other side does not take it in time."""
        payload = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        left = memoryview(HEADER.pack(self._mark, len(payload)) + payload)
        deadline = _deadline(timeout)
        while left:
            self._wait(select.POLLOUT, deadline)
            left = left[self._socket.send(left) :]

    def receive(self, timeout: float | None = None) -> Any:
        """The next message; `TimeoutError`, `EOFError` or `StrayBytes` if there is none."""
        deadline = _deadline(timeout)
        mark, length = HEADER.unpack(header := self._read(HEADER.size, deadline))
        if mark != self._mark or length > LONGEST:
            raise StrayBytes(f"{header!r} came through the pipe instead of a message")
        payload = self._read(length, deadline)
        try:
            return pickle.loads(payload)
        except Exception as error:
            raise StrayBytes(f"a message cannot be read: {error}") from error

    def close(self) -> None:
        """Close this end; the other one sees the end of the file."""
        self._socket.close()

    def _read(self, count: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._wait(select.POLLIN, deadline)
            part = self._socket.recv(min(count - len(parts), 2**20))
            if not part:
                raise EOFError("the other side has closed the pipe")
            parts += part
        return bytes(parts)

    def _wait(self, event: int, deadline: float | None) -> None:
        self._poll.register(self._socket, event)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._poll.poll(None if left is None else 1000 * left):
            raise TimeoutError


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
