"""Source archives on a package index: found, streamed, hashed, and opened only once verified.

No installer is involved: installing a source distribution would run its `setup.py`. No index is
named here either: pip's settings say which one to ask, and without any, the index library's own
default is used.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from horizon_imagination.errors import UsageError

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have arrived and, where known, the bytes expected."""

MAX_ARCHIVE_BYTES = 256 * 2**20
MAX_MEMBER_BYTES = 128 * 2**20
CHUNK = 2**18


def index_settings() -> dict[str, str]:
    """pip's settings (`index-url`, `extra-index-url`, `cert`), the environment's first."""
    settings = {}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True
    )
    for line in listed.stdout.splitlines():
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = value.strip().strip("'\"")
    for key in ("index-url", "extra-index-url", "cert"):
        if value := os.environ.get(f"PIP_{key.upper().replace('-', '_')}"):
            settings[key] = value
    return settings


def without_secrets(url: str) -> str:
    """The address of an index without user name and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def download(
    package: str, version: str, sha256: str, target: Path, progress: Progress | None = None
) -> None:
    """Stream one source archive into `target`, from the first index that has the right bytes."""
    import requests

    settings, failures = index_settings(), []
    indexes = [settings.get("index-url"), *settings.get("extra-index-url", "").split()]
    with requests.Session() as session:
        session.verify = settings.get("cert") or True
        for index in indexes:
            label = without_secrets(index) if index else "the default index"
            try:
                with open_archive(session, index, package, version, sha256) as (content, size):
                    receive(content, size, sha256, target, progress)
                return
            except (requests.RequestException, OSError, LookupError, UsageError) as error:
                reason = type(error).__name__ if index and "@" in index else error
                failures.append(f"{label}: {reason}")
    raise UsageError(
        f"could not get {package} {version} ({'; '.join(failures)}): check pip's index-url, or "
        "bring the archive over and give it with --from"
    )


class open_archive:  # noqa: N801  # reads as a function in a with statement
    """The bytes of the archive with the given hash, in chunks, and their number if known."""

    def __init__(
        self, session: object, index: str | None, package: str, version: str, sha256: str
    ) -> None:
        self.session, self.index = session, index
        self.package, self.version, self.sha256 = package, version, sha256

