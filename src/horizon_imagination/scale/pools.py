"""Workers for the runs of a suite: processes of this machine, or tasks of a Ray cluster.

All machines of a cluster must see the suite's folder under the same path.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from horizon_imagination.errors import UsageError
from horizon_imagination.timing import cores

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
REACHABLE = 5.0
"""Seconds in which a cluster must answer."""
GRACE = 20.0
"""Seconds a run has to end when its task is cancelled."""
KILLED = -9


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


class RayPool:
    """As many runs at a time as the cluster has room for."""

    def __init__(self, address: str, *, jobs: int, gpus: int | None, threads: int) -> None:
        self._ray = _connect(address)
        try:
            self._plan(jobs, gpus, threads)
        except BaseException:
            self.close()
            raise

    def _plan(self, jobs: int, gpus: int | None, threads: int) -> None:
        resources = self._ray.cluster_resources()
        there = int(resources.get("GPU", 0))
        if gpus and gpus > there:
            raise UsageError(f"--gpus {gpus}: the Ray cluster has {there or 'no'} GPUs")
        used = there if gpus is None else gpus
        self.threads = threads
        room = used or int(resources.get("CPU", 1)) // threads
        if room < 1:
            raise UsageError(f"the Ray cluster has fewer than {threads} cores for a run")
        self.slots = min(jobs or room, room)
        remote = self._ray.remote(num_cpus=threads, num_gpus=1 if used else 0, max_retries=0)
        self._task = remote(_train)

    def start(self, folder: Path, log: Path) -> "RayJob":
        """Hand a run to the cluster."""
        words = command(folder.resolve())
        # The program is wherever that machine has it.
        found = self._task.remote(words[1:], thread_limits(self.threads), str(log.resolve()))
        return RayJob(self._ray, found)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._ray.shutdown()


class RayJob:
    """A task of the cluster."""

    def __init__(self, ray: Any, reference: Any) -> None:
        self._ray, self._reference = ray, reference
        self._status: int | None = None

    def poll(self) -> int | None:
        """The exit status; negative if the task or its machine died."""
        if self._status is not None:
            return self._status
        ready, _ = self._ray.wait([self._reference], timeout=0)
        if ready:
            try:
                self._status = int(self._ray.get(self._reference))
            except self._ray.exceptions.RayError:
                self._status = KILLED
        return self._status

    def stop(self) -> None:
        """Ask the task to end, which asks its process."""
        self._ray.cancel(self._reference)

    def kill(self) -> None:
        self._ray.cancel(self._reference, force=True)


def _train(words: list[str], env: dict[str, str], log: str) -> int:
    """On the worker: one run, in a process of its own; the exit status."""
    job = Process([sys.executable, *words], env, Path(log))
    try:
        while (status := job.poll()) is None:
            time.sleep(0.1)
        return status
    except BaseException:
        job.stop()
        until = time.monotonic() + GRACE
        while job.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        raise


def _connect(address: str) -> Any:
    """Join a cluster, or start one on this machine for `local`."""
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            "--ray needs Ray: pip install 'horizon_imagination[ray]', or leave --ray out"
        ) from error
    if address not in ("local", "auto"):
        _reach(address)
    options: dict[str, Any] = {}
    if address == "local":
        options = {"num_cpus": cores(), "include_dashboard": False}
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")  # and no word about it
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
            **options,
        )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        said = str(error).strip().splitlines()
        raise UsageError(
            f"no Ray cluster at {address}: {said[0] if said else error}; start one with "
            "'ray start --head', or use --ray local"
        ) from error
    return ray


def _reach(address: str) -> None:
    """Knock at the door: Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"--ray {address}: expected local, auto, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=REACHABLE).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"no Ray cluster answers at {address} ({error}); start one with 'ray start --head', "
            "or use --ray local"
        ) from error
