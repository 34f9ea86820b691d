"""Let the disk fail under commands: full, read-only, an error of the device, a loss of power.

A command that meets a fault ends with one line and a status, or does without what it could not
write. The same command then goes on where the disk works again, and the result equals that of an
unbroken one, bit for bit. A loss of power drops what was not synced: contents, and names.
"""

import os
import shutil
import sys
import time
from pathlib import Path

from campaign import (
    BROKEN,
    FULL,
    KILL,
    READ_ONLY,
    SMALL,
    Folder,
    begin,
    command,
    preloaded,
    run_contents,
    unequal,
    unload,
    warm_up,
)
from kills import no_estimate

MODES = {"full": FULL, "read_only": READ_ONLY, "broken": BROKEN}
COMMANDS = {
    "train": ["train", *SMALL, "--out", "{out}/run"],
    "evaluate": ["evaluate", "{run}", "--episodes", "8", "--out", "{out}/evaluation.json"],
    "record": ["record", "--env", "catch", "--episodes", "5", "--out", "{out}/data"],
    "import": ["data", "import", "{data}", "{out}/data"],
    "strip": ["strip", "{run}", "--device", "cpu", "--out", "{out}/strip.png"],
}


class Power:
    """Remembers what is safe on the disk, and takes away the rest when the power goes.

    A file is safe as it was when it was last synced, a name once its folder was synced. What was
    there at the beginning is safe. Inodes are held by links, so that their numbers stay theirs.
    """

    def __init__(self, folder: Path, shelf: Path) -> None:
        self.folder, self.shelf = folder, shelf
        shutil.rmtree(shelf, ignore_errors=True)
        shelf.mkdir(parents=True)
        for place, _, names in os.walk(folder):
            for name in names:
                self.keep(Path(place) / name)
            self.list(Path(place))

    def keep(self, path: Path) -> None:
        """The content of a file is safe now."""
        number = path.stat().st_ino
        held = self.shelf / f"{number}.held"
        if not held.exists():
            os.link(path, held)
        temporary = self.shelf / f"{number}.new"
        shutil.copyfile(path, temporary)
        os.replace(temporary, self.shelf / f"{number}.safe")

    def list(self, place: Path) -> None:
        """The names in a folder are safe now."""
        lines = [f"{x.stat().st_ino} {x.name}" for x in place.iterdir() if x.is_file()]
        (self.shelf / f"{place.stat().st_ino}.names").write_text("\n".join(lines))

    def watch(self) -> None:
        """In the child: keep what is synced from now on."""
        sync, self.busy = os.fsync, False

        def fsync(descriptor):
            sync(descriptor)
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            path = Path(os.readlink(f"/proc/self/fd/{number}"))
            if path.is_relative_to(self.folder):
                self.list(path) if path.is_dir() else self.keep(path)

        os.fsync = os.fdatasync = fsync

    def lose(self, dice) -> int:
        """Take away what was not safe; the disk may have kept any part of it. How many files."""
        changed = 0
        for place, _, _ in os.walk(self.folder):
            if dice.random() < 0.5:
                self.forget_names(Path(place))
            for name in os.listdir(place):
                path = Path(place) / name
                changed += path.is_file() and self.lose_content(path, dice)
        return changed

    def forget_names(self, place: Path) -> None:
        """The folder lists what it listed when it was last synced."""
        known = self.shelf / f"{place.stat().st_ino}.names"
        before = known.read_text().splitlines() if known.exists() else []
        entries = dict(reversed(line.split(" ", 1)) for line in before)
        for path in [x for x in place.iterdir() if x.is_file()]:
            if path.name not in entries:
                path.unlink()
        for name, number in entries.items():
            path, held = place / name, self.shelf / f"{number}.held"
            if held.exists() and not (path.exists() and path.stat().st_ino == int(number)):
                path.unlink(missing_ok=True)
                os.link(held, path)

    def lose_content(self, path: Path, dice) -> bool:
        """A file goes back to its safe content, or some of what was written later is there."""
        safe = self.shelf / f"{path.stat().st_ino}.safe"
        old = safe.read_bytes() if safe.exists() else b""
        new = path.read_bytes()
        if old == new or dice.random() < 0.3:
            return False
        kept = dice.randrange(len(new) + 1) if dice.random() < 0.3 else 0
        mixed = new[:kept] + old[kept:] if kept < len(old) else new[:kept]
        path.write_bytes(mixed if kept else old)
        return True


def operations_of(library, folder, run, data):
    """The file operations of every command on a good disk; all of them must succeed."""
    found = {}
    for name, line in COMMANDS.items():
        out = run.parent if name == "train" else folder / "good" / name
        out.mkdir(parents=True)
        words = [word.format(out=out, run=run, data=data) for word in line]
        counted = {"library": library, "below": out, "prepare": no_estimate}
        ended = command(words, folder / "log.txt", **counted)
        if ended.status != 0:
            raise SystemExit(f"the unbroken {name} failed: {ended.said}")
        found[name] = max(1, ended.operations)
    return found


def faults(tally, library, folder, run, data, operations):
    """One command with one fault, then once more on a good disk."""
    dice = tally.dice
    name, mode = dice.choice(list(COMMANDS)), dice.choice(list(MODES))
    out, log = folder / "out", folder / "log.txt"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    words = [word.format(out=out, run=run, data=data) for word in COMMANDS[name]]
    at = dice.randint(1, operations[name])
    fault = {"library": library, "below": out, "mode": MODES[mode], "at": at}
    ended = command(words, log, prepare=no_estimate, **fault)
    tally.counts[f"{mode}_disks"] += 1
    tally.counts[f"{name}_faults"] += 1
    what = f"{name} on a {mode} disk from operation {fault['at']}"
    said = [x for x in ended.said.splitlines() if x.strip()]
    if ended.status is None:
        tally.problem(f"{what} hangs")
    elif "Traceback" in ended.said or "unexpected " in ended.said:
        tally.problem(f"{what}: {ended.last}")
    elif ended.status not in (0, 1, 2):
        tally.problem(f"{what}: status {ended.status}: {ended.last}")
    elif ended.status and not said[-1].startswith("horizon: "):
        tally.problem(f"{what} says last: {ended.last}")
    if ended.status == 0 and name != "train":
        return
    again = command(words, log, prepare=no_estimate)
    tally.counts["repeated"] += 1
    if again.status != 0:
        return tally.problem(f"{what}: afterwards {again.last}")
    if name == "train" and (odd := unequal(run_contents(out / "run"), run_contents(run))):
        tally.problem(f"{what}: afterwards it differs in {', '.join(odd)}")


def power(tally, library, folder, run, operations):
    """A run that loses power some times, then ends on a good day."""
    dice, out, log = tally.dice, folder / "power", folder / "log.txt"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    words = [word.format(out=out) for word in COMMANDS["train"]]

    def prepare(machine):
        no_estimate()
        machine.watch()

    for _ in range(dice.randint(1, 6)):
        machine = Power(out, folder / "shelf")
        fault = {"library": library, "below": out, "mode": KILL, "at": dice.randint(1, operations)}
        ended = command(words, log, prepare=lambda m=machine: prepare(m), **fault)
        if not ended.killed:
            if ended.status:
                tally.problem(f"after a loss of power: {ended.status} {ended.last}")
            break
        tally.counts["power_losses"] += 1
        tally.counts["files_lost"] += machine.lose(dice)
    ended = command(words, log, prepare=no_estimate)
    tally.counts["repeated"] += 1
    if ended.status != 0:
        return tally.problem(f"after a loss of power: {ended.status} {ended.last}")
    if odd := unequal(run_contents(out / "run"), run_contents(run)):
        tally.problem(f"after a loss of power the run differs in {', '.join(odd)}")


def episodes(folder: Path) -> None:
    """Two .npz files to import."""
    import numpy as np

    folder.mkdir()
    for name in "ab":
        frames = np.zeros((9, 16, 16, 3), np.uint8)
        np.savez(folder / f"{name}.npz", frames=frames, actions=np.arange(8) % 3)


def main() -> int:
    """Fail."""
    _, tally = begin("disks", __doc__)
    library = preloaded()
    if library is None:
        return tally.close(skipped="no C compiler")
    os.environ.pop("LD_PRELOAD", None)
    warm_up()
    with Folder() as folder:
        run, data = folder / "whole" / "run", folder / "episodes"
        episodes(data)
        operations = operations_of(library, folder, run, data)
        tally.begun = time.monotonic()
        while tally.left > 0:
            tally.show()
            if tally.dice.random() < 0.6:
                faults(tally, library, folder, run, data, operations)
            else:
                power(tally, library, folder, run, operations["train"])
    unload()
    faults_met = sum(n for name, n in tally.counts.items() if name.endswith("_disks"))
    return tally.close(faults=faults_met)


if __name__ == "__main__":
    sys.exit(main())
