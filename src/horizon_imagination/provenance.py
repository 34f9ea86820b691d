"""Where a result comes from: version, commit, date and machine."""

import datetime
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from horizon_imagination.version import __version__


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
    """
    parts = [
        f"horizon_imagination {made['version']}" if made.get("version") else "",
        f"commit {made['commit'][:10]}" if made.get("commit") else "",
        made.get("date") or "",
        made.get("machine") or "",
    ]
    return ", ".join(part for part in parts if part)


@cache
def commit(folder: Path = Path(__file__).parent) -> str | None:
    """The commit of this source, or None where the source is no part of a git checkout."""
    # An environment inside somebody's checkout is not part of it.
    tracked = ["git", "-C", str(folder), "ls-files", "--error-unmatch", Path(__file__).name]
    head = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        subprocess.run(tracked, capture_output=True, check=True, timeout=10)
        said = subprocess.run(head, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()


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
