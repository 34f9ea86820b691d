"""Damage every file that the program reads, in memory and time bounds, and watch what it does.

Each input either loads or is refused with a UsageError. Anything else is a problem: another
exception, a hang, a crash, more memory than the bound, a command or an import, a file written
outside the folder. Inputs that once fell are in corpus/found and come first.

A worker process reads the inputs; the campaign watches it, and starts another where it dies.
"""

import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from random import Random

from campaign import Tally, begin

ROOM = 1 * 2**30
"""Bytes that reading may take beyond what the program has when it begins."""
LIMIT = 10.0
"""Seconds that one input may take."""
RUNS_CODE = {
    *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"),
    *("subprocess.Popen", "ctypes.dlopen", "pickle.find_class", "socket.connect", "os.startfile"),
}
WRITES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link", "os.chmod"}


class HangError(BaseException):
    """An input took too long."""


class CodeError(BaseException):
    """Reading ran something, or wrote outside."""


class Guard:
    """Watches what the process does while an input is read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.on, self.seen = str(folder), False, ""
        sys.addaudithook(self.event)

    def event(self, name: str, about: tuple) -> None:
        if not self.on:
            return
        if name in RUNS_CODE and not (name == "pickle.find_class" and _harmless(about)):
            self.stop(f"{name} {str(about)[:200]}")
        if name == "open" and isinstance(about[0], str) and isinstance(about[2], int):
            if about[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.place(name, about[0])
        elif name in WRITES and isinstance(about[0], str | os.PathLike):
            # A name inside an open folder was looked at when the folder was opened.
            relative = any(isinstance(x, int) and x > 2 for x in about[1:])
            if os.path.isabs(about[0]) or not relative:
                self.place(name, os.fspath(about[0]))

    def place(self, name: str, path: str) -> None:
        inside = os.path.abspath(path).startswith((self.folder, "/dev/null"))
        if not inside and not (path.endswith(".pyc") or "__pycache__" in path):
            self.stop(f"{name} {path}")

    def stop(self, what: str) -> None:
        self.seen = what
        raise CodeError(what)


def _harmless(about: tuple) -> bool:
    return str(about[0]).startswith(("numpy", "collections", "torch"))


def look(target, folder: Path, content: bytes, guard: Guard, seed: bytes, refused) -> str:
    """Read one damaged file; what came of it in a word, or in a line what was wrong."""
    path = folder / target.file
    path.write_bytes(content)
    guard.seen, guard.on = "", True
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        target.read(folder)
        outcome = "loaded"
    except refused as error:
        outcome = "refused"
        if not str(error).strip():
            outcome = "an empty message"
    except HangError:
        outcome = f"hang of more than {LIMIT:.0f} s at {_where()}"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {str(error)[:160]!r} at {_where()}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        guard.on = False
    if guard.seen:
        outcome = f"did {guard.seen}"
    if path.parent.is_dir():
        path.write_bytes(seed)
    return outcome


def _where() -> str:
    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [f for f in frames if "horizon_imagination" in f.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} ({ours[-1].name})"


def work(pipe, names: list[str], folder: Path, seed: int, until: float) -> None:
    """Read inputs one after another; tell of each before and after."""
    from mutations import damaged
    from readers import CORPUS, REFUSED, TARGETS, make_seeds

    def hang(*_):
        raise HangError

    signal.signal(signal.SIGALRM, hang)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    make_seeds(folder)
    targets = {name: TARGETS[name] for name in names}
    seeds = {name: (folder / target.file).read_bytes() for name, target in targets.items()}
    for target in targets.values():
        with suppress(*REFUSED):
            target.read(folder)  # what is imported late is imported now
    guard = Guard(folder)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    dice = Random(seed)
    known = [(x.parent.name, x.read_bytes()) for x in sorted(CORPUS.glob("found/*/*"))]
    todo = [(name, content) for name, content in known if name in targets]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while todo or time.monotonic() < until:
        if todo:
            name, content = todo.pop(0)
        else:
            name = dice.choice(names)
            content = damaged(seeds[name], dice, targets[name].kind)
        pipe.send(("begin", name, content))
        outcome = look(targets[name], folder, content, guard, seeds[name], REFUSED)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        pipe.send(("end", name, outcome, peak))
    pipe.send(("done", "", "", 0))


def watch(tally: Tally, names: list[str], keep: Path | None) -> int:
    """Let workers read until the time is up; the most memory that reading took, in KiB."""
    until, peak, number = tally.begun + tally.seconds, 0, 0
    known: Counter = Counter()
    context = get_context("fork")
    while number == 0 or time.monotonic() < until:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-")).resolve()
        mine, theirs = context.Pipe(duplex=False)
        arguments = (theirs, names, folder, tally.seed + 1000 * number, until)
        worker = context.Process(target=work, args=arguments, daemon=True)
        worker.start()
        theirs.close()
        number += 1
        name, content, more = "", b"", True
        while more:
            heard = mine.recv() if mine.poll(LIMIT + 110 * (not name)) else None
            if heard is None:
                worker.kill()
                fell(tally, known, keep, name, content, "a hang that no signal ends")
                more = False
            elif heard[0] == "begin":
                name, content = heard[1:]
            elif heard[0] == "end":
                tally.counts["inputs"] += 1
                peak = max(peak, heard[3])
                if heard[2] in ("loaded", "refused"):
                    tally.counts[heard[2]] += 1
                else:
                    fell(tally, known, keep, name, content, heard[2])
            else:
                more = False
        worker.join(5)
        shutil.rmtree(folder, ignore_errors=True)
        if worker.exitcode not in (0, -signal.SIGKILL):
            fell(tally, known, keep, name, content, f"the worker ended with {worker.exitcode}")
    return peak


def fell(tally, known: Counter, keep: Path | None, name: str, content: bytes, what: str) -> None:
    """A problem is told once for each place; its input is kept where that is asked for."""
    tally.counts["fell"] += 1
    key = (name, what.split(":")[0], what.split(" at ")[-1])
    known[key] += 1
    if known[key] > 1:
        return
    tally.problem(f"{name}: {what}")
    if keep is not None:
        place = keep / name
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{len(known):03d}").write_bytes(content)


def main() -> int:
    """Fuzz."""
    from readers import TARGETS

    targets = {"nargs": "+", "choices": list(TARGETS), "default": list(TARGETS)}
    keep = {"type": Path, "help": "folder for inputs that fall"}
    args, tally = begin("fuzz", __doc__, targets=targets, keep=keep)
    import torch

    torch.set_num_threads(1)
    try:
        peak = watch(tally, args.targets, args.keep)
    except EOFError:
        tally.problem("a worker vanished")
        peak = 0
    return tally.close(peak_mb=round(peak / 1024), room_mb=ROOM // 2**20)


if __name__ == "__main__":
    sys.exit(main())
