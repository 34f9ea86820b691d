"""Run everything that is not finished, on any pool of workers, until nothing is left to try."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from horizon_imagination.errors import UsageError
from horizon_imagination.run.folder import claimed, prepare
from horizon_imagination.run.read import is_claimed, is_finished, saved_epochs
from horizon_imagination.run.signals import RESUME
from horizon_imagination.run.start import Request, complete
from horizon_imagination.scale.suite import PlannedRun

USAGE = 2
"""Exit status of a run that cannot work whatever one tries."""
LOGS = "logs"


@runtime_checkable
class Job(Protocol):
    """A run in the hands of a worker."""

    def poll(self) -> int | None:
        """The exit status; none while it goes on, negative if it was killed."""
        ...

    def stop(self) -> None:
        """Ask it to end; it keeps its latest snapshot."""
        ...

    def kill(self) -> None:
        """End it now."""
        ...


@runtime_checkable
class Pool(Protocol):
    """Workers, of whatever kind."""

    slots: int
    threads: int
    """CPU threads of a run."""

    def start(self, folder: Path, log: Path) -> Job:
        """Begin the run of a prepared folder, or go on with it."""
        ...

    def close(self) -> None:
        """Let go of the workers."""
        ...


@dataclass
class Task:
    """A run of the suite and what has become of it."""

    run: PlannedRun
    folder: Path
    log: Path
    state: str = "waiting"
    """waiting, running, busy (another process trains it), finished, failed."""
    attempts: int = 0
    """Ends without success that brought no new snapshot."""
    reason: str = ""
    job: Job | None = field(default=None, repr=False)
    began_with: int = 0


def make_tasks(runs: list[PlannedRun], suite: Path) -> list[Task]:
    """A task per run, finished ones marked as such."""
    tasks = [Task(run, suite / run.folder, suite / LOGS / f"{run.name}.log") for run in runs]
    for task in tasks:
        if is_finished(task.folder, task.run.config):
            task.state = "finished"
    return tasks


def execute(
    tasks: list[Task],
    pool: Pool,
    *,
    retries: int,
    watch: Callable[[list[Task]], None] = lambda tasks: None,
    interval: float = 0.2,
) -> None:
    """Work until every task is finished or failed; an interrupt stops all workers first."""
    try:
        while any(task.state not in ("finished", "failed") for task in tasks):
            for task in tasks:
                if task.job is not None:
                    _look(task, retries)
            _fill(tasks, pool)
            watch(tasks)
            time.sleep(interval)
        watch(tasks)
    except BaseException:
        stop(tasks)
        raise


def stop(tasks: list[Task], grace: float = 30.0) -> None:
    """Ask all jobs to end, and end those that do not."""
    jobs = [task.job for task in tasks if task.job is not None]
    for job in jobs:
        job.stop()
    until = time.monotonic() + grace
    while time.monotonic() < until and any(job.poll() is None for job in jobs):
        time.sleep(0.05)
    for job in jobs:
        if job.poll() is None:
            job.kill()


def _fill(tasks: list[Task], pool: Pool) -> None:
    free = pool.slots - sum(task.job is not None for task in tasks)
    for task in [task for task in tasks if task.state in ("waiting", "busy")]:
        if free <= 0:
            return
        if is_claimed(task.folder):
            task.state = "busy"
            continue
        if is_finished(task.folder, task.run.config):
            task.state = "finished"  # whoever had it is done with it
            continue
        try:
            prepare_run(task.run, task.folder, pool.threads)
        except UsageError as error:
            busy = is_claimed(task.folder)  # by somebody who came in between
            task.state, task.reason = ("busy", "") if busy else ("failed", str(error))
            continue
        task.log.parent.mkdir(parents=True, exist_ok=True)
        task.began_with = saved_epochs(task.folder)
        task.job = pool.start(task.folder, task.log)
        task.state = "running"
        free -= 1


def prepare_run(run: PlannedRun, folder: Path, threads: int) -> None:
    """Write what `horizon train --out FOLDER` begins with, or check the run that is there."""
    # The device is the best that the worker is given, and not part of the description.
    runtime = replace(run.config.runtime, threads=run.config.runtime.threads or threads)
    request = Request(preset=run.preset, config=replace(run.config, runtime=runtime), folder=folder)
    with claimed(folder):
        prepare(folder, *complete(request))


def _look(task: Task, retries: int) -> None:
    assert task.job is not None
    status = task.job.poll()
    if status is None:
        return
    task.job = None
    if is_finished(task.folder, task.run.config):  # by this job, or by one that a sweep left behind
        task.state, task.reason = "finished", ""
        return
    if status == USAGE and is_claimed(task.folder):
        task.state = "busy"
        return
    if status == RESUME:
        task.state, task.reason = "waiting", ""
        return
    killed = status < 0 or status in (130, 137, 143)
    advanced = saved_epochs(task.folder) > task.began_with
    if status == USAGE and advanced:
        task.state = "waiting"  # another process had it, and has ended since
        return
    # One that is killed now and then but comes further each time is not at fault.
    if not (killed and advanced):
        task.attempts += 1
    task.reason = "killed" if killed else last_line(task.log) or f"exit status {status}"
    hopeless = status == USAGE or task.attempts > retries
    task.state = "failed" if hopeless else "waiting"


def last_line(log: Path) -> str:
    """The last line that a run said."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""
