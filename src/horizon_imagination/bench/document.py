"""What was measured, as one JSON document that grows row by row: a kill loses nothing."""

import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from horizon_imagination.bench.ceilings import Ceilings
from horizon_imagination.errors import UsageError
from horizon_imagination.run.display import clock
from horizon_imagination.studies.results import provenance, write_text

FILE = "bench.json"
Document = dict[str, Any]
"""Of JSON values: about the machine, `ceilings`, `rows`, `growth`, `failed`."""


def about(device: torch.device, commit: str | None = None) -> Document:
    """The machine, the versions and the date."""
    made_with: dict[str, str | None] = dict(provenance())
    if commit:
        made_with["commit"] = commit
    return {
        "bench": "horizon",
        "machine": machine(device),
        "device": device.type,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "system": platform.platform(),
        **made_with,
        "date": datetime.date.today().isoformat(),
    }


def machine(device: torch.device) -> str:
    """The name of the GPU, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor() or platform.machine()


class Recorder:
    """Runs measurements one by one; says, keeps and writes each result at once."""

    def __init__(self, folder: Path, document: Document) -> None:
        self.folder, self.document = folder, document
        for name in ("rows", "failed"):
            document.setdefault(name, [])
        self.write()
        self._expected, self._done, self._begin = 0.0, 0.0, time.monotonic()

    def expect(self, weights: float) -> None:
        """Announce work, in any unit, so that the time left can be told."""
        self._expected += weights

    @property
    def ceilings(self) -> Ceilings:
        """The measured peaks."""
        return Ceilings(**self.document["ceilings"])

    def attempt(
        self, about: Document, measure: Callable[[], Document], place: list, weight: float = 0.0
    ) -> Document | None:
        """Add a row to a list of the document, or note why it could not be measured."""
        row = None
        try:
            row = about | measure()
            place.append(row)
            print(_line(row), flush=True)
        except RuntimeError as error:
            # Such as a card that is too small: the other rows are still worth having.
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            self.document["failed"].append(about | {"error": reason})
            print(f"{_name(about)}: failed: {reason}", flush=True)
        self._done += weight
        self._tell()
        self.write()
        return row

    def write(self) -> None:
        """Replace the file by what is known now."""
        write_text(self.folder / FILE, json.dumps(self.document, indent=1) + "\n")

    def _tell(self) -> None:
        if self._done <= 0 or self._expected <= self._done:
            return
        spent = time.monotonic() - self._begin
        left = spent * (self._expected - self._done) / self._done
        print(f"  {clock(spent)} gone, about {clock(left)} left", file=sys.stderr, flush=True)


def read(folder: Path) -> Document:
    """A document that was written earlier."""
    path = folder / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        known = document["bench"] == "horizon" and isinstance(document["rows"], list)
    except OSError as error:
        raise UsageError(
            f"cannot read {path} ({error.strerror}); --redraw expects a folder of horizon bench"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged: measure again with horizon bench") from error
    if not known:
        raise UsageError(f"{path} is not a document of horizon bench; name another folder")
    return document


def append(path: Path, document: Document) -> None:
    """Add the document as a line; the file is the old or the new one, never half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if before and not before.endswith("\n"):
            before += "\n"
        write_text(path, before + json.dumps(document) + "\n")
    except OSError as error:
        raise UsageError(
            f"cannot write {path} ({error.strerror}); name another file with --append"
        ) from error


def _name(row: Document) -> str:
    parts = [row.get("mode", ""), row["stage"].replace("_", " ")]
    if row.get("budget") is not None:
        parts.append(f"({row['decay_horizon']:g}, {row['budget']})")
    if row["stage"] == "growth":
        parts.append(f"horizon {row['horizon']}, batch {row['batch']}")
    return " ".join(part for part in parts if part)


def _line(row: Document) -> str:
    text = f"{_name(row):<52} {row['ms']:>10.2f} ms"
    if row.get("repeats"):
        text += f"  least {row['least_ms']:.2f} of {row['repeats']}"
    if "alone_ms" in row:
        text += f", alone {row['alone_ms']:.2f}"
    if "peak_gib" in row:
        text += f", peak {row['peak_gib']:.2f} GiB"
    return text
