"""Damage every file that the program reads, in memory and time bounds, and watch what it does.

Each input either loads or is refused with a UsageError. Anything else is a problem: another
exception, a hang, a crash, more memory than the bound, a command or an import, a file written
outside the folder. Inputs that once fell are in corpus/found and come first. With `--guided` the
readers that are plain Python are traced (guided.py), and inputs that reach new lines become parents
of more inputs.

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
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random

from campaign import Tally, begin
from guided import LARGEST, Line, Lines, Parents, keep_parent
from mutations import damaged

ROOM = 1 * 2**30
"""Bytes that reading may take beyond what the program has when it begins."""
LIMIT = 10.0
"""Seconds that one input may take: then an alarm ends it and says where it was."""
SILENCE = 6 * LIMIT
"""Seconds without a word after which a worker hangs where no alarm ends it."""
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


def look(target, folder, content: bytes, guard: Guard, seed: bytes, refused, watching) -> str:
    """Read one damaged file; what came of it in a word, or in a line what was wrong."""
    path = folder / target.file
    path.write_bytes(content)
    guard.seen, guard.on = "", True
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        with watching():
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


class Source:
    """Where the inputs of a worker come from: inputs that fell once, then damaged copies."""

    def __init__(self, names: list[str], folder: Path, dice: Random, guided: bool) -> None:
        from readers import CORPUS, GUIDED, HEAVY, TARGETS

        self.dice, self.targets = dice, {name: TARGETS[name] for name in names}
        self.seeds = {name: (folder / x.file).read_bytes() for name, x in self.targets.items()}
        known = [(x.parent.name, x.read_bytes()) for x in sorted(CORPUS.glob("found/*/*"))]
        self.todo = [(name, content) for name, content in known if name in self.targets]
        self.turns = [x for x in names for _ in range(1 if x in HEAVY else 5)]
        self.lines, self.parents = Lines(), {}
        for name in names if guided else ():
            if name in GUIDED:
                more = [x.read_bytes() for x in sorted(CORPUS.glob(f"guided/{name}/*"))]
                self.parents[name] = Parents(self.seeds[name], self.targets[name].kind, more)

    def next(self) -> tuple[str, str, bytes]:
        """The half that an input belongs to, its target and its content."""
        if self.todo:
            return ("plain", *self.todo.pop(0))
        name = self.dice.choice(self.turns)
        if name in self.parents and self.dice.random() < 0.5:
            return "guided", name, self.parents[name].child(self.dice)
        return "plain", name, damaged(self.seeds[name], self.dice, self.targets[name].kind)

    def watching(self, name: str) -> Callable[[], AbstractContextManager]:
        """What an input is read in."""
        return self.lines.watching if name in self.parents else nullcontext

    def new_lines(self, half: str, name: str, content: bytes) -> set[Line]:
        """The lines that the input just read was the first of its half to reach."""
        known = self.parents.get(name)
        return known.note(half, content, self.lines.now) if known else set()


def work(
    pipe, names: list[str], folder: Path, seed: int, until: float, least: int, guided: bool
) -> None:
    """Read inputs one after another, at least so many; tell of each before and after."""
    from readers import REFUSED, make_seeds

    def hang(*_):
        raise HangError

    signal.signal(signal.SIGALRM, hang)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    make_seeds(folder)
    source = Source(names, folder, Random(seed), guided)
    for name, target in source.targets.items():
        with suppress(*REFUSED), source.watching(name)():
            target.read(folder)  # what is imported late is imported now
        for half in ("plain", "guided"):
            pipe.send(("lines", half, source.new_lines(half, name, source.seeds[name])))
    guard = Guard(folder)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while source.todo or time.monotonic() < until or least > 0:
        half, name, content = source.next()
        least -= 1
        pipe.send(("begin", name, content))
        target, seed_of = source.targets[name], source.seeds[name]
        watching = source.watching(name)
        outcome = look(target, folder, content, guard, seed_of, REFUSED, watching)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if name in source.parents:
            pipe.send(("lines", half, source.new_lines(half, name, content)))
        pipe.send(("end", name, outcome, peak))
    pipe.send(("done", "", "", 0))


@dataclass
class Reached:
    """The lines that inputs with and without guidance have reached, over all workers."""

    folder: Path | None
    """Where parents are written, if anywhere."""
    lines: dict[str, set[Line]] = field(default_factory=lambda: {"plain": set(), "guided": set()})
    inputs: Counter = field(default_factory=Counter)

    def hear(self, half: str, new: set[Line], name: str, content: bytes) -> None:
        """Count an input; keep it where its lines are new."""
        if not name:  # an undamaged file
            self.lines[half] |= new
            return
        self.inputs[half] += 1
        if half == "guided" and new - self.lines[half]:
            self.inputs["parents"] += 1
            if self.folder is not None and len(content) <= LARGEST:
                keep_parent(self.folder, name, content)
        self.lines[half] |= new

    def counts(self) -> dict[str, object]:
        """For the last line of the campaign."""
        plain, guided = self.lines["plain"], self.lines["guided"]
        about = {"inputs_without": self.inputs["plain"], "inputs_with": self.inputs["guided"]}
        about |= {"lines_without": len(plain), "lines_with": len(guided)}
        about |= {"only_without": len(plain - guided), "only_with": len(guided - plain)}
        return {"guided": about | {"parents": self.inputs["parents"]}}


def watch(
    tally: Tally, names: list[str], keep: Path | None, least: int, reached: Reached | None
) -> int:
    """Let workers read until the time is up, and at least so many inputs; the most memory that
    reading took, in KiB."""
    until, peak, number = tally.begun + tally.seconds, 0, 0
    known: Counter = Counter()
    context = get_context("fork")
    while number == 0 or time.monotonic() < until:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-")).resolve()
        mine, theirs = context.Pipe(duplex=False)
        seed = tally.seed + 1000 * number
        left = least - tally.counts["inputs"]
        arguments = (theirs, names, folder, seed, until, left, reached is not None)
        worker = context.Process(target=work, args=arguments, daemon=True)
        worker.start()
        theirs.close()
        number += 1
        name, content, more = "", b"", True
        while more:
            heard = mine.recv() if mine.poll(SILENCE + 60 * (not name)) else None
            if heard is None:
                worker.kill()
                fell(tally, known, keep, name, content, "a hang that no signal ends")
                more = False
            elif heard[0] == "begin":
                name, content = heard[1:]
            elif heard[0] == "lines":
                if reached is not None:
                    reached.hear(*heard[1:], name, content)
            elif heard[0] == "end":
                tally.counts["inputs"] += 1
                tally.show()
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
    guided = {"action": "store_true", "help": "let inputs that reach new lines have descendants"}
    parents = {"type": Path, "help": "with --guided: folder for such inputs"}
    inputs = {"type": int, "default": 0, "help": "at least so many, however long they take"}
    options = {"targets": targets, "keep": keep, "guided": guided, "parents": parents}
    options["inputs"] = inputs
    args, tally = begin("fuzz", __doc__, **options)
    reached = Reached(args.parents) if args.guided else None
    import torch

    torch.set_num_threads(1)
    try:
        peak = watch(tally, args.targets, args.keep, args.inputs, reached)
    except EOFError:
        tally.problem("a worker vanished")
        peak = 0
    more = reached.counts() if reached is not None else {}
    return tally.close(peak_mb=round(peak / 1024), room_mb=ROOM // 2**20, **more)


if __name__ == "__main__":
    sys.exit(main())
