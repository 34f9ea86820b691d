"""Timing: warm-up, medians, the device drained around each repeat, memory at its peak."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import torch

from horizon_imagination.learn.graph import WARM_UP, StepGraph

CAPTURED, LAUNCHED = WARM_UP + 2, 2
"""Calls before the first that counts: with a graph to capture, and without."""
IN_A_ROW = 8
"""Captured steps of a learner that are timed together: in a run the host prepares the next batch
while the device is busy with the last."""
LEAST = 3
"""Repeats, however long they take."""
GIB = 2**30


class Timing(NamedTuple):
    """Milliseconds of a repeated call."""

    ms: float
    """The median."""
    least_ms: float
    repeats: int


def drain(device: torch.device) -> None:
    """Wait until the device has nothing left to do."""
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
    """Repeat, at least three times and then until `seconds` are over.

    A repeat is one call, or the mean of several `in_a_row` with nothing drained between them.
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


def captured(
    compute: Callable[[Any], Any], generators: Sequence[torch.Generator]
) -> Callable[[Any], Any]:
    """The function as a CUDA graph.

    One real call comes before capture instead of several: nothing here has an optimiser whose
    state must be built, and on the host such a call takes ten times as long as its replay.
    """
    idle = WARM_UP - 1

    def patient(batch: Any) -> Any:
        nonlocal idle
        if idle:
            idle -= 1
            return None
        return compute(batch)

    return StepGraph(patient, generators)


class Memory:
    """Memory of a CUDA device since this was made; nothing elsewhere."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.before = device, 0
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device)

    def figures(self) -> dict[str, float]:
        """Peak, what was there before, and what the allocator holds, in GiB."""
        if self.device.type != "cuda":
            return {}
        return {
            "peak_gib": round(torch.cuda.max_memory_allocated(self.device) / GIB, 3),
            "resident_gib": round(self.before / GIB, 3),
            "reserved_gib": round(torch.cuda.max_memory_reserved(self.device) / GIB, 3),
        }
