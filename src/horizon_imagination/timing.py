"""Timing of calls, and the number of CPU threads that a short trial finds fastest."""

import math
import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import torch

from horizon_imagination.engine.graph import WARM_UP

CAPTURED, LAUNCHED = WARM_UP + 2, 2
"""Calls before the first timed one: where a CUDA graph is captured, and elsewhere."""
LEAST = 3
"""Least number of repeats, however long they take."""
ROUNDS, ROUND_SECONDS, TRIAL_SECONDS = 5, 0.03, 0.5
"""A trial of threads: rounds, seconds of a round for each number of threads, and seconds after
which no round begins but the second."""
CALL_SECONDS = 0.5
"""Seconds after which a call is not repeated."""
BUSY = 0.8
"""Share of the wall time that a computing thread has on a quiet CPU, at least."""
HOPELESS = 2.0
"""A number of threads that is this many times slower than the best is not tried again."""
WORTH = 1.05
"""More threads are chosen only if fewer are this many times slower."""


class Timing(NamedTuple):
    """Milliseconds of a repeated call."""

    ms: float
    """The median."""
    least_ms: float
    repeats: int


class Seconds(NamedTuple):
    """One call: wall time, and CPU time of the calling thread."""

    wall: float
    cpu: float

    @property
    def busy(self) -> bool:
        """Whether other programs kept the thread waiting: one that computes never waits."""
        return self.cpu < BUSY * self.wall


def drain(device: torch.device) -> None:
    """Wait until the device is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def timed(
    step: Callable[[], object],
    device: torch.device,
    *,
    repeats: int,
    warm_up: int,
    seconds: float = 2.0,
    in_a_row: int = 1,
) -> Timing:
    """Median over `repeats`, cut off after `seconds` but not before the third repeat.

    A repeat is one call, or the mean of several `in_a_row`; the device is idle before and after.
    """
    for _ in range(warm_up):
        step()
    times: list[float] = []
    while len(times) < repeats and (len(times) < LEAST or sum(times) < 1e3 * seconds):
        drain(device)
        begin = time.perf_counter()
        for _ in range(in_a_row):
            step()
        drain(device)
        times.append(1e3 * (time.perf_counter() - begin) / in_a_row)
    return Timing(median(times), min(times), len(times))


def call_seconds(step: Callable[[], object], device: torch.device, *, warm_up: int) -> Seconds:
    """Median wall time and least CPU time of three calls, or of fewer if they are slow."""
    for _ in range(warm_up):
        step()
    found: list[Seconds] = []
    while not found or (len(found) < LEAST and sum(x.wall for x in found) < CALL_SECONDS):
        drain(device)
        wall, cpu = time.perf_counter(), time.thread_time()
        step()
        drain(device)
        found.append(Seconds(time.perf_counter() - wall, time.thread_time() - cpu))
    return Seconds(median(x.wall for x in found), min(x.cpu for x in found))


def product_speed(device: torch.device, dtype: torch.dtype, side: int, repeats: int) -> float:
    """FLOPs per second of a product of square matrices.

    The numbers are random, because zeros draw less power and run faster.
    """
    step = product(device, dtype, side)
    return 2e3 * side**3 / timed(step, device, repeats=repeats, warm_up=LAUNCHED).ms


def product(device: torch.device, dtype: torch.dtype, side: int) -> Callable[[], object]:
    """A call that multiplies two square matrices of random numbers."""
    rng = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(side, side, generator=rng, device=device).to(dtype) for _ in range(2))
    return partial(torch.mm, a, b, out=torch.empty_like(a))


def cores() -> int:
    """CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def most_threads() -> int:
    """As many threads as torch would take, but no more than there are cores."""
    return min(torch.get_num_threads(), cores())


class ThreadTrial(NamedTuple):
    """The number of threads that was fastest, and the seconds of a step by number of threads."""

    threads: int
    seconds: dict[int, float]


def choose_threads(
    step: Callable[[], object], most: int, clock: Callable[[], float] = time.perf_counter
) -> ThreadTrial:
    """Time a step with 1, 2, 4, … up to `most` threads, in turn, and take the fastest.

    Where other programs use the cores, several threads wait for each other at every operation,
    and one alone is faster. Fewer threads are taken where more gain less than 5 %.
    """
    if most == 1:
        return ThreadTrial(1, {})
    times: dict[int, list[float]] = {count: [] for count in _candidates(most)}
    before = torch.get_num_threads()
    step()
    begin = clock()
    try:
        for number in range(ROUNDS):
            if number >= 2 and clock() - begin > TRIAL_SECONDS:
                break
            best = min(map(median, filter(None, times.values())), default=math.inf)
            for count, found in times.items():
                if not found or median(found) < HOPELESS * best:
                    torch.set_num_threads(count)
                    found.append(_round(step, clock))
    finally:
        torch.set_num_threads(before)
    seconds = {count: median(found) for count, found in times.items()}
    best = min(seconds.values())
    return ThreadTrial(min(n for n, spent in seconds.items() if spent <= WORTH * best), seconds)


def _round(step: Callable[[], object], clock: Callable[[], float]) -> float:
    """Mean seconds of the steps that fit into a round; at least one."""
    begin, calls = clock(), 0
    while calls == 0 or clock() - begin < ROUND_SECONDS:
        step()
        calls += 1
    return (clock() - begin) / calls


def _candidates(most: int) -> list[int]:
    """
    >>> _candidates(1), _candidates(2), _candidates(6)
    ([1], [1, 2], [1, 2, 4, 6])
    """
    return sorted({*(2**i for i in range(most.bit_length()) if 2**i <= most), most})
