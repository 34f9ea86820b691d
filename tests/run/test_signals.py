"""Signals that ask a run to stop: the first is a request, the second ends, none is lost."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError
from horizon_imagination.run.signals import RESUME, heeding, preempt_signal
from horizon_imagination.scale import execute
from horizon_imagination.scale.execute import Task
from horizon_imagination.scale.suite import PlannedRun


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"])
def test_the_first_signal_is_a_request_and_the_second_an_interrupt(name):
    before = signal.default_int_handler
    usual = signal.signal(signal.Signals[name], before)  # nohup would have it ignored
    with pytest.raises(KeyboardInterrupt), heeding(signal.SIGUSR1) as stop:
        assert not stop
        os.kill(os.getpid(), signal.Signals[name])
        assert stop and stop.name == name
        os.kill(os.getpid(), signal.Signals[name])
    assert signal.signal(signal.Signals[name], usual) == before


def test_a_signal_that_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heeding() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGWHAT", "usr1", ""])
def test_a_signal_that_cannot_be_heeded_is_refused(name):
    with pytest.raises(UsageError, match="expected the name of a signal"):
        preempt_signal(name)


def test_a_step_that_never_ends_does_not_keep_the_process():
    """Not even inside a call into a library, where Python runs no handler."""
    program = """
        import ctypes, os, signal, threading
        from horizon_imagination.run import signals
        signals.PATIENCE = 0.2
        with signals.heeding():
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
            while True:
                ctypes.CDLL(None).sleep(60)
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == RESUME and "the step did not end" in done.stderr


def test_a_sweep_resumes_a_run_that_was_asked_to_stop(tmp_path):
    class Stopped:
        def poll(self):
            return RESUME

        def stop(self): ...

        def kill(self): ...

    run = PlannedRun("a", "catch", "hi", 0, "a", "debug", Config())
    task = Task(run, tmp_path, tmp_path / "log", state="running", job=Stopped())
    execute._look(task, retries=0)
    assert (task.state, task.attempts, task.job) == ("waiting", 0, None)
