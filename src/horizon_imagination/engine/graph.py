"""A whole training step as one CUDA graph: Python launches one graph instead of every kernel.

The first steps are launched as they are, which also builds optimiser states; then one is captured.
From there on a step is: copy the batch into its place, replay, read the results.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from horizon_imagination.errors import UsageError

WARM_UP = 3
"""Steps that are launched before one is captured."""


def wanted(setting: str, device: torch.device) -> bool:
    """Whether to capture steps: `auto` on CUDA in one process, `on` with a warning elsewhere."""
    if setting == "off":
        return False
    alone = not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1
    if device.type == "cuda" and alone:
        return True
    if setting == "on":
        _warn("no CUDA device here" if alone else "several processes train together")
    return False


@lru_cache(maxsize=1)
def _warn(reason: str) -> None:
    warnings.warn(
        f"runtime.graphs on: {reason}; steps are launched one by one, with the same numbers",
        stacklevel=3,
    )


class StepGraph:
    """A function of batches that is captured after a few calls.

    The function must not look at values, and its random numbers must come from `generators`.
    """

    def __init__(
        self, compute: Callable[[Any], Any], generators: Sequence[torch.Generator]
    ) -> None:
        self._compute, self._generators = compute, generators
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream: torch.cuda.Stream | None = None
        self._calls = 0
        self._batch: Any = None
        self._result: Any = None

    def __call__(self, batch: Any) -> Any:
        """What the function returns for the batch."""
        self._calls += 1
        if self._calls <= WARM_UP:
            return self._warm_up(batch)
        if self._graph is None:
            self._capture(batch)
        self._put(batch)
        assert self._graph is not None
        self._graph.replay()
        return tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, self._result)

    def _warm_up(self, batch: Any) -> Any:
        """On a side stream, as captured work will be.

        It is this graph's own: products keep scratch memory by stream, and graphs may be replayed
        concurrently.
        """
        self._stream = stream = self._stream or torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self._compute(batch)
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def _capture(self, batch: Any) -> None:
        leaves, shape = tree_flatten(batch)
        self._batch = tree_unflatten([leaf.clone() for leaf in leaves], shape)
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph, stream=self._stream):
                self._result = self._compute(self._batch)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UsageError(
                "a step cannot be captured as a CUDA graph, which may not read values on the "
                f"host ({reason}); train with --runtime.graphs off"
            ) from error
        self._graph = graph

    def _put(self, batch: Any) -> None:
        for place, leaf in zip(tree_flatten(self._batch)[0], tree_flatten(batch)[0], strict=True):
            place.copy_(leaf, non_blocking=True)
