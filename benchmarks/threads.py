"""One thread against all cores, without and beside busy processes, and what the trial chooses.

Why: threads wait for each other at every operation. Where other programs use the cores, one thread
is then faster than several. A world-model step is timed with each number of threads in turn: a load
that is there anyway slows all of them, and the ratio counts. With --epochs N whole runs of so many
epochs are timed instead: with the number that the trial chooses, with 1 and with all; a run that
takes longer than --limit is stopped, and its time is then a lower bound. The last line is one JSON
object.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import torch

from horizon_imagination.agent import Agent
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.learn.rehearsal import rehearse
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.streams import Streams
from horizon_imagination.timing import cores

SPIN = "while True: pass"


@contextmanager
def busy(count: int):
    """So many processes that compute all the time."""
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        time.sleep(0.5 if count else 0)
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def step_of(preset: str):
    """A step of the world model on random batches."""
    config, cpu = replaced(PRESETS[preset][1], runtime={"device": "cpu"}), torch.device("cpu")
    agent = Agent(config, 3, cpu)
    batches = RandomBatches(agent, torch.Generator().manual_seed(0))
    guard = Guard(Path(), every=1, writes=False)
    world_model = make_learners(agent, batches, Streams(0, cpu), guard).world_model
    assert world_model is not None
    return world_model.step


def measure(preset: str, step, others: int, most: int, rounds: int) -> dict:
    """Median seconds of a step with one thread and with `most`, and the choice of the trial."""
    times: dict[int, list[float]] = {1: [], most: []}
    with busy(others):
        load = os.getloadavg()[0]
        for number in range(rounds + 1):
            for threads, found in times.items():
                torch.set_num_threads(threads)
                begin = time.perf_counter()
                step()
                if number:  # the first round warms up
                    found.append(time.perf_counter() - begin)
        torch.set_num_threads(most)
        config = replaced(PRESETS[preset][1], runtime={"device": "cpu", "threads": 0})
        rehearsed = rehearse(config, 3, torch.device("cpu"))
    one, all_ = median(times[1]), median(times[most])
    chosen = rehearsed.trial.threads if rehearsed.trial else most
    return {
        "others": others,
        "load_average": round(load, 2),
        "one_s": round(one, 4),
        "all_s": round(all_, 4),
        "all_over_one": round(all_ / one, 2),
        "chosen": chosen,
        "all_over_chosen": round(all_ / (one if chosen == 1 else all_), 2),
        "slowdown_said": round(rehearsed.slowdown, 2),
        "quiet_step_said_s": round(rehearsed.steps["world_model"], 4),
    }


def train(preset: str, threads: int, epochs: int, limit: float) -> tuple[float, int]:
    """Seconds of a run as a process of its own, at most `limit`, and its number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = ["train", "--preset", preset, "--device", "cpu", "--out", str(out)]
        words += ["--runtime.threads", str(threads), "--training.epochs", str(epochs)]
        begin = time.perf_counter()
        with suppress(subprocess.TimeoutExpired):
            program = [sys.executable, "-m", "horizon_imagination", *words]
            subprocess.run(program, stdout=subprocess.DEVNULL, timeout=limit, check=True)
        seconds = time.perf_counter() - begin
        config = out / "config.json"
        told = json.loads(config.read_text())["runtime"]["threads"] if config.exists() else threads
    return seconds, told


def measure_runs(args: argparse.Namespace, others: int) -> dict:
    """Whole runs with the chosen number of threads, with one, and with all."""
    with busy(others):
        row = {"others": others, "load_average": round(os.getloadavg()[0], 2)}
        auto, row["chosen"] = train(args.preset, 0, args.epochs, args.limit)
        one, _ = train(args.preset, 1, args.epochs, args.limit)
        all_, _ = train(args.preset, args.threads, args.epochs, args.limit)
    row |= {"auto_s": round(auto, 1), "one_s": round(one, 1), "all_s": round(all_, 1)}
    ratios = {"one_over_auto": round(one / auto, 2), "all_over_auto": round(all_ / auto, 2)}
    return (
        row
        | ratios
        | {"stopped": [x for x in ("auto", "one", "all") if row[f"{x}_s"] >= args.limit]}
    )


def machine() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    names = [x for x in info.read_text().splitlines() if "model name" in x] if info.exists() else []
    return names[0].split(":")[1].strip() if names else "unknown processor"


def main() -> None:
    """Print a row without and a row beside busy processes, then the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="small-catch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=cores(), help="the larger number")
    parser.add_argument("--others", type=int, default=cores(), help="busy processes")
    parser.add_argument("--epochs", type=int, default=0, help="time whole runs of so many epochs")
    parser.add_argument("--limit", type=float, default=80.0, help="seconds of a run at most")
    args = parser.parse_args()
    print(f"{machine()}, {cores()} cores; torch {torch.__version__}; {args.preset}")
    rows = runs(args) if args.epochs else steps(args)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    about = {"bench": "threads", "commit": commit.strip(), "machine": machine(), "cores": cores()}
    print(json.dumps(about | {"torch": torch.__version__} | vars(args) | {"rows": rows}))


def runs(args: argparse.Namespace) -> list[dict]:
    """Print and return a row of whole runs without and one beside busy processes."""
    rows = []
    for others in (0, args.others):
        row = measure_runs(args, others)
        rows.append(row)
        print(
            f"beside {others} busy processes, {args.epochs} epochs: chosen ({row['chosen']}) "
            f"{row['auto_s']} s, 1 thread {row['one_s']} s, {args.threads} threads "
            f"{row['all_s']} s; {args.threads} threads over chosen {row['all_over_auto']}",
            flush=True,
        )
    return rows


def steps(args: argparse.Namespace) -> list[dict]:
    """Print and return a row of world-model steps without and one beside busy processes."""
    step, rows = step_of(args.preset), []
    for others in (0, args.others):
        row = measure(args.preset, step, others, args.threads, args.rounds)
        rows.append(row)
        print(
            f"beside {others} busy processes (load average {row['load_average']}): 1 thread "
            f"{row['one_s']:.3f} s, {args.threads} threads {row['all_s']:.3f} s, ratio "
            f"{row['all_over_one']}; chosen: {row['chosen']}",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    main()
