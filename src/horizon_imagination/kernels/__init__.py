"""GPU kernels in Triton; each computes the same function as plain torch code in `models`.

Modules here import Triton and are imported only where `usable` says so; `fuse` switches the
networks over. Without a CUDA device or Triton everything runs as plain torch.
"""

import importlib.util
import warnings
from functools import lru_cache

import torch
from torch import nn


def usable(device: torch.device) -> bool:
    """Whether the kernels can run on a device."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def wanted(setting: str, device: torch.device) -> bool:
    """Whether to use the kernels: `auto` where they can run, `on` with a warning where not."""
    if setting == "off":
        return False
    if usable(device):
        return True
    if setting == "on":
        _warn(device.type)
    return False


@lru_cache(maxsize=1)
def _warn(kind: str) -> None:
    missing = "CUDA device" if kind != "cuda" else "Triton"
    warnings.warn(
        f"runtime.fused on: no {missing} here; the plain path runs instead, with the same numbers",
        stacklevel=3,
    )


def fuse(network: nn.Module) -> nn.Module:
    """Let every part of a network that has a kernel use it."""
    for module in network.modules():
        if hasattr(module, "fused"):
            module.fused = True  # type: ignore[assignment]
    return network
