"""CUDA graphs to time, peak memory, and the measured peaks of a device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from horizon_imagination.engine.graph import WARM_UP, StepGraph
from horizon_imagination.timing import LAUNCHED, product_speed, timed

IN_A_ROW = 8
"""Captured steps of a learner that are timed together: in a run the host prepares the next batch
while the device is busy with the last."""
GIB = 2**30


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
    """Memory of a CUDA device from here on; empty on other devices."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.before = device, 0
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device)

    def figures(self) -> dict[str, float]:
        """Peak, memory in use before, and memory reserved by the allocator, in GiB."""
        if self.device.type != "cuda":
            return {}
        return {
            "peak_gib": round(torch.cuda.max_memory_allocated(self.device) / GIB, 3),
            "resident_gib": round(self.before / GIB, 3),
            "reserved_gib": round(torch.cuda.max_memory_reserved(self.device) / GIB, 3),
        }


@dataclass(frozen=True)
class Ceilings:
    """Measured peaks of a device."""

    flops: float
    """Per second, of a product of square matrices of random numbers."""
    bandwidth: float
    """Bytes read and written per second by a copy."""
    precision: str
    matrix: int
    """Side of the matrices."""
    copied: int
    """Bytes of the copy."""

    def least_ms(self, flops: float, moved: float) -> float:
        """Lower bound on the time of this work on this device."""
        return 1e3 * max(flops / self.flops, moved / self.bandwidth)


def measure_ceilings(device: torch.device, dtype: torch.dtype, repeats: int = 8) -> Ceilings:
    """Measure both peaks."""
    side, size = (8192, 2**30) if device.type == "cuda" else (1024, 2**26)
    return Ceilings(
        flops=product_speed(device, dtype, side, repeats),
        bandwidth=copy_speed(device, size, repeats),
        precision=str(dtype).removeprefix("torch."),
        matrix=side,
        copied=size,
    )


def copy_speed(device: torch.device, size: int, repeats: int) -> float:
    """Bytes per second; a copied byte counts twice, as read and as written."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    step = partial(torch.empty_like(source).copy_, source)
    return 2e3 * size / timed(step, device, repeats=repeats, warm_up=LAUNCHED).ms
