"""Reading of safetensors files: what cannot be read or used is one line."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from horizon_imagination.errors import UsageError
from horizon_imagination.schema import check_regular


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, mapped into memory; sizes that it only claims are refused."""
    try:
        check_regular(path)
        return load_file(path)
    except UsageError:
        raise
    except (OSError, ValueError, SafetensorError, RuntimeError, MemoryError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def check_finite(tensors: Mapping[str, Tensor], where: Path) -> None:
    """Refuse weights with which every result would be wrong, silently."""
    for name, value in tensors.items():
        if not value.is_floating_point():
            continue
        known = value.float() if value.itemsize == 1 else value  # torch cannot judge 8 bits
        if not known.isfinite().all():
            raise UsageError(
                f"{where} has values that are not finite, in {name}; restore it from a copy, or "
                "name another snapshot"
            )
