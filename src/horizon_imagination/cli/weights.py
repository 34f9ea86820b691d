"""`horizon weights`: get and list the weights of pretrained networks."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from horizon_imagination.cli.parse import parse
from horizon_imagination.wording import size

OnBytes = Callable[[int, int | None], None]
"""Told how many bytes have arrived, and of how many where that is known."""


@dataclass(frozen=True)
class GetArguments:
    """Get the weights of a pretrained network, convert them and keep them in the cache."""

    name: tyro.conf.Positional[Literal["i3d", "vgg16", "vgg19"]]
    """i3d for the Fréchet video distance; vgg16 or vgg19 for the perceptual loss."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Take them from this file (the source archive, its member, or a converted file) instead of
    the package index that pip is set up with."""


@dataclass(frozen=True)
class ListArguments:
    """List the networks, their sources and whether they are in the cache."""


def get_main(argv: list[str]) -> int | None:
    """Run `horizon weights get`: install one network's weights and say where they are."""
    args = parse(GetArguments, argv, prog="horizon weights get")
    from horizon_imagination.pretrained import SOURCES, install

    with progress_display(args.name) as progress:
        place = install(args.name, args.from_, progress)
    print(f"{args.name}: {place} ({size(place.stat().st_size)})")
    print(f"licence: {SOURCES[args.name].licence}")


def list_main(argv: list[str]) -> int | None:
    """Run `horizon weights list`: one line per network."""
    parse(ListArguments, argv, prog="horizon weights list")
    from horizon_imagination.pretrained import (
        SOURCES,
        cache_folder,
        is_installed,
        weights_path,
    )

    print(f"cache: {cache_folder()}")
    for name, source in SOURCES.items():
        stored = size(weights_path(name).stat().st_size) if is_installed(name) else "-"
        origin = f"{source.package} {source.version}"
        print(f"{name:6} {stored:>7}  {source.network} (from {origin}; {source.licence})")


@contextmanager
def progress_display(name: str) -> Iterator[OnBytes]:
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
        yield lambda arrived, total: bar.update(task, completed=arrived, total=total)


def plain_lines(name: str, seconds: float = 3.0) -> OnBytes:
    """Report to stderr now and then, and when everything is there."""
    last = time.monotonic()

    def report(arrived: int, total: int | None) -> None:
        nonlocal last
        if arrived == total or time.monotonic() - last >= seconds:
            last = time.monotonic()
            whole = f" of {size(total)}" if total else ""
            print(f"{name}: {size(arrived)}{whole}", file=sys.stderr, flush=True)

    return report
