"""A whole training step as one CUDA graph: no kernel is launched from Python any more.

The first steps run as they are, which also builds optimiser states; then one is captured. From
there on a step is: copy the batch into its place, replay, read the results.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

WARM_UP = 3


class StepGraph:
    """A function of batches that is captured after a few calls.

    The function must not look at values, and its random numbers must come from `generators`.
    """

    def __init__(
        self, compute: Callable[[Any], Any], generators: Sequence[torch.Generator]
    ) -> None:
        self._compute, self._generators = compute, generators
        self._graph: torch.cuda.CUDAGraph | None = None
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
        """On a side stream, as captured work will be."""
        stream = torch.cuda.Stream()
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
        with torch.cuda.graph(graph):
            self._result = self._compute(self._batch)
        self._graph = graph

    def _put(self, batch: Any) -> None:
        for place, leaf in zip(tree_flatten(self._batch)[0], tree_flatten(batch)[0], strict=True):
            place.copy_(leaf, non_blocking=True)
