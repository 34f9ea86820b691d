"""Requests to stop: the first one lets the step end and a snapshot be written, the second ends.

A run that was asked to stop exits with `RESUME`: the same command goes on bit for bit.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from horizon_imagination.errors import UsageError

RESUME = 75
"""Exit status of a run that was asked to stop (EX_TEMPFAIL of sysexits.h): start it again."""
PATIENCE = 20.0
"""Seconds that a step has to end; a world that hangs must not keep the process."""
USUAL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LAUNCHED = "HORIZON_LAUNCHED"
"""In the environment of a rank whose launcher passes requests on and ends it at the second one. A
cluster signals all processes of a job, so such a rank hears the first request twice."""


class Paused(Exception):  # noqa: N818  (nobody made an error)
    """The run was asked to stop, and everything is as the last whole step left it."""


@dataclass
class StopRequest:
    """Whether somebody has asked the run to stop."""

    name: str = ""
    """The signal that asked first; empty until then."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set once the step is over, so that nobody need be impatient any more."""

    def __bool__(self) -> bool:
        return bool(self.name)


def preempt_signal(name: str) -> signal.Signals | None:
    """The signal that `runtime.preempt_signal` names.

    >>> preempt_signal("SIGUSR1"), preempt_signal("none")
    (<Signals.SIGUSR1: 10>, None)
    """
    if name == "none":
        return None
    fatal = {"SIGKILL", "SIGSTOP", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"}
    if name in fatal or name not in signal.Signals.__members__:
        raise UsageError(
            f"runtime.preempt_signal {name}: expected the name of a signal that a program can "
            "handle, such as SIGUSR1, or none"
        )
    return signal.Signals[name]


@contextmanager
def heeding(extra: signal.Signals | None = None, *, patient: bool = False) -> Iterator[StopRequest]:
    """Turn signals into a request while the block runs; the second signal is an interrupt.

    Signals that were ignored before, as nohup does with SIGHUP, stay ignored. A thread ends the
    process if the step does not end in time: it is told by the system, even where Python's own
    handlers wait for a call into a library that never returns. `patient` is for a rank that waits
    for the first one, which may act in its world for long.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, frame: object) -> None:
        if request and LAUNCHED not in os.environ:
            raise KeyboardInterrupt
        request.name = signal.Signals(number).name

    wanted: set[signal.Signals] = {*USUAL, *([extra] if extra else [])}
    before = {s: signal.getsignal(s) for s in wanted if signal.getsignal(s) != signal.SIG_IGN}
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for number in before:
        signal.signal(number, handle)
    told = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watched = {int(number) for number in before}
    threading.Thread(target=_watch, args=(reader, request, watched, patient), daemon=True).start()
    try:
        yield request
    finally:
        request.stopped.set()
        signal.set_wakeup_fd(told)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writer)


def _watch(reader: int, request: StopRequest, watched: set[int], patient: bool) -> None:
    """Wait for a first signal, then for the step to end; end the process if it does not."""
    with open(reader, "rb", buffering=0) as file:
        while (byte := file.read(1)) and byte[0] not in watched:
            pass
        if byte and not request.stopped.wait(None if patient else PATIENCE):
            _give_up()
        while file.read(1):
            pass  # a signal that is told to nobody would be an error


def _give_up() -> None:
    """End the process in the middle of a step."""
    with suppress(OSError):
        print(
            f"horizon: the step did not end within {PATIENCE:.0f} s of the request to stop; the "
            "latest snapshot is good, and the same command goes on from it",
            file=sys.stderr,
            flush=True,
        )
    os._exit(RESUME)
