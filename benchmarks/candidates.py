"""Train the runs of suites, play and study each, and compare them in a table.

Why: a setting is worth what its agent earns in fresh episodes, whether its dreams pay what the
world pays, and what it costs. A run is judged as soon as it ends, so a limit of time leaves whole
rows; the same command goes on. With --reserve, runs are judged beside the next ones, and those that
the clock stops as far as they came. Without it, a run is begun only if it would end before
--minutes, at the seconds an epoch of the slowest run so far. A run that fails is told and left out;
the others go on, and the exit status is 1.

With --jobs 2, two runs share the device. Under NVIDIA's multi-process service the one that began
while another was running has the lower priority. The last line is JSON.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from statistics import fmean
from threading import Lock

from horizon_imagination.errors import UsageError
from horizon_imagination.provenance import provenance
from horizon_imagination.run.read import is_finished, load_run, saved_epochs
from horizon_imagination.run.signals import RESUME
from horizon_imagination.scale.execute import Task, make_tasks, prepare_run, stop
from horizon_imagination.scale.pools import Process, command
from horizon_imagination.scale.suite import describe, read_file, runs_of
from horizon_imagination.wording import clock, number

LAST_STEPS = 10_000
"""Environment steps at the end of a run over which training returns are averaged."""
BEHIND = {"CUDA_MPS_CLIENT_PRIORITY": "1"}
"""Lets a process of NVIDIA's multi-process service yield to those without it."""


def horizon(*words: object) -> None:
    """Run a command of ours; its results are in files."""
    program = [sys.executable, "-m", "horizon_imagination", *map(str, words)]
    subprocess.run(program, stdout=subprocess.DEVNULL, check=True)


def begin(task: Task, env: dict[str, str]) -> None:
    """Start the process of a run, or of the rest of it."""
    prepare_run(task.run, task.folder, threads=0)
    task.log.parent.mkdir(parents=True, exist_ok=True)
    task.job, task.state = Process(command(task.folder), env, task.log), "running"


def ended(task: Task) -> bool:
    """Whether the process of a run has ended, well or not."""
    assert task.job is not None
    status = task.job.poll()
    if status is None:
        return False
    task.job, task.state = None, {0: "finished", RESUME: "stopped"}.get(status, "failed")
    if task.state == "failed":
        print(f"{label(task)} failed with status {status}; see {task.log}", file=sys.stderr)
    return True


def judge(task: Task, args: argparse.Namespace) -> dict:
    """The row of a trained run; what was measured before, after as many epochs, is read."""
    folder, device, run = task.folder, ("--device", args.device), load_run(task.folder)
    results = folder / "candidate" / f"epoch-{run.epochs}"
    played, dreamt = results / "evaluation.json", results / "dreams.json"
    if not played.exists():
        words = ("--episodes", args.episodes, "--parallel", args.episodes)
        horizon("evaluate", folder, *words, "--out", played, *device)
    if not dreamt.exists():
        words = ("--contexts", args.contexts, "--steps", args.steps)
        horizon("study", "dreams", folder, *words, "--out", results, *device)
    evaluated = json.loads(played.read_text())["summary"]
    dreams = json.loads(dreamt.read_text())
    return {
        "run": label(task),
        "setting": task.run.setting,
        "world": task.run.env,
        "seed": task.run.seed,
        "env_steps": run.env_steps,
        "seconds": round(run.seconds, 1),
        "epoch_s": round(run.seconds / max(1, run.epochs), 2),
        "training_return": last_return(run, LAST_STEPS),
        "return": evaluated["mean"],
        "return_interval": evaluated["mean_interval"],
        "imagined_over_real": dreams["imagined_over_real"],
        "replayed_over_real": dreams["replayed_over_real"],
        "read_over_real": dreams["read_over_real"],
        "futures_that_end": dreams["ended"],
        "action_gap": run.latest("world_model/action_gap"),
    }


def last_return(run, steps: int) -> float | None:
    """The mean training return of the episodes that ended in the last environment steps."""
    first = run.env_steps - steps
    ended = [x for x in run.history if "env/return" in x and x["env/steps"] > first]
    weights = [x["env/episodes"] for x in ended]
    return fmean([x["env/return"] for x in ended], weights) if ended else None


def table(rows: list[dict]) -> str:
    """The rows for people, as Markdown."""

    def ratio(found: list[float] | None) -> str:
        return "-" if found is None else "{:.2f} [{:.2f}, {:.2f}]".format(*found)

    lines = [
        "| setting | world, seed | steps | s an epoch | run | training return "
        "| fresh episodes, 95 % | imagined / real | replayed / real | read / real "
        "| end: imagined / real |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = (number(x) for x in row["return_interval"])
        ends = "{imagined:.1%} / {real:.1%}".format(**row["futures_that_end"])
        lines.append(
            f"| {row['setting']} | {row['world']}, {row['seed']} | {row['env_steps']:,} "
            f"| {row['epoch_s']} | {clock(row['seconds'])} | {number(row['training_return'])} "
            f"| {number(row['return'])} [{low}, {high}] | {ratio(row['imagined_over_real'])} "
            f"| {ratio(row['replayed_over_real'])} | {ratio(row['read_over_real'])} | {ends} |"
        )
    return "\n".join(lines)


def main() -> None:
    """A row per run, printed as it is complete."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", type=Path, nargs="+", help="files like benchmarks/suites/*.toml")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where suites have folders")
    parser.add_argument(
        "--only", nargs="*", default=[], help="patterns of SUITE/RUN, as in '*/Gopher*'; else all"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument(
        "--reserve", type=float, default=0, help="minutes to judge a run that the clock stops"
    )
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--contexts", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2000, help="fresh steps for the dreams")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1, help="runs that share the device")
    args = parser.parse_args()
    tasks = tasks_of(args)
    for task in tasks:
        print(f"{label(task)}: {task.run.config.training.epochs} epochs", file=sys.stderr)
    rows = compare(tasks, args)
    shown, failed = {row["run"] for row in rows}, [x for x in tasks if x.state == "failed"]
    print(table(rows))
    about = {
        "bench": "candidates",
        "suites": [x.stem for x in args.suites],
        "left_out": [label(x) for x in tasks if label(x) not in shown],
        "failed": [label(x) for x in failed],
    }
    print(json.dumps(about | {"rows": rows} | provenance()))
    raise SystemExit(1 if failed else 0)


def tasks_of(args: argparse.Namespace) -> list[Task]:
    """The runs of all suites, in their order, as far as they were asked for."""
    found = []
    for suite in map(read_file, args.suites):
        runs, folder = runs_of(suite), args.out / suite.name
        describe(suite, runs, folder)
        found += [
            task
            for task in make_tasks(runs, folder)
            if not args.only or any(fnmatch(label(task), x) for x in args.only)
        ]
    if not found:
        raise UsageError(f"no run of {', '.join(map(str, args.suites))} fits {args.only}")
    return found


def label(task: Task) -> str:
    """Suite and run: SUITE/RUN."""
    return "/".join(task.folder.parts[-2:])


def compare(tasks: list[Task], args: argparse.Namespace) -> list[dict]:
    """Rows of the runs in the order in which they ended."""
    until = time.monotonic() + 60 * (args.minutes - args.reserve)
    waiting, running, rows, judging = list(tasks), [], [], []
    one_row = Lock()

    def ready(task: Task) -> bool:
        return task.state == "finished" or (task.state == "stopped" and args.reserve > 0)

    def add(task: Task) -> None:
        try:
            row = judge(task, args)
        except subprocess.CalledProcessError as error:
            task.state = "failed"
            words = " ".join(error.cmd[2:5])
            print(f"{label(task)}: {words} failed with status {error.returncode}", file=sys.stderr)
            return
        with one_row:
            rows.append(row)
            print(table([row]).splitlines()[-1], flush=True)
            (args.out / "candidates.md").write_text(table(rows) + "\n")

    with ThreadPoolExecutor(args.jobs) as judges:
        try:
            while (waiting or running) and (left := until - time.monotonic()) > 0:
                for task in [x for x in running if ended(x)]:
                    running.remove(task)
                    if ready(task):
                        judging.append(judges.submit(add, task))
                        if not args.reserve:
                            judging[-1].result()  # its seconds tell whether another run fits
                while waiting and len(running) < args.jobs:
                    task = waiting.pop(0)
                    if task.state == "finished":
                        judging.append(judges.submit(add, task))
                    elif args.reserve or expected(task, rows) < left:
                        begin(task, BEHIND if running else {})
                        running.append(task)
                time.sleep(0.2)
        finally:
            stop(running)  # each saves a snapshot first
        for task in running:
            task.state = "finished" if is_finished(task.folder, task.run.config) else "stopped"
            if saved_epochs(task.folder) and ready(task):
                judging.append(judges.submit(add, task))
    for one in judging:
        one.result()
    return rows


def expected(task: Task, rows: list[dict]) -> float:
    """Seconds that a run is taken to need, evaluation left out."""
    return task.run.config.training.epochs * max((row["epoch_s"] for row in rows), default=0.0)


if __name__ == "__main__":
    main()
