"""Source archives on disk: hashed, and one member read in memory once the hash is right."""

import hashlib
import tarfile
from pathlib import Path

from horizon_imagination.errors import UsageError

MAX_ARCHIVE_BYTES = 256 * 2**20
MAX_MEMBER_BYTES = 128 * 2**20


def file_sha256(path: Path) -> str:
    """The hash of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_member(archive: Path, member: str) -> bytes:
    """One file out of a verified archive, in memory; nothing is unpacked onto the disk."""
    try:
        with tarfile.open(archive, mode="r|gz") as tar:
            for entry in tar:
                if entry.isfile() and entry.name.partition("/")[2] == member:
                    content = tar.extractfile(entry) if entry.size <= MAX_MEMBER_BYTES else None
                    if content is None:
                        raise UsageError(f"{member} claims {entry.size:,} bytes: refused")
                    return content.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UsageError(f"{archive.name} is no sound .tar.gz ({error}): get it again") from error
    raise UsageError(f"{archive.name} has no member {member}: give the right archive")
