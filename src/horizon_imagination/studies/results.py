"""Where the results of a study go: a folder, written whole or not at all."""

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horizon_imagination.errors import UsageError
from horizon_imagination.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
"""Colours that stay apart for colour-blind readers."""


def output_folder(path: Path) -> Path:
    """Create the folder, or say in one line why nothing can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"cannot write to the folder '{path}' ({reason}); give a writable one with --out"
        ) from error
    return path


def write_text(path: Path, text: str) -> None:
    """Replace the file by one with this text, at once."""
    draft = path.with_name(path.name + ".tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def write_jsonl(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """One JSON object per line."""
    write_text(path, "".join(json.dumps(record) + "\n" for record in records))


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure in the format its name ends with, without dates that change at every run."""
    kind = path.suffix[1:]
    draft = path.with_name(f".{path.stem}.tmp{path.suffix}")
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    figure.savefig(draft, format=kind, dpi=130, metadata=metadata)
    os.replace(draft, path)


def provenance() -> dict[str, str | None]:
    """Version and, where this is a git checkout, the commit a result was made with."""
    here = Path(__file__).parent
    try:
        git = ["git", "-C", str(here), "rev-parse", "HEAD"]
        said = subprocess.run(git, capture_output=True, text=True, check=True, timeout=10)
        commit = said.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        commit = None
    return {"version": __version__, "commit": commit}
