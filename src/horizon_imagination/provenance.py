"""Where a result comes from: version, commit, date and machine."""

import datetime
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from horizon_imagination.version import __version__

DIRTY = "-dirty"
"""Behind a commit whose source was changed since."""


def provenance(device: str = "cpu") -> dict[str, str | None]:
    """Version, commit, date and machine of a result that is made now, on this device."""
    return {
        "version": __version__,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
        "machine": machine(device),
    }


def told(made: dict[str, Any]) -> str:
    """Provenance as one line; what is not known is left out.

    >>> told({"version": "1.0", "commit": "0123456789abcdef", "date": "2026-01-31"})
    'horizon_imagination 1.0, commit 0123456789, 2026-01-31'
    >>> told({"commit": "0123456789abcdef-dirty"})
    'commit 0123456789 with changes'
    """
    parts = [
        f"horizon_imagination {made['version']}" if made.get("version") else "",
        _short(made["commit"]) if made.get("commit") else "",
        made.get("date") or "",
        made.get("machine") or "",
    ]
    return ", ".join(part for part in parts if part)


def _short(commit: str) -> str:
    """A commit for people."""
    return f"commit {commit[:10]}" + (" with changes" if commit.endswith(DIRTY) else "")


@cache
def commit(folder: Path = Path(__file__).parent) -> str | None:
    """The commit of this source, or None where the source is no part of a git checkout.

    It ends in `-dirty` where the source has changes that are not committed.
    """
    # An environment inside somebody's checkout is not part of it.
    tracked = ["git", "-C", str(folder), "ls-files", "--error-unmatch", Path(__file__).name]
    head = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    changes = ["git", "-C", str(folder), "status", "--porcelain", "--", "."]
    try:
        _, said, changed = (
            subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout
            for words in (tracked, head, changes)
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return said.strip() + (DIRTY if changed.strip() else "")


@cache
def machine(device: str = "cpu") -> str:
    """The name of the GPU, or of the processor."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor() or platform.machine()
