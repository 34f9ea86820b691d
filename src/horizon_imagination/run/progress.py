"""A bar for what takes a while; without a terminal, a line every few seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counted(what: str, total: int, seconds: float = 5.0) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of things done since the last call."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda count: bar.update(task, advance=count)
        return
    done, last = 0, time.monotonic()

    def report(count: int) -> None:
        nonlocal done, last
        done += count
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            print(f"{done}/{total} {what}", file=sys.stderr, flush=True)

    yield report
