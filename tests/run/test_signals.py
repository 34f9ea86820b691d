"""Signals that ask a run to stop: the first is a request, the second ends, none is lost."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from horizon_imagination.config import Config
from horizon_imagination.errors import UsageError
from horizon_imagination.run.signals import LAUNCHED, RESUME, heeding, preempt_signal
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


def test_a_second_signal_after_the_end_of_the_step_is_heard_without_a_word(capfd):
    with pytest.raises(KeyboardInterrupt), heeding() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        stop.stopped.set()
        time.sleep(0.2)  # whoever waited for the end of the step has time to leave
        os.kill(os.getpid(), signal.SIGTERM)
    assert capfd.readouterr().err == ""


def test_a_rank_hears_a_request_twice_where_all_processes_of_a_job_are_signalled(monkeypatch):
    """Once from the cluster and once from its launcher, which ends it if there is a second one."""
    monkeypatch.setenv(LAUNCHED, "1")
    with heeding() as stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.name == "SIGTERM"


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


@pytest.mark.parametrize("patient", [False, True])
def test_a_step_that_never_ends_does_not_keep_the_process(patient):
    """Not even inside a call into a library, where Python runs no handler; ranks wait longer."""
    program = f"""
        import ctypes, os, signal, threading
        from horizon_imagination.run import signals
        signals.PATIENCE = 0.2
        with signals.heeding(patient={patient}):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
            threading.Timer(9 if {not patient} else 1.5, os._exit, (7,)).start()
            while True:
                ctypes.CDLL(None).sleep(60)
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode == (7 if patient else RESUME), done.stderr
    assert ("the step did not end" in done.stderr) != patient


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
