"""`horizon sweep` with real runs: interrupted, killed, failing, and counted."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter

import psutil
import pytest
from rich.console import Console

from horizon_imagination.cli import main
from horizon_imagination.report.suite import read_suite
from horizon_imagination.run.folder import claimed
from horizon_imagination.run.read import is_claimed, is_finished, standing
from horizon_imagination.scale.execute import Task, _look, execute, make_tasks
from horizon_imagination.scale.pools import LocalPool
from horizon_imagination.scale.suite import from_plain, runs_of
from horizon_imagination.scale.table import SuiteTable

EPOCHS = 4
LONG = 30
"""Epochs that are not over before somebody interrupts them, on a fast machine too."""


def suite_file(folder, settings=("a", "b"), epochs=EPOCHS, **override):
    about = {
        "name": "counted",
        "seeds": 1,
        "worlds": [
            {"env": "catch", "preset": "debug", "override": {"training.epochs": epochs} | override}
        ],
        "settings": [{"name": name} for name in settings],
    }
    path = folder / "counted.json"
    path.write_text(json.dumps(about))
    return path


def listen():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def sweep():
    """Starts a sweep in a process of its own, and leaves none behind."""
    started = []

    def start(path, out, *words):
        command = [sys.executable, "-m", "horizon_imagination", "sweep", str(path)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        words = [*command, "--out", str(out), *words]
        # A shell that runs the tests in the background may have switched interrupts off.
        process = subprocess.Popen(words, text=True, preexec_fn=listen, **pipes)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=100)


def wait_for(fact, seconds=400):
    until = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < until, "it never came"
        time.sleep(0.05)
    return found


def lines_of(path):
    return path.read_text().splitlines() if path.exists() else []


def epochs_in(folder):
    """Epochs by the metrics: what a run has kept."""
    return [json.loads(line)["epoch"] for line in lines_of(folder / "metrics.jsonl")]


def epochs_said(log):
    """Epochs by the log of all attempts: what was really trained, as often as it was."""
    return Counter(int(x.split()[1].split("/")[0]) for x in lines_of(log) if x.startswith("epoch "))


def of_run(folder):
    """The process that trains in a folder."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "train" in words and str(folder) in words:
            return process
    return None


@pytest.mark.slow
def test_an_interrupted_suite_does_no_work_twice_and_loses_none(sweep, tmp_path):
    path, out = suite_file(tmp_path, epochs=LONG), tmp_path / "suite"
    first = sweep(path, out, "--jobs", "2")
    wait_for(lambda: epochs_in(out / "catch-a-0") or epochs_in(out / "catch-b-0"))
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate(timeout=100)
    assert first.returncode == 75 and "the same command goes on" in errors
    assert "Traceback" not in errors and of_run(out / "catch-a-0") is None
    assert read_suite(out).expected == 2
    second = sweep(path, out, "--jobs", "2")
    said, errors = second.communicate(timeout=300)
    assert second.returncode == 0, errors
    assert "2 of 2 runs finished" in said and "2 finished" in said
    for name in ("catch-a-0", "catch-b-0"):
        assert epochs_in(out / name) == list(range(LONG))
        # A snapshot follows every epoch: none is trained again, unless it was being saved.
        trained = epochs_said(out / "logs" / f"{name}.log")
        assert set(trained) == set(range(1, LONG + 1)) and sum(trained.values()) <= LONG + 1
    before = {log: log.read_bytes() for log in (out / "logs").iterdir()}
    assert sweep(path, out).wait(timeout=100) == 0
    assert before == {log: log.read_bytes() for log in (out / "logs").iterdir()}
    assert [len(run.curve.steps) > 0 for run in read_suite(out).runs] == [True, True]


@pytest.mark.slow
def test_a_worker_of_a_ray_cluster_that_is_killed_resumes_and_finishes(sweep, tmp_path):
    pytest.importorskip("ray")
    path, out = suite_file(tmp_path, epochs=LONG), tmp_path / "suite"
    running = sweep(path, out, "--ray", "local", "--jobs", "2", "--retries", "0")
    killed = out / "catch-a-0"
    wait_for(lambda: len(epochs_in(killed)) >= 2)
    process = of_run(killed)
    assert process is not None
    process.send_signal(signal.SIGKILL)
    said, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    told = [line for line in said.splitlines() if line.startswith("catch-a-0  running")]
    assert any(line.endswith("killed") for line in told)
    for name in ("catch-a-0", "catch-b-0"):
        assert epochs_in(out / name) == list(range(LONG))
    log = out / "logs" / "catch-a-0.log"
    assert sum("resuming after epoch" in line for line in lines_of(log)) == 1
    assert sum(epochs_said(log).values()) <= LONG + 1


@pytest.mark.slow
def test_a_run_that_fails_is_tried_again_and_reported_while_the_rest_goes_on(tmp_path, capfd):
    about = json.loads(suite_file(tmp_path, epochs=2).read_text())
    about["settings"][0]["override"] = {"tokenizer.learner.learning_rate": 1e30}
    (tmp_path / "counted.json").write_text(json.dumps(about))
    out = tmp_path / "suite"
    words = ["sweep", str(tmp_path / "counted.json"), "--out", str(out), "--retries", "1"]
    before = signal.getsignal(signal.SIGTERM)
    assert main([*words, "--jobs", "2"]) == 1
    signal.signal(signal.SIGTERM, before)
    said = capfd.readouterr()
    assert "1 of 2 runs finished" in said.out
    assert "horizon: catch-a-0 failed: " in said.err and "tokenizer, step" in said.err
    assert said.err.count("\n") == 1
    tries = sum("is not finite" in line for line in lines_of(out / "logs" / "catch-a-0.log"))
    assert tries == 2
    assert epochs_in(out / "catch-b-0") == [0, 1]
    # What is finished stays finished whatever became of the others.
    tasks = make_tasks(runs_of(from_plain(about, "here")), out)
    assert [task.state for task in tasks] == ["waiting", "finished"]


class Ended:
    """A job that is over."""

    def __init__(self, status):
        self.status = status

    def poll(self):
        return self.status

    def stop(self):
        raise AssertionError("it is over")

    kill = stop


@pytest.fixture
def task(tmp_path):
    about = json.loads(suite_file(tmp_path).read_text())
    run = runs_of(from_plain(about, "here"))[0]
    return Task(run, tmp_path / "run", tmp_path / "run.log")


def snapshot(folder, epoch, **fields):
    place = folder / "checkpoints" / f"epoch-{epoch:06d}"
    place.mkdir(parents=True)
    (place / "state.json").write_text(json.dumps({"epoch": epoch, "reached": None} | fields))


@pytest.mark.parametrize(
    ("status", "saved", "state", "attempts"),
    [
        (-9, 0, "waiting", 1),  # killed before anything was saved
        (-9, 2, "waiting", 0),  # killed, and yet further than before
        (1, 2, "waiting", 1),  # failed, which counts however far it came
        (2, 0, "failed", 1),  # cannot work whatever one tries
        (0, 2, "waiting", 1),  # says it is done, and is not
        (0, 4, "finished", 0),
        (2, 4, "finished", 0),  # refused, since a process of a killed sweep was finishing it
        (2, 2, "waiting", 0),  # the same, and that process has ended early
    ],
)
def test_what_becomes_of_a_run_that_ended(task, status, saved, state, attempts):
    if saved:
        snapshot(task.folder, saved)
    task.job = Ended(status)
    _look(task, retries=1)
    assert (task.state, task.attempts, task.job) == (state, attempts, None)


def test_retries_are_so_many_and_no_more(task):
    states = []
    for _ in range(3):
        task.job = Ended(1)
        _look(task, retries=2)
        states.append(task.state)
    assert states == ["waiting", "waiting", "failed"]


def test_a_run_is_finished_by_its_last_epoch_or_its_target(task):
    config = task.run.config
    assert not is_finished(task.folder, config)
    snapshot(task.folder, 3, reached=0.5)
    assert not is_finished(task.folder, config)
    training = type(config.training)(**(vars(config.training) | {"target_return": 0.4}))
    assert is_finished(task.folder, type(config)(**(vars(config) | {"training": training})))
    snapshot(task.folder, 4)
    assert is_finished(task.folder, config)


def test_a_run_that_another_process_trains_is_left_to_it(task):
    """Such as one whose sweep was killed and left it behind."""
    with claimed(task.folder):
        assert is_claimed(task.folder)
        seen = []

        def watch(tasks):
            seen.append(tasks[0].state)
            if len(seen) == 2:
                snapshot(task.folder, EPOCHS)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            execute([task], LocalPool(1, 0, 1), retries=0, watch=watch, interval=0.01)
        assert seen == ["busy", "busy"] and task.job is None
    assert not is_claimed(task.folder)
    execute([task], LocalPool(1, 0, 1), retries=0, interval=0.01)
    assert task.state == "finished" and not task.log.exists()


def test_the_pace_is_that_of_the_recent_epochs(task):
    task.folder.mkdir()
    lines = [{"epoch": n, "time/seconds": 10.0 * n if n < 2 else 2.0 * n + 16} for n in range(14)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (task.folder / "metrics.jsonl").write_text(text + '{"epoch": 14, "time')
    config = task.run.config
    training = type(config.training)(**(vars(config.training) | {"epochs": 20}))
    found = standing(task.folder, type(config)(**(vars(config) | {"training": training})))
    assert (found.epochs, found.total, found.pace, found.left) == (14, 20, 2.0, 12.0)
    assert standing(task.folder / "none", config).left is None


def test_the_table_tells_states_pace_and_time_left(task, capsys):
    task.folder.mkdir()
    lines = [{"epoch": n, "time/seconds": 60.0 * (n + 1)} for n in range(2)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (task.folder / "metrics.jsonl").write_text(text)
    other = Task(task.run, task.folder, task.log, state="failed", reason="no room")
    plain = SuiteTable(1, Console(force_terminal=False, width=200))
    task.state = "running"
    plain([task])
    said = capsys.readouterr().out
    assert "catch-a-0  running  epochs 2/4  s/epoch 60  2:00  left 2:00" in said
    plain([task])
    assert capsys.readouterr().out == ""
    console = Console(force_terminal=True, width=120, record=True)
    with SuiteTable(1, console) as table:
        table([task])
        console.print(table.table([task, other]))
    shown = console.export_text()
    assert "2/4" in shown and "no room" in shown and "left" in shown
    other.reason = "horizon: " + "the disk is full and nobody has made room " * 9
    console = Console(force_terminal=True, width=80, record=True)
    console.print(SuiteTable(1, console).table([task, other]))
    lines = console.export_text().splitlines()
    assert len(lines) == 5, "a title, the heads, two runs, and one line for the reason"
    assert max(map(len, lines)) <= 80 and lines[-1].endswith("…")
