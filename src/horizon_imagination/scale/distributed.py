"""One run on several devices: processes that learn together, one of which collects and writes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from horizon_imagination.config import Config
from horizon_imagination.device import resolve_device
from horizon_imagination.errors import UsageError
from horizon_imagination.learn.guard import NotFiniteError
from horizon_imagination.learn.ranks import Ranks, current_ranks
from horizon_imagination.run.callbacks import Callback
from horizon_imagination.run.signals import (
    LAUNCHED,
    RESUME,
    Paused,
    StopRequest,
    heeding,
    preempt_signal,
)
from horizon_imagination.run.start import Request, complete, make_trainer, train

PATIENCE = timedelta(days=1)
"""Others wait while the first rank collects and evaluates, which may take long."""
GRACE = 30.0
"""Seconds a process has to end by itself."""


def is_rank() -> bool:
    """Whether this process was started as one of several (by `launch` or by torchrun)."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def check_ranks(config: Config, count: int) -> None:
    """Refuse what cannot be divided among so many processes."""
    for name in ("tokenizer", "world_model", "controller"):
        learner = getattr(config, name).learner
        rows = learner.batch_size // learner.micro_batches
        if rows < count:
            raise UsageError(
                f"{count} processes cannot share a batch of {rows}: {name}.learner has batch_size "
                f"{learner.batch_size} and micro_batches {learner.micro_batches}; use fewer"
            )


def check_gpus(count: int) -> None:
    """Refuse more GPUs than there are."""
    found = torch.cuda.device_count()
    if count > found:
        raise UsageError(
            f"--gpus {count}: there {'is' if found == 1 else 'are'} {found or 'no'} "
            f"GPU{'' if found == 1 else 's'} here; ask for what there is, or leave --gpus out"
        )


def launch(argv: list[str], count: int, preempt: signal.Signals | None = None) -> int:
    """Run `horizon train` with these arguments in `count` processes; the exit status.

    A signal that asks to stop is passed on to the first rank, which tells the others.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "horizon_imagination", "train", *argv]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    place[LAUNCHED] = "1"
    ranks: list[subprocess.Popen] = []
    with heeding(preempt) as stop:
        try:
            for rank in range(count):
                mine = os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                # Sessions of their own: Ctrl-C reaches this process alone.
                ranks.append(subprocess.Popen(command, env=mine, start_new_session=True))
            return _watch(ranks, stop)
        finally:
            _end(ranks, 0.0)


def run_rank(request: Request, callbacks: Sequence[Callback] = ()) -> int:
    """This rank's part of training; the first one has the callbacks. The exit status."""
    if request.dry_run and int(os.environ["RANK"]):
        return 0
    with joined(request.config) as ranks:
        try:
            return train(request, callbacks) if ranks.first else _follow(request)
        except RuntimeError as error:
            if not isinstance(error, dist.DistError) and "onnection" not in str(error):
                raise
            print(f"horizon: rank {ranks.rank} has lost the others", file=sys.stderr)
            return 1


@contextmanager
def joined(config: Config) -> Iterator[Ranks]:
    """Meet the other ranks; on leaving, part from them."""
    device = resolve_device(config.runtime.device)
    if device.index is not None:
        raise UsageError(f"runtime.device {device} is one device; several processes need cuda")
    check_ranks(config, int(os.environ["WORLD_SIZE"]))
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=PATIENCE)
    try:
        yield current_ranks()
    finally:
        dist.destroy_process_group()


def _follow(request: Request) -> int:
    """Learn with the first rank, which reports for all."""
    config, launch = complete(request)
    with (
        heeding(preempt_signal(config.runtime.preempt_signal), patient=True) as stop,
        closing(make_trainer(request, config, launch, Callback(), stop)) as trainer,
    ):
        try:
            trainer.resume()
            trainer.run()
            return 0
        except Paused:
            return RESUME
        except KeyboardInterrupt:
            return 130
        except NotFiniteError:
            return 1


def _watch(ranks: list[subprocess.Popen], stop: StopRequest) -> int:
    """Wait for all; if one fails, or the first ends, the others have a while to notice."""
    while True:
        if stop and not stop.stopped.is_set():
            stop.stopped.set()  # the first rank has a clock of its own
            ranks[0].send_signal(signal.SIGTERM)
        codes = [rank.poll() for rank in ranks]
        failed = any(code and code != RESUME for code in codes)
        if failed or codes[0] is not None:
            _end(ranks, GRACE / 3 if failed else GRACE)
            return _status([rank.returncode for rank in ranks], failed, stop)
        time.sleep(0.1)


def _status(codes: list[int], failed: bool, stop: StopRequest) -> int:
    """The exit status of all, from those of the ranks: what the first one says, if it can."""
    if stop and codes[0] == -signal.SIGTERM:
        return RESUME  # it was asked before it had begun
    if codes[0] > 0:
        return codes[0]
    return int(failed or any(code > 0 for code in codes))


def _end(ranks: list[subprocess.Popen], grace: float) -> None:
    """Wait a while, then end what is left."""
    until = time.monotonic() + grace
    while time.monotonic() < until and any(rank.poll() is None for rank in ranks):
        time.sleep(0.05)
    left = [rank for rank in ranks if rank.poll() is None]
    for rank in left:
        rank.kill()
    for rank in left:
        rank.wait()
