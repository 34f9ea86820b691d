"""`horizon weights get NAME [--from FILE]` and `horizon weights list`."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from horizon_imagination.cli.parse import parse
from horizon_imagination.errors import UsageError
from horizon_imagination.models.weights import (
    SOURCES,
    cache_folder,
    install,
    is_installed,
    weights_path,
)
from horizon_imagination.models.weights.cache import Progress


@dataclass(frozen=True)
class GetArgs:
    """Get the weights of a pretrained network, convert them and keep them in the cache."""

    name: tyro.conf.Positional[Literal["i3d", "vgg16", "vgg19"]]
    """i3d for the Fréchet video distance; vgg16 or vgg19 for the perceptual loss."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Take them from this file (the source archive, its member, or a converted file) instead of
    the package index that pip is set up with."""


@dataclass(frozen=True)
class ListArgs:
    """List the networks, their sources and whether they are in the cache."""


def main(argv: list[str]) -> int | None:
    """Dispatch on the first word."""
    match argv:
        case ["get", *rest]:
            get(parse(GetArgs, rest, prog="horizon weights get"))
        case ["list", *rest]:
            parse(ListArgs, rest, prog="horizon weights list")
            show()
        case ["-h" | "--help"]:
            print(__doc__)
        case _:
            asked = f"{argv[0]!r} is no action of 'horizon weights'" if argv else "say what to do"
            raise UsageError(f"{asked}: use 'get NAME' or 'list'; see 'horizon weights --help'")
    return None


def get(args: GetArgs) -> None:
    """Install one network's weights and say where they are."""
    with progress_display(args.name) as progress:
        place = install(args.name, args.from_, progress)
    print(f"{args.name}: {place} ({place.stat().st_size / 1e6:.0f} MB)")
    print(f"licence: {SOURCES[args.name].licence}")


def show() -> None:
    """One line per network."""
    print(f"cache: {cache_folder()}")
    for name, source in SOURCES.items():
        size = f"{weights_path(name).stat().st_size / 1e6:.0f} MB" if is_installed(name) else "-"
        origin = f"{source.package} {source.version}"
        print(f"{name:6} {size:>6}  {source.network} (from {origin}; {source.licence})")


@contextmanager
def progress_display(name: str) -> Iterator[Progress]:
    """A bar on a terminal, a line every few seconds elsewhere."""
    if not sys.stderr.isatty():
        yield plain_lines(name)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)
        yield lambda arrived, size: bar.update(task, completed=arrived, total=size)


def plain_lines(name: str, seconds: float = 3.0) -> Progress:
    """Report to stderr now and then, and when everything is there."""
    last = time.monotonic()

    def report(arrived: int, size: int | None) -> None:
        nonlocal last
        if arrived == size or time.monotonic() - last >= seconds:
            last = time.monotonic()
            total = f" of {size / 1e6:.0f}" if size else ""
            print(f"{name}: {arrived / 1e6:.0f}{total} MB", file=sys.stderr, flush=True)

    return report
