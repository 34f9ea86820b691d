"""Files that a killed program leaves whole: written under another name, then moved into place."""

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from horizon_imagination.errors import UsageError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; when the block ends, its content replaces `path` atomically.

    The content is on the disk before it gets its name, and the name is on the disk before this
    returns. An error in the block leaves `path` as it was and removes the temporary file. Its name
    is hidden, holds the process's number and keeps the suffix, by which some libraries choose a
    format. Missing folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    temporary.unlink(missing_ok=True)  # a link to another file would be written through
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def in_place(path: str, flags: int) -> int:
    """An opener for files that are written where they are: no link is followed, and a FIFO or a
    device is refused and not waited for."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", path)


def empty_place(folder: Path) -> None:
    """Remove a folder, or a link that stands in its place, so that it can be made anew."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def is_temporary(path: Path) -> bool:
    """Whether this is what a killed program left of a file that `replacing` was to write."""
    return path.name.startswith(".") and ".tmp" in path.suffixes


def sync(path: Path) -> None:
    """Return once the content of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def output_folder(path: Path, advice: str = "give a writable one with --out") -> Path:
    """Create the folder, or say in one line why nothing can be written there and what to do."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot write to the folder '{path}' ({reason}); {advice}") from error
    return path


def output_file(path: Path, flag: str) -> Path:
    """Create the folder of a file, or say in one line why the file cannot be written."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder; give a file with {flag}")
    output_folder(path.parent, f"give a writable one with {flag}")
    return path


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a binary file atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, content: Any) -> None:
    """Replace a JSON file atomically."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_jsonl(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Replace a file of one JSON object a line atomically."""
    write_text(path, "".join(json.dumps(dict(record)) + "\n" for record in records))


def append_jsonl(path: Path, record: Mapping[str, Any]) -> None:
    """Add one line to a file of JSON objects; half a line of a killed program is closed first.

    The line is on the disk when this returns: a loss of power takes no line of an epoch that a
    snapshot counts as done.
    """
    line, new = json.dumps(dict(record)) + "\n", not path.exists()
    with open(path, "ab+", opener=in_place) as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else "\n" + line
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
    if new:
        sync(path.parent)


def file_hash(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
