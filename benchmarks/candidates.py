"""Train the settings of a suite one by one, play and study each, and compare them in a table.

Why: a setting is worth what its agent earns in fresh episodes, whether its dreams pay what the
world pays, and what it costs. A row is complete before the next run begins, so a limit of time
ends with a table of whole rows; the same command goes on. A run that would not end before
--minutes is not begun: it is taken to last as long as the longest so far. With --reserve, a run
that the clock stops is judged as far as it came. The last line is JSON.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean

from horizon_imagination.errors import UsageError
from horizon_imagination.provenance import provenance
from horizon_imagination.run.read import load_run
from horizon_imagination.run.signals import RESUME
from horizon_imagination.scale.execute import Task, make_tasks, prepare_run
from horizon_imagination.scale.pools import command
from horizon_imagination.scale.suite import describe, read_file, runs_of
from horizon_imagination.wording import clock, number

LAST_STEPS = 10_000
"""Environment steps at the end of a run over which training returns are averaged."""


def horizon(*words: object) -> dict:
    """What a command of ours prints as its last line of JSON."""
    program = [sys.executable, "-m", "horizon_imagination", *map(str, words)]
    said = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(said.splitlines()[-1])


def train(task: Task, limit: float) -> bool:
    """Train a run to its end, or as far as the seconds go; whether it ended."""
    if task.state == "finished":
        return True
    prepare_run(task.run, task.folder, threads=0)
    task.log.parent.mkdir(parents=True, exist_ok=True)
    with open(task.log, "ab") as log:
        process = subprocess.Popen(command(task.folder), stdout=log, stderr=log)
        try:
            status = process.wait(max(1.0, limit))
        except subprocess.TimeoutExpired:
            process.terminate()  # it saves a snapshot and says so by its status
            status = process.wait(60)
    if status not in (0, RESUME):
        raise UsageError(f"{task.run.name} failed with status {status}; see {task.log}")
    return status == 0


def judge(task: Task, args: argparse.Namespace) -> dict:
    """The row of a trained run; what was measured before is read."""
    folder, device = task.folder, ("--device", args.device)
    played, dreamt = folder / "candidate.json", folder / "studies" / "dreams" / "dreams.json"
    if not played.exists():
        words = ("--episodes", args.episodes, "--parallel", args.episodes, "--json")
        horizon("evaluate", folder, *words, "--out", played, *device)
    if not dreamt.exists():
        words = ("--contexts", args.contexts, "--steps", args.steps)
        horizon("study", "dreams", folder, *words, *device)
    evaluated = json.loads(played.read_text())["summary"]
    dreams, run = json.loads(dreamt.read_text()), load_run(folder)
    return {
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
        "| fresh episodes, 95 % | imagined / real | replayed / real | read / real |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = (number(x) for x in row["return_interval"])
        lines.append(
            f"| {row['setting']} | {row['world']}, {row['seed']} | {row['env_steps']:,} "
            f"| {row['epoch_s']} | {clock(row['seconds'])} | {number(row['training_return'])} "
            f"| {number(row['return'])} [{low}, {high}] | {ratio(row['imagined_over_real'])} "
            f"| {ratio(row['replayed_over_real'])} | {ratio(row['read_over_real'])} |"
        )
    return "\n".join(lines)


def main() -> None:
    """A row per run, printed as it is complete."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path, help="a file like benchmarks/suites/*.toml")
    parser.add_argument("--out", type=Path, help="folder of the suite; runs/NAME if not given")
    parser.add_argument("--only", nargs="*", default=[], help="names of settings; all if none")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument(
        "--reserve", type=float, default=0, help="minutes to judge a run that the clock stops"
    )
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--contexts", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2000, help="fresh steps for the dreams")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    until = time.monotonic() + 60 * args.minutes
    suite = read_file(args.suite)
    runs, folder = runs_of(suite), args.out or Path("runs") / suite.name
    describe(suite, runs, folder)
    rows, longest, left_out = [], 0.0, []
    for task in make_tasks(runs, folder):
        if args.only and task.run.setting not in args.only:
            continue
        begun = time.monotonic()
        limit = until - begun - 60 * args.reserve
        if begun + longest > until or limit <= 0 or not (train(task, limit) or args.reserve):
            left_out.append(task.run.name)
            continue
        rows.append(judge(task, args))
        longest = max(longest, time.monotonic() - begun)
        print(table(rows[-1:]).splitlines()[-1], flush=True)
        (folder / "candidates.md").write_text(table(rows) + "\n")
    print(table(rows))
    about = {"bench": "candidates", "suite": suite.name, "left_out": left_out, "rows": rows}
    print(json.dumps(about | provenance()))


if __name__ == "__main__":
    main()
