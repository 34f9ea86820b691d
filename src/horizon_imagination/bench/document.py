"""The results as one JSON document, written after every row, so that a kill loses nothing."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from horizon_imagination.bench.clock import Ceilings
from horizon_imagination.errors import UsageError
from horizon_imagination.files import write_text
from horizon_imagination.provenance import provenance
from horizon_imagination.schema import checked, read_json
from horizon_imagination.wording import clock, time_left

FILE = "bench.json"
Document = dict[str, Any]
"""JSON values: about the machine, `ceilings`, `rows`, `growth`, `failed`."""


def about(device: torch.device, commit: str | None = None) -> Document:
    """The machine, the versions and the date."""
    made_with = provenance(str(device))
    if commit:
        made_with["commit"] = commit
    return {
        "bench": "horizon",
        "device": device.type,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "system": platform.platform(),
        **made_with,
    }


class DocumentWriter:
    """Runs measurements one by one; prints and writes each result before the next."""

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
        left = time_left(spent, self._done, self._expected)
        print(f"  {clock(spent)} gone, about {clock(left)} left", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class _Schema:
    """What every document has; the sheets say what else they miss."""

    bench: Literal["horizon"]
    rows: tuple[dict, ...]


def read(folder: Path) -> Document:
    """A document that was written earlier."""
    path = folder / FILE
    try:
        document = read_json(path, dict)
        checked(document, _Schema, f"{path}: ", extra=True)
    except UsageError as error:
        raise UsageError(f"{error}; --redraw expects a folder of horizon bench") from error
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
