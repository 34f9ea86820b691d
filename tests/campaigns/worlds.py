"""Let commands act in environments that break Gymnasium's contract or attack their process.

A command ends with a status and one line, within its time limits. What an isolated environment
starts is gone afterwards, and a run that was trained goes on with a good environment.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import psutil
from campaign import SMALL, Folder, Tally, begin, command, warm_up
from hostile_world import ACTS, ALONE, PLACES, WAYS

TIMES = ["--env.step-timeout", "2", "--env.reset-timeout", "12", "--env.max-failures", "2"]
LIMIT = 150.0
INSIDE = [how for how in WAYS if how not in ALONE]


def case(tally: Tally) -> dict:
    """A way, a place and a process to misbehave in."""
    how = tally.dice.choice(WAYS if tally.dice.random() < 0.4 else INSIDE)
    where = tally.dice.choice(PLACES) if how in ACTS else tally.dice.choice(("step", "reset"))
    if tally.dice.random() < 0.5:
        where = "step"
    apart = how in ALONE or tally.dice.random() < 0.1
    return {"how": how, "where": where, "at": tally.dice.randint(1, 8), "apart": apart}


def words(about: dict, out: Path, kind: str) -> list[str]:
    """The command line of a case."""
    options = json.dumps({key: about[key] for key in ("how", "at", "where")})
    line = ["--env", "hostile_world:Hostile", "--env.options", options, "--env.size", "16"]
    if about["apart"]:
        line += ["--env.isolation", "process", "--env.memory-limit", "2", *TIMES]
    if kind == "train":
        more = ["--training.epochs", "1", "--training.initial-steps", "20"]
        return ["train", *SMALL, *line, *more, "--out", str(out)]
    return ["record", *line, "--episodes", "3", "--out", str(out)]


def attack(tally: Tally, folder: Path) -> None:
    """One command in one hostile world."""
    about, kind = case(tally), tally.dice.choice(("record", "record", "train"))
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    before = {process.pid for process in psutil.process_iter()}
    ended = command(words(about, out, kind), folder / "log.txt", limit=LIMIT, prepare=_quick)
    tally.counts["worlds"] += 1
    tally.counts[f"ways_{'apart' if about['apart'] else 'inside'}"] += 1
    what = f"{kind} in {json.dumps(about)}"
    print(f"{ended.seconds:5.1f} s  {ended.status}  {what}", flush=True)
    if ended.status is None:
        tally.problem(f"{what}: hangs")
    elif "Traceback (most recent call last)" in ended.said and "horizon:" not in ended.said:
        tally.problem(f"{what}: a traceback: {ended.last}")
    elif "unexpected " in ended.said:
        tally.problem(f"{what}: {ended.last}")
    elif ended.status not in (0, 1, 2, 130):
        tally.problem(f"{what}: status {ended.status}: {ended.last}")
    elif ended.status and "horizon: " not in ended.said:
        tally.problem(f"{what}: status {ended.status} without a word: {ended.last}")
    else:
        tally.counts[f"status_{ended.status}"] += 1
    left_behind(tally, what, before, about)


def left_behind(tally: Tally, what: str, before: set[int], about: dict) -> None:
    """Whether processes of the world outlive the command."""
    time.sleep(0.05)
    mine = psutil.Process().children(recursive=True)
    lost = [p for p in psutil.process_iter(["cmdline", "ppid"]) if p.pid not in before]
    ours = [p for p in lost if p.info["ppid"] == 1 and p.info["cmdline"] and _of_world(p)]
    for process in [*mine, *ours]:
        if about["apart"]:
            tally.problem(f"{what}: leaves the process {process.pid} {process.cmdline()[:4]}")
        process.kill()


def _of_world(process: psutil.Process) -> bool:
    """Whether a stray belongs to this campaign, and not to something else on this machine."""
    line = " ".join(process.info["cmdline"])
    try:
        here = process.environ().get("HOSTILE_CAMPAIGN") == str(os.getpid())
    except psutil.Error:
        return False
    return here and ("sleep 600" in line or "horizon_imagination" in line or "worlds.py" in line)


def _quick() -> None:
    from kills import no_estimate

    no_estimate()


def main() -> int:
    """Attack."""
    _, tally = begin("worlds", __doc__)
    here = str(Path(__file__).parent)
    os.environ["HOSTILE_CAMPAIGN"] = str(os.getpid())
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    warm_up()
    with Folder() as folder:
        tally.begun = time.monotonic()
        while tally.left > 0:
            attack(tally, folder)
    return tally.close(ways=len(WAYS))


if __name__ == "__main__":
    sys.exit(main())
