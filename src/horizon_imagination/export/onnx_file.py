"""A module of torch as an ONNX file and as a `torch.export` artifact, without traces of this place.

Exporters write the source lines of every operation into their files, with the paths of this
machine. They are removed.
"""

import contextlib
import importlib.util
import io
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from horizon_imagination.errors import UsageError
from horizon_imagination.files import replacing, write_bytes

INSTALL = "pip install 'horizon_imagination[export]'"


@dataclass(frozen=True)
class Graph:
    """A module, arguments to trace it with, and the names of what goes in and comes out."""

    module: nn.Module
    arguments: tuple[Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    free: dict[str, tuple[int, str]]
    """Inputs with an axis of any length: the axis, and a name for its length."""


def check_installed() -> None:
    """Refuse to begin where a package is missing that only the end would need."""
    for name in ("onnx", "onnxruntime", "onnxscript"):
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"export needs the package {name}, which is not here: {INSTALL}")


def traced(graph: Graph) -> torch.export.ExportedProgram:
    """The operations of a module, as torch itself stores them."""
    lengths = {name: torch.export.Dim(name) for _, name in graph.free.values()}
    shapes = []
    for name, value in zip(graph.inputs, graph.arguments, strict=True):
        axis, length = graph.free.get(name, (0, ""))
        shapes.append({axis: lengths[length]} if length else {})
        assert not length or value.shape[axis] > 1, "a length of 1 is traced as a constant"
    with _quiet(), torch.no_grad():
        program = torch.export.export(
            graph.module.eval(), graph.arguments, dynamic_shapes=tuple(shapes)
        )
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def write_program(program: torch.export.ExportedProgram, path: Path) -> None:
    """Write a `torch.export` artifact; `torch.export.load(path).module()` runs it."""
    content = io.BytesIO()  # a file's name would be written into it
    with _quiet():
        torch.export.save(program, content)
    write_bytes(path, content.getvalue())


def write_onnx(program: torch.export.ExportedProgram, graph: Graph, path: Path) -> None:
    """Write the same operations as an ONNX file, weights inside."""
    import onnx

    with _quiet():
        found = torch.onnx.export(
            program,
            graph.arguments,
            dynamo=True,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            verbose=False,
        )
    assert found is not None
    model = found.model_proto
    _name_lengths(model.graph.input, graph.free)
    _forget_place(model)
    onnx.checker.check_model(model)
    with replacing(path) as temporary:
        onnx.save(model, temporary)


def session(path: Path, threads: int = 1) -> Any:
    """The file, ready to run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(os.fspath(path), options)


def _name_lengths(values: Sequence, free: dict[str, tuple[int, str]]) -> None:
    for value in values:
        if value.name in free:
            axis, length = free[value.name]
            value.type.tensor_type.shape.dim[axis].dim_param = length


def _forget_place(model) -> None:
    """Drop source lines, and shapes of intermediate values, which a runtime infers itself."""
    del model.graph.value_info[:]
    del model.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.doc_string = ""
        if hasattr(value, "metadata_props"):
            del value.metadata_props[:]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters speak of packages that nobody asked for, and print their progress."""
    loud = logging.getLogger("torch.onnx")
    before = loud.level
    loud.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(None):
            warnings.simplefilter("ignore")
            yield
    finally:
        loud.setLevel(before)
