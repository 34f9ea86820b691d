"""Stop at the first loss or gradient that is no number, with the batch that caused it.

On a GPU every look at a value waits for the device, so flags are gathered there and read now and
then; the batches since the last look are kept until it.
"""

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from horizon_imagination.errors import Failure


class NotFiniteError(Failure):
    """A loss, gradient or weight was infinite or not a number; the message says where."""


class Guard:
    """Watches losses and gradients; raises `NotFiniteError` and saves the batch."""

    def __init__(self, folder: Path, every: int, *, writes: bool = True) -> None:
        """`writes` is False where another rank saves the same batch."""
        self.folder, self.every, self.writes = folder, every, writes
        self._watched: list[tuple[str, int, str, Tensor]] = []
        self._batches: dict[tuple[str, int], list[Any]] = {}
        self._checks = 0

    def another(self) -> "Guard":
        """One like it that is checked on its own, for a learner on a stream of its own."""
        return Guard(self.folder, self.every, writes=self.writes)

    def watch(self, learner: str, step: int, loss: Tensor, batch: Any) -> None:
        """Remember a loss and the batch, or the piece of one, that it came from."""
        self._watched.append((learner, step, "loss", loss.detach().isfinite()))
        self._batches.setdefault((learner, step), []).append(batch)

    def watch_gradient(self, learner: str, step: int, module: str, norm: Tensor) -> None:
        """Remember the norm of a module's gradient."""
        what = f"gradient of the {module.replace('_', ' ')}"
        self._watched.append((learner, step, what, norm.detach().isfinite()))

    def check(self, *, now: bool = False) -> None:
        """Check what was watched, every few steps or immediately."""
        self._checks += 1
        if not self._watched or (self._checks % self.every and not now):
            return
        finite = torch.stack([flag for *_, flag in self._watched]).tolist()
        for (learner, step, what, _), good in zip(self._watched, finite, strict=True):
            if not good:
                path = self._save(learner, step)
                raise NotFiniteError(
                    f"{learner}, step {step}: the {what} is not finite; "
                    f"the batch is in {path}, the last snapshot is untouched"
                )
        self._watched.clear()
        self._batches.clear()

    def _save(self, learner: str, step: int) -> Path:
        path = self.folder / f"not-finite-{learner}-{step}.safetensors"
        if not self.writes:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        pieces = self._batches[learner, step]
        tensors = dict(
            pair
            for i, piece in enumerate(pieces)
            for pair in _tensors(piece, f"batch.{i}" if len(pieces) > 1 else "batch")
        )
        save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, path)
        return path


def _tensors(value: Any, name: str) -> list[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        return [(name, value)]
    if is_dataclass(value):
        parts = {f.name: getattr(value, f.name) for f in fields(value)}
    elif hasattr(value, "_asdict"):
        parts = value._asdict()
    else:
        return []
    return [pair for key, part in parts.items() for pair in _tensors(part, f"{name}.{key}")]
