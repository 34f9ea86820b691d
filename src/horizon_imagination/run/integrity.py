"""What is wrong with the folder of a run: snapshots, metrics, replay, leftovers, disk."""

from collections.abc import Iterator
from typing import Any

from horizon_imagination.agent import Agent
from horizon_imagination.data import validate
from horizon_imagination.errors import UsageError
from horizon_imagination.files import is_temporary
from horizon_imagination.run.diagnosis import Finding
from horizon_imagination.run.folder import METRICS
from horizon_imagination.run.needs import folder_bytes, free_bytes
from horizon_imagination.run.read import Run, is_claimed
from horizon_imagination.schema import read_lines
from horizon_imagination.snapshots import BEST, CHECKPOINTS, read_score, read_state, snapshots
from horizon_imagination.wording import size

REPLAY = "replay"


def snapshot_findings(run: Run) -> Iterator[Finding]:
    """Snapshots that cannot be loaded, or none where there should be some."""
    kept, best = snapshots(run.folder), snapshots(run.folder, BEST)
    for folder in (*kept, *best):
        try:
            read_score(folder) if folder in best else read_state(folder)
            Agent.load(folder, "cpu")
        except UsageError as error:
            yield Finding(
                "damaged snapshot",
                str(error),
                "the disk or a copy has lost bits",
                f"restore it from a copy, or remove {folder} to go on from the one before",
            )
    if not kept and run.epochs >= run.config.training.snapshot_every:
        yield Finding(
            "no snapshot",
            f"{run.epochs} epochs are in the metrics and no snapshot is in {CHECKPOINTS}",
            "the snapshots were removed: the run begins anew when it goes on",
            "restore the folder from a copy",
        )


def metrics_findings(run: Run) -> Iterator[Finding]:
    """Lines that are missing, and values that were not finite."""
    missing = run.epochs - len(run.history)
    if missing:
        pairs = enumerate(entry["epoch"] for entry in run.history)
        first = next(number for number, epoch in pairs if epoch != number)
        yield Finding(
            "missing metrics",
            f"{missing} epochs have no line in {METRICS}, the first is epoch {first}",
            "lines were lost or are damaged; the weights are not concerned",
            "restore the file from a copy",
        )
    kept = snapshots(run.folder)
    try:
        done = read_state(kept[-1]).epoch if kept else 0
    except UsageError:
        done = 0  # told as a damaged snapshot
    if done > run.epochs:
        yield Finding(
            "missing metrics",
            f"the latest snapshot has {done} epochs, {METRICS} has {run.epochs}",
            "lines were lost; the weights are not concerned",
            "restore the file from a copy",
        )
    path = run.folder / METRICS
    lines = read_lines(path, dict[str, Any]) if path.is_file() else []
    odd = sorted({k for entry in lines for k, value in entry.items() if value is None})
    if odd:
        yield Finding(
            "values that are not finite",
            f"{', '.join(odd[:3])}{' and more' if len(odd) > 3 else ''} in {METRICS}",
            "a network or a measurement has diverged",
            "a smaller learning rate from the snapshot before",
        )
    for batch in sorted(run.folder.glob("not-finite-*.safetensors"))[:1]:
        yield Finding(
            "training diverged",
            f"{batch.name} holds the batch that gave a loss or gradient that is not finite",
            "a learning rate is too large, or precision too low",
            "--runtime.precision float32, or a smaller learning rate",
        )


def replay_findings(run: Run) -> Iterator[Finding]:
    """What `horizon data validate` says of the replay, and whether the snapshot fits it."""
    folder = run.folder / REPLAY
    if run.offline is not None:
        return
    if not folder.is_dir():
        if run.epochs:
            yield Finding(
                "no replay",
                f"{folder} is missing",
                "the run can be evaluated and not resumed",
                "restore it from a copy",
            )
        return
    problems = validate(folder)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        yield Finding(
            "damaged replay",
            f"{problems[0]}{more}",
            "the run would learn from wrong experience",
            f"horizon data validate {folder}; restore it from a copy",
        )


def leftover_findings(run: Run) -> Iterator[Finding]:
    """What killed processes left; a run that is being trained has such files for a moment."""
    if is_claimed(run.folder):
        return
    left = [path for path in run.folder.rglob("*") if is_temporary(path) or path.suffix == ".tmp"]
    if left:
        total = sum(folder_bytes(x) if x.is_dir() else x.stat().st_size for x in left)
        yield Finding(
            "leftovers",
            f"{len(left)} unfinished files or folders of killed processes, {size(total)}, such as "
            f"{left[0].relative_to(run.folder)}",
            "harmless",
            "remove them",
        )


def disk_findings(run: Run, needed: float) -> Iterator[Finding]:
    """Whether what the run will still write fits the disk; `needed` are bytes in all."""
    if run.finished or not needed:
        return
    left, free = needed - folder_bytes(run.folder), free_bytes(run.folder)
    if left > free:
        yield Finding(
            "too little disk",
            f"the run will write about {size(left)} more, {size(free)} are free",
            "it will end with a full disk; nothing that is written is lost then",
            "make room, or a smaller --training.keep-snapshots",
        )


def inspect(run: Run, needed: float = 0.0) -> list[Finding]:
    """Everything that is wrong with the folder of a run."""
    return [
        *snapshot_findings(run),
        *metrics_findings(run),
        *replay_findings(run),
        *leftover_findings(run),
        *disk_findings(run, needed),
    ]
