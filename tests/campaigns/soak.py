"""Train for a long time and watch memory, open files, threads and the size of the folder.

Nothing but the replay, the metrics and TensorBoard's events may grow. A plot shows it all.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
from campaign import Folder, begin

EVERY = 1.0
"""Seconds between two looks, at most."""
WARM = 0.3
"""The part of the time in which caches still fill."""
GROWTH = 0.15
"""The growth of memory after it that is still no leak."""
START = 600.0
"""Seconds at most until the first epoch is over; a busy machine takes long."""


def size_of(folder: Path) -> tuple[int, int]:
    """Bytes and files below a folder."""
    total = count = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
                count += 1
            except OSError:
                continue  # just renamed
    return total, count


def look(process: psutil.Process, folder: Path, begun: float) -> dict[str, float]:
    """One sample."""
    with process.oneshot():
        memory, threads = process.memory_info().rss, process.num_threads()
    disk, files = size_of(folder)
    entries = (folder / "metrics.jsonl").read_bytes().count(b"\n")
    return {
        "seconds": time.monotonic() - begun,
        "rss_mb": memory / 2**20,
        "open_files": process.num_fds(),
        "threads": threads,
        "disk_mb": disk / 2**20,
        "files": files,
        "epochs": entries,
    }


def soak(seconds: float, folder: Path, seed: int) -> list[dict[str, float]]:
    """Train, and take a sample now and then."""
    words = [sys.executable, "-m", "horizon_imagination", "train", "--preset", "debug"]
    words += ["--training.epochs", "1000000", "--seed", str(seed), "--out", str(folder)]
    words += ["--training.snapshot-every", "5", "--training.strips-every", "0"]
    log = open(folder.with_suffix(".log"), "wb")  # noqa: SIM115
    child = subprocess.Popen(
        words, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    process, samples = psutil.Process(child.pid), []
    until = time.monotonic() + START
    while not (folder / "metrics.jsonl").exists() and time.monotonic() < until:
        if child.poll() is not None:
            break
        time.sleep(0.2)
    begun = time.monotonic()  # what is watched is training, not how long the start takes
    while time.monotonic() - begun < seconds and child.poll() is None:
        time.sleep(max(EVERY, seconds / 500))
        if child.poll() is None:
            samples.append(look(process, folder, begun))
    status = child.poll()
    child.send_signal(signal.SIGTERM)
    child.wait(120)
    log.close()
    if status is not None:
        raise SystemExit(f"training ended with {status}: {folder.with_suffix('.log').read_text()}")
    return samples


def judge(tally, samples: list[dict[str, float]]) -> dict[str, float]:
    """Figures of the later part, and problems where something grows."""
    if len(samples) < 5:
        tally.problem(f"only {len(samples)} samples")
        return {}
    later = samples[int(WARM * len(samples)) :]
    half = len(later) // 2
    before = sum(x["rss_mb"] for x in later[:half]) / half
    after = sum(x["rss_mb"] for x in later[half:]) / (len(later) - half)
    if after > before * (1 + GROWTH):
        tally.problem(f"memory grows from {before:.0f} to {after:.0f} MB")
    for name in ("open_files", "threads"):
        most, least = max(x[name] for x in later[half:]), max(x[name] for x in later[:half])
        if most > least + 5:
            tally.problem(f"{name} grow from {least} to {most}")
    if max(x["files"] for x in later) > max(x["files"] for x in samples[: len(samples) // 2]) + 20:
        tally.problem("the number of files grows")
    last = samples[-1]
    return {
        "epochs": last["epochs"],
        "rss_first_mb": round(before, 1),
        "rss_later_mb": round(after, 1),
        "rss_peak_mb": round(max(x["rss_mb"] for x in samples), 1),
        "open_files": max(x["open_files"] for x in later),
        "disk_mb": round(last["disk_mb"], 1),
        "files": last["files"],
    }


def plot(samples: list[dict[str, float]], path: Path) -> None:
    """Memory, open files and threads, disk, over time."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3), layout="constrained")
    minutes = [x["seconds"] / 60 for x in samples]
    shown = {
        "memory (RSS), MB": ["rss_mb"],
        "number": ["open_files", "threads", "files"],
        "disk, MB": ["disk_mb"],
    }
    for axis, (label, names) in zip(axes, shown.items(), strict=True):
        for name in names:
            axis.plot(minutes, [x[name] for x in samples], label=name.replace("_", " "))
        most = max(x[name] for name in names for x in samples)
        axis.set(xlabel="minutes", ylabel=label, ylim=(0, 1.3 * most))
        if len(names) > 1:
            axis.legend(frameon=False, loc="upper right", ncols=len(names), fontsize="small")
    figure.suptitle(f"{int(samples[-1]['epochs']):,} epochs of the debug preset")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> int:
    """Soak."""
    out = {"type": Path, "help": "folder for soak.png and soak.json"}
    args, tally = begin("soak", __doc__, out=out)
    with Folder() as folder:
        samples = soak(args.seconds, folder / "run", args.seed)
    figures = judge(tally, samples)
    tally.counts["samples"] = len(samples)
    if args.out is not None and samples:
        plot(samples, args.out / "soak.png")
        (args.out / "soak.json").write_text(json.dumps(samples))
    return tally.close(**figures)


if __name__ == "__main__":
    sys.exit(main())
