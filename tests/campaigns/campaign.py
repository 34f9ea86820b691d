"""What the campaigns share: their command line and tally, forked commands, and comparing runs.

A campaign imports the package once and forks a child for every command, so that a command costs
its own work and not the start of Python. Children run with a preload (faults.c) that can kill
them, or let the disk fail, at a chosen file operation.
"""

import argparse
import ctypes
import faulthandler
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

COUNT, KILL, FULL, READ_ONLY, BROKEN = range(5)
"""Modes of the preload: see faults.c."""
LIMIT = 180.0
"""Seconds after which a command hangs."""
SMALL = ["--preset", "debug", "--training.epochs", "4", "--training.snapshot-every", "2"]
"""The run that campaigns train: it evaluates twice and writes two snapshots."""
LIBRARY = "HORIZON_CAMPAIGN_LIBRARY"


@dataclass
class Tally:
    """What a campaign has done so far, and what fell."""

    name: str
    seconds: float
    seed: int
    counts: Counter = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self._shown = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.begun + self.seconds - time.monotonic()

    def problem(self, text: str) -> None:
        """Write down what fell, and say it now."""
        self.problems.append(text)
        print(f"PROBLEM {text}", flush=True)

    def show(self) -> None:
        """Tell the counts on stderr, once a minute."""
        if time.monotonic() - self._shown > 60:
            self._shown = time.monotonic()
            print(f"{self.left:.0f} s left: {dict(self.counts)}", file=sys.stderr)

    def close(self, **more: object) -> int:
        """Print the counts as the last line, in JSON; the exit status."""
        about = {"campaign": self.name, "seed": self.seed, "counts": dict(self.counts)}
        about |= {"problems": len(self.problems), "first_problems": self.problems[:5]}
        print(json.dumps(about | {"seconds": round(time.monotonic() - self.begun, 1)} | more))
        return 1 if self.problems else 0


def begin(name: str, about: str | None, **options: dict) -> tuple[argparse.Namespace, Tally]:
    """Read the command line of a campaign."""
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="of all random choices (default 0)")
    for option, how in options.items():
        parser.add_argument(f"--{option}", **how)
    args = parser.parse_args()
    return args, Tally(name, args.seconds, args.seed)


class Folder:
    """A folder for the campaign's files, which goes when the campaign ends."""

    def __enter__(self) -> Path:
        self.path = Path(tempfile.mkdtemp(prefix="campaign-")).resolve()
        return self.path

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def preloaded() -> ctypes.CDLL | None:
    """Start this program again with the preload; None where no C compiler is at hand."""
    if LIBRARY in os.environ:
        return ctypes.CDLL(os.environ[LIBRARY])
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = Path(tempfile.gettempdir()) / f"campaign-faults-{os.getuid()}-{os.getpid()}.so"
    source = Path(__file__).with_name("faults.c")
    words = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    if subprocess.run(words, capture_output=True).returncode:
        return None
    environment = os.environ | {"LD_PRELOAD": str(library), LIBRARY: str(library)}
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def unload() -> None:
    """Remove the preload's file at the end of a campaign."""
    if LIBRARY in os.environ:
        Path(os.environ[LIBRARY]).unlink(missing_ok=True)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int | None
    """The exit status, minus the signal that killed it, or None if it hung."""
    said: str
    operations: int = 0
    """File operations it did below the armed folder, if it ended by itself."""
    seconds: float = 0.0

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL

    @property
    def last(self) -> str:
        """The last line it said."""
        return (self.said.strip().splitlines() or [""])[-1][:300]


def command(
    words: list[str],
    log: Path,
    *,
    library: ctypes.CDLL | None = None,
    below: Path | None = None,
    mode: int = COUNT,
    at: int = 0,
    kill_after: float | None = None,
    number: int = signal.SIGKILL,
    prepare: Callable[[], None] = lambda: None,
    limit: float = LIMIT,
) -> Ended:
    """Run `horizon WORDS` in a forked child, with a fault, or sent a signal after a while."""
    counted = log.with_suffix(".count")
    counted.unlink(missing_ok=True)
    begun, pid = time.monotonic(), os.fork()
    if pid == 0:
        _child(words, log, counted, library, below, mode, at, prepare)
    status = _wait(pid, kill_after, limit, number)
    operations = int(counted.read_text()) if counted.exists() else 0
    said = log.read_text(errors="replace") if log.exists() else ""
    return Ended(status, said, operations, time.monotonic() - begun)


def _child(
    words: list[str],
    log: Path,
    counted: Path,
    library: ctypes.CDLL | None,
    below: Path | None,
    mode: int,
    at: int,
    prepare: Callable[[], None],
) -> None:
    """What the forked process does; it never returns."""
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    status = 99
    faulthandler.register(signal.SIGUSR2, output, all_threads=True)
    try:
        prepare()
        if library is not None and below is not None:
            library.fault_arm(str(below).encode(), mode, ctypes.c_long(at))
        from horizon_imagination.cli import main

        status = main(words)
        if library is not None:
            count = int(library.fault_count())
            library.fault_arm(b"", -1, ctypes.c_long(0))
            counted.write_text(str(count))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(pid: int, kill_after: float | None, limit: float, number: int) -> int | None:
    status = _poll(pid, limit if kill_after is None else kill_after)
    if status is None and kill_after is not None and number != signal.SIGKILL:
        os.kill(pid, number)
        status, kill_after = _poll(pid, limit), None
    if status is not None:
        return status
    if kill_after is None:
        os.kill(pid, signal.SIGUSR2)  # it says where it hangs
        time.sleep(2)
    end_session(pid)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if kill_after is not None else None


def _poll(pid: int, seconds: float) -> int | None:
    until, pause = time.monotonic() + seconds, 0.002
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.02, pause * 1.2)
    return None


def end_session(pid: int) -> None:
    """Kill a child and whatever it started in its session."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)


def run_contents(folder: Path) -> dict[str, object]:
    """Everything of a finished run that must not depend on when it was interrupted.

    Wall times are left out.
    """
    checkpoints = sorted((folder / "checkpoints").iterdir())
    last = [x for x in checkpoints if x.name.startswith("epoch-") and x.suffix != ".tmp"][-1]
    best = [x for x in checkpoints if x.name.startswith("best-") and x.suffix != ".tmp"][-1:]
    found: dict[str, object] = {}
    for place in (last, *best):
        for path in place.glob("*.safetensors"):
            found[f"{place.name.rstrip('+')}/{path.name}"] = path.read_bytes()
    for path in (folder / "replay").iterdir():
        found[f"replay/{path.name}"] = path.read_bytes()
    state = json.loads((last / "state.json").read_text())
    found["state"] = {k: v for k, v in state.items() if k != "seconds"}
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = [{k: v for k, v in x.items() if not k.startswith("time/")} for x in lines]
    return found


def unequal(mine: dict[str, object], theirs: dict[str, object]) -> list[str]:
    """The names whose contents differ."""
    return sorted(k for k in mine.keys() | theirs.keys() if mine.get(k) != theirs.get(k))


def warm_up() -> None:
    """Import what the commands use, so that every child has it."""
    import torch

    torch.set_num_threads(1)
    import torch.utils.tensorboard

    import horizon_imagination.cli.evaluate
    import horizon_imagination.cli.report
    import horizon_imagination.cli.train
    import horizon_imagination.run.start
    import horizon_imagination.scale.distributed  # noqa: F401
