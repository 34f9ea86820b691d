"""Where networks run, and in which precision."""

from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Shaped
from torch import Tensor

from horizon_imagination.config import RuntimeConfig
from horizon_imagination.errors import UsageError


def resolve_device(name: str) -> torch.device:
    """The device a config asks for; `auto` takes the best there is."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(
            f"runtime.device '{name}' is not a device; expected auto, cuda, cuda:N, mps or cpu"
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("runtime.device cuda: no CUDA device here; use --runtime.device cpu")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError("runtime.device mps: no Metal device here; use --runtime.device cpu")
    return device


def uses_bfloat16(config: RuntimeConfig, device: torch.device) -> bool:
    """Whether networks compute in bfloat16."""
    return config.precision == "bfloat16" or (config.precision == "auto" and device.type == "cuda")


def autocast(config: RuntimeConfig, device: torch.device) -> AbstractContextManager:
    """The one precision context of learners, imagination and acting."""
    if uses_bfloat16(config, device):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def to_device(tensor: Shaped[Tensor, "..."], device: torch.device) -> Shaped[Tensor, "..."]:
    """A copy on the device; on CUDA the host does not wait for what the device is doing."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
