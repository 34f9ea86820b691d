"""What the device can do at best, measured: one large matrix product, one large copy."""

from dataclasses import dataclass
from functools import partial

import torch

from horizon_imagination.bench.clock import LAUNCHED, timed


@dataclass(frozen=True)
class Ceilings:
    """Peaks that a stage is held against."""

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
        """Time below which no implementation of so much work can come here."""
        return 1e3 * max(flops / self.flops, moved / self.bandwidth)


def measure_ceilings(device: torch.device, dtype: torch.dtype, repeats: int = 8) -> Ceilings:
    """Both of them, one after the other."""
    side, size = (8192, 2**30) if device.type == "cuda" else (1024, 2**26)
    return Ceilings(
        flops=product_speed(device, dtype, side, repeats),
        bandwidth=copy_speed(device, size, repeats),
        precision=str(dtype).removeprefix("torch."),
        matrix=side,
        copied=size,
    )


def product_speed(device: torch.device, dtype: torch.dtype, side: int, repeats: int) -> float:
    """FLOPs per second; of random numbers, since zeros draw less power and run faster."""
    rng = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(side, side, generator=rng, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    step = partial(torch.mm, a, b, out=out)
    return 2e3 * side**3 / timed(step, device, repeats=repeats, warm_up=LAUNCHED).ms


def copy_speed(device: torch.device, size: int, repeats: int) -> float:
    """Bytes per second, each counted as it is read and as it is written."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    step = partial(torch.empty_like(source).copy_, source)
    return 2e3 * size / timed(step, device, repeats=repeats, warm_up=LAUNCHED).ms
