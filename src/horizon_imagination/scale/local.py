"""Runs as processes of this machine, on its cores or on its GPUs."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def command(folder: Path) -> list[str]:
    """The command line of a run whose folder is prepared; the same one begins and resumes it.

    The folder was written by this sweep, from what somebody typed or trusted.
    """
    return [sys.executable, "-m", "horizon_imagination", "train", "--out", str(folder), "--trust"]


def thread_limits(threads: int) -> dict[str, str]:
    """What keeps libraries from taking all cores."""
    return dict.fromkeys(THREADS, str(threads))


class Process:
    """A run as a process, its output in a log file."""

    def __init__(self, words: list[str], env: dict[str, str], log: Path) -> None:
        with open(log, "ab") as file:
            # A session of its own: Ctrl-C reaches the sweep alone, which asks its runs to end.
            self._process = subprocess.Popen(
                words,
                env=os.environ | env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """The exit status; negative if a signal ended it."""
        return self._process.poll()

    def stop(self) -> None:
        if self.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, and whatever it started."""
        if self.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class LocalPool:
    """So many processes at a time; with GPUs, each sees one of them."""

    def __init__(self, slots: int, gpus: int, threads: int) -> None:
        self.slots, self.gpus, self.threads = slots, gpus, threads
        self._on: list[tuple[Process, int]] = []

    def start(self, folder: Path, log: Path) -> Process:
        """Begin a run, or go on with it, on the GPU that has the fewest."""
        env, gpu = thread_limits(self.threads) | {"CUDA_VISIBLE_DEVICES": ""}, -1
        if self.gpus:
            self._on = [(job, at) for job, at in self._on if job.poll() is None]
            used = Counter(at for _, at in self._on)
            gpu = min(range(self.gpus), key=lambda index: used[index])
            env["CUDA_VISIBLE_DEVICES"] = _visible(gpu)
        job = Process(command(folder), env, log)
        self._on.append((job, gpu))
        return job

    def close(self) -> None:
        """Nothing is held."""


def _visible(index: int) -> str:
    """The name of a GPU for CUDA_VISIBLE_DEVICES, which may itself be restricted already."""
    allowed = [x for x in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if x.strip()]
    return allowed[index] if allowed else str(index)
