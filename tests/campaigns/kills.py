"""Kill commands with SIGKILL, then repeat them: nothing may be lost, no bit may differ.

Training, evaluation and reports are killed at random moments and at random file operations. Some
runs are asked to end with SIGTERM instead, and save a snapshot first. Sweeps and runs of two ranks
are killed at random moments: the parent, a child, or all of them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
from campaign import (
    COUNT,
    KILL,
    LIMIT,
    SMALL,
    Ended,
    Folder,
    Tally,
    begin,
    command,
    preloaded,
    run_contents,
    unequal,
    unload,
    warm_up,
)

RESUME = 75
"""Exit status of a run that was asked to end and saved a snapshot."""
KINDS = ("training", "evaluation", "report", "ranks", "sweep")
MOST = {"training": 12, "evaluation": 8, "report": 4, "ranks": 4, "sweep": 4}
"""Kills after which a command may end by itself."""


def no_estimate() -> None:
    """Skip the estimate before a run, which costs seconds and writes nothing."""
    from horizon_imagination.run import start
    from horizon_imagination.run.needs import Needs

    start.describe_needs = lambda *_, **__: Needs("", 1)


class Forked:
    """A command that is killed in a forked child, and what it must leave in the end."""

    def __init__(self, tally, library, folder, name, words, contents):
        self.tally, self.library, self.name = tally, library, name
        self.folder, self.log = folder, folder / "log.txt"
        self.words, self.contents = words, contents
        self.begun, self.limit = time.monotonic(), 5 * LIMIT
        ended = self.run(folder / "reference")
        if ended.status != 0:
            raise SystemExit(f"the unbroken {name} failed: {ended.said}")
        self.takes, self.operations = time.monotonic() - self.begun, max(1, ended.operations)
        self.limit = max(LIMIT, 5 * self.takes)  # other programs may need the machine later on
        self.reference = contents(folder / "reference")

    def run(self, out: Path, **fault) -> Ended:
        words = [word.format(out=out) for word in self.words]
        fault.setdefault("below", out)
        if self.tally.dice.random() < 0.9:
            fault["prepare"] = no_estimate
        return command(words, self.log, library=self.library, limit=self.limit, **fault)

    def round(self) -> None:
        """One piece of work, killed some times, then completed and compared."""
        dice, out = self.tally.dice, self.folder / "victim"
        shutil.rmtree(out, ignore_errors=True)
        for _ in range(dice.randint(1, MOST[self.name])):
            if self.library is not None and dice.random() < 0.7:
                ended = self.run(out, mode=KILL, at=dice.randint(1, self.operations))
            else:
                asked = self.name == "training" and dice.random() < 0.4
                moment = dice.uniform(0.3 if asked else 0, self.takes)
                number = signal.SIGTERM if asked else signal.SIGKILL
                ended = self.run(out, mode=COUNT, kill_after=moment, number=number)
            if ended.killed:
                self.tally.counts[f"{self.name}_kills"] += 1
            elif ended.status == RESUME:
                self.tally.counts["training_stops"] += 1
            elif ended.status == -signal.SIGTERM and not ended.said.strip():
                self.tally.counts["training_unready"] += 1  # asked before it listened
            elif ended.status != 0:
                said = ended.last if ended.status is not None else ended.said[-3000:]
                self.tally.problem(f"{self.name} ended with {ended.status}: {said}")
            self.tally.show()
            if ended.status == 0 or self.tally.left < 0:
                break
        ended = self.run(out)
        if ended.status != 0:
            said = ended.last if ended.status is not None else ended.said[-3000:]
            return self.tally.problem(f"{self.name} cannot go on: {ended.status} {said}")
        self.tally.counts[f"{self.name}_compared"] += 1
        if odd := unequal(self.contents(out), self.reference):
            self.tally.problem(f"{self.name} differs in {', '.join(odd)}")


def training(tally, library, folder):
    words = ["train", *SMALL, "--out", "{out}/run", "--seed", str(tally.seed)]
    return Forked(tally, library, folder, "training", words, lambda out: run_contents(out / "run"))


def evaluation(tally, library, folder, run):
    """The file of an evaluation; the run itself may not change."""
    words = ["evaluate", str(run), "--episodes", "20", "--out", "{out}/evaluation.json"]

    def contents(out):
        return json.loads((out / "evaluation.json").read_text()) | run_contents(run)

    return Forked(tally, library, folder, "evaluation", words, contents)


def report(tally, library, folder, run):
    """A page is there whole or not at all; dates aside it is the same page."""
    words = ["report", str(run), "--out", "{out}"]

    def contents(out):
        pages = sorted(x for x in out.iterdir() if not x.name.startswith("."))
        ends = [x.read_text().rstrip()[-7:] for x in pages if x.suffix == ".html"]
        return {"files": [x.name for x in pages], "ends": ends} | run_contents(run)

    return Forked(tally, library, folder, "report", words, contents)


class Spawned:
    """A command of several processes, each with a Python of its own."""

    def __init__(self, tally, folder, name, words, runs):
        self.tally, self.folder, self.name = tally, folder, name
        self.words, self.runs, self.limit = words, runs, 5 * LIMIT
        begun = time.monotonic()
        status, said = self.run(folder / "reference", None)
        if status != 0:
            raise SystemExit(f"the unbroken {name} failed: {said}")
        self.takes = time.monotonic() - begun
        self.limit = max(LIMIT, 5 * self.takes)  # other programs may need the machine later on
        self.reference = self.contents(folder / "reference")

    def contents(self, out):
        return {f"{run}/{k}": v for run in self.runs for k, v in run_contents(out / run).items()}

    def run(self, out: Path, kill_after: float | None):
        words = [sys.executable, "-m", "horizon_imagination"]
        words += [word.format(out=out) for word in self.words]
        log, how = self.folder / "log.txt", {"start_new_session": True}
        how["env"] = os.environ | {"PYTHONFAULTHANDLER": "1"}
        with open(log, "wb") as file:
            process = subprocess.Popen(words, stdout=file, stderr=file, **how)
        family = psutil.Process(process.pid)
        try:
            process.wait(self.limit if kill_after is None else kill_after)
        except subprocess.TimeoutExpired:
            if kill_after is None:
                kill_some(family, "all", signal.SIGABRT)  # each says where it is
                time.sleep(2)
            if kill_after is not None and self.name == "ranks" and self.tally.dice.random() < 0.3:
                return self.ask(process), log.read_text()
            kill_some(family, "all" if kill_after is None else self.choose())
            self.settle(process)
            self.tally.show()
            return (None if kill_after is None else -signal.SIGKILL), log.read_text()
        return process.returncode, log.read_text()

    def ask(self, process):
        """Ask the launcher to stop; the exit status, by default of SIGTERM before it listens."""
        process.send_signal(signal.SIGTERM)
        self.settle(process)
        status = process.returncode
        if status == RESUME:
            self.tally.counts[f"{self.name}_stops"] += 1
        elif status not in (0, -signal.SIGTERM):
            self.tally.problem(f"{self.name} that were asked to stop ended with {status}")
        return status

    def choose(self):
        self.tally.counts[f"{self.name}_kills"] += 1
        return self.tally.dice.choice(("all", "parent", "child"))

    def settle(self, process):
        """What survives may work on; it has a while to end by itself."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.limit)
            return
        self.tally.problem(f"{self.name} does not end after a kill")
        kill_some(psutil.Process(process.pid), "all")
        process.wait()

    def round(self):
        dice, out = self.tally.dice, self.folder / "victim"
        shutil.rmtree(out, ignore_errors=True)
        for _ in range(dice.randint(1, MOST[self.name])):
            status, said = self.run(out, dice.uniform(0, self.takes))
            if status == 0 or self.tally.left < 0:
                break
        until = time.monotonic() + self.limit
        while True:
            status, said = self.run(out, None)
            if "another process" not in said or time.monotonic() > until:
                break
            time.sleep(0.5)  # an orphan still trains
        if status != 0:
            return self.tally.problem(f"{self.name} cannot go on: {status} {said[-3000:]}")
        self.tally.counts[f"{self.name}_compared"] += 1
        if odd := unequal(self.contents(out), self.reference):
            self.tally.problem(f"{self.name} differs in {', '.join(odd)}")


def kill_some(family: psutil.Process, whom: str, number: int = signal.SIGKILL) -> None:
    """Kill a process, one of its children, or all of them."""
    with suppress(psutil.NoSuchProcess):
        children = family.children(recursive=True)
        everyone = {"all": [family, *children], "parent": [family], "child": children[:1]}[whom]
        for one in everyone or [family]:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)


def ranks(tally, folder):
    words = ["train", *SMALL, "--out", "{out}/run", "--processes", "2", "--device", "cpu"]
    return Spawned(tally, folder, "ranks", words, ["run"])


def sweep(tally, folder):
    words = ["sweep", "--envs", "catch", "--preset", "debug", "--seeds", "2", "--gpus", "0"]
    words += ["--threads", "1", "--retries", "9", "--out", "{out}/suite"]
    words += ["--settings", "s:training.epochs=3,training.evaluate_every=1"]
    return Spawned(tally, folder, "sweep", words, ["suite/catch-s-0", "suite/catch-s-1"])


def make(kind: str, tally: Tally, library, folder: Path, run: Path):
    """The victim of a kind, with its unbroken reference."""
    place = folder / kind
    place.mkdir()
    if kind == "training":
        return training(tally, library, place)
    if kind in ("ranks", "sweep"):
        return (ranks if kind == "ranks" else sweep)(tally, place)
    if not run.exists():
        ended = command(["train", *SMALL, "--out", str(run)], folder / "log.txt")
        if ended.status != 0:
            raise SystemExit(ended.said)
    return (evaluation if kind == "evaluation" else report)(tally, library, place, run)


def main() -> int:
    """Kill."""
    kinds = {"nargs": "+", "choices": KINDS, "default": list(KINDS), "help": "what is killed"}
    args, tally = begin("kills", __doc__, kinds=kinds)
    library = preloaded()
    os.environ.pop("LD_PRELOAD", None)
    warm_up()
    with Folder() as folder:
        victims = [make(kind, tally, library, folder, folder / "run") for kind in args.kinds]
        tally.begun = time.monotonic()
        while tally.left > 0:
            for victim in victims:
                if tally.left > 0:
                    victim.round()
    unload()
    kills = sum(n for name, n in tally.counts.items() if name.endswith("_kills"))
    return tally.close(kills=kills)


if __name__ == "__main__":
    sys.exit(main())
