"""Random streams: one generator per purpose, all derived from the seed of the run."""

import hashlib

import torch
from torch import Tensor

PURPOSES = ("replay", "tokenizer", "world_model", "imagination", "collect", "examine", "replayed")
ON_CPU = ("replay", "examine", "replayed")


class Streams:
    """Generators by purpose; drawing from one never moves another.

    `replay`, `examine` and `replayed` draw on the CPU, where the data are; the others on the device
    of the networks.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self._generators = {
            name: torch.Generator("cpu" if name in ON_CPU else device).manual_seed(
                derive_seed(seed, name)
            )
            for name in PURPOSES
        }

    def __getitem__(self, purpose: str) -> torch.Generator:
        return self._generators[purpose]

    def state(self) -> dict[str, Tensor]:
        """The position of every stream."""
        return {name: generator.get_state() for name, generator in self._generators.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a saved position; streams that were not there when it was saved begin anew."""
        for name, generator in self._generators.items():
            if name in state:
                generator.set_state(state[name])


def derive_seed(seed: int, purpose: str) -> int:
    """A seed for a purpose, as different from the others as a hash can make it."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:7], "big")
