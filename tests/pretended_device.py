"""A device that is made up: its tensors compute on the CPU, and may not meet those of the CPU.

What runs on it with the CPU's numbers puts no tensor on a wrong device, as it would have to on a
GPU. Steps that a GPU captures as a graph may not read values or copy from the host here either.
Kernels, streams, half precision and pinned memory are not pretended.

`install` changes torch for the whole process, so tests call it in one of their own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

import horizon_imagination.agent
import horizon_imagination.checkpoint
import horizon_imagination.imagination
from horizon_imagination.engine import graph
from horizon_imagination.learn import latents, together

aten = torch.ops.aten
NAME = "pretended"
DEVICE: torch.device
"""There is one once it is installed."""
READS = {
    aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default,
    aten.masked_select.default, aten.is_nonzero.default,
}  # fmt: skip
"""Operations for whose result the host waits."""
MEETS = {aten.copy_.default, aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
"""Operations that take tensors of both devices: a copy, and indices of the CPU."""


class DeviceError(Exception):
    """Tensors of two devices met, or the host read or wrote values of a captured step."""


class There(Tensor):
    """A tensor on the pretended device; `here` has its numbers."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> "There":
        """Of the same shape."""
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, here.shape, strides=here.stride(), storage_offset=here.storage_offset(),
            dtype=here.dtype, layout=here.layout, device=DEVICE,
        )  # fmt: skip
        made.here = here
        return made

    def __repr__(self, **_: Any) -> str:
        return f"There({self.here!r})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _computed(func, args, kwargs or {})


class Generator(torch.Generator):
    """A CPU's generator, which says that it is on the device it was made for."""

    _place: torch.device

    def __new__(cls, device: torch.device | str = "cpu") -> "Generator":
        """Every generator draws the CPU's numbers."""
        made = super().__new__(cls, "cpu")
        made._place = torch.device(device)
        return made

    def __init__(self, device: torch.device | str = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:
        return self._place


class Operations(TorchDispatchMode):
    """Every operation, those that make tensors too."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _computed(func, args, kwargs or {})


class Literals(TorchFunctionMode):
    """Numbers of Python become tensors of the CPU first; nothing else could see them."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and "device" in kwargs:
            return func(*args, **kwargs | {"device": "cpu"}).to(kwargs["device"])
        if args and isinstance(args[0], There):
            if func is Tensor.new_tensor:
                return torch.tensor(*args[1:], **kwargs, dtype=args[0].dtype).to(DEVICE)
            if func is Tensor.__getitem__ and isinstance(args[1], list):
                args = args[0], torch.tensor(args[1], dtype=torch.long)
        return func(*args, **kwargs)


_capturing = False


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation, computed on the CPU; its result is where its operands are."""
    operands = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    there = [x for x in operands if isinstance(x, There)]
    here = [x for x in operands if not isinstance(x, There) and x.ndim]
    named = kwargs.get("device")
    goes = bool(there) if named is None else torch.device(named).type == NAME
    if func is aten.copy_.default:
        goes = isinstance(args[0], There)
    elif there and here and func not in MEETS:
        shapes = [tuple(x.shape) for x in here]
        raise DeviceError(f"{func}: operands of both devices; of the CPU: {shapes}")
    if _capturing and operands and (there or goes):
        crosses = bool(there) != goes or (func in MEETS and bool(here))
        if crosses or func in READS:
            raise DeviceError(f"{func}: the host reads or writes values of a captured step")
    if named is not None:
        kwargs = kwargs | {"device": torch.device("cpu")}
    plain = tree_map(lambda x: x.here if isinstance(x, There) else x, (args, kwargs))
    found = func(*plain[0], **plain[1])
    if not goes:
        return found
    found = tree_map(lambda x: There(x) if isinstance(x, Tensor) else x, found)
    return return_and_correct_aliasing(func, args, kwargs, found) if there else found


def _called(step: graph.StepGraph, batch: Any) -> Any:
    """A captured step: launched as often as on a GPU, then under what holds in a capture."""
    global _capturing
    step._calls += 1
    if step._calls <= graph.WARM_UP:
        return step._compute(batch)
    _capturing = True
    captures.append(step)
    try:
        return step._compute(batch)
    finally:
        _capturing = False


captures: list[graph.StepGraph] = []
"""A step for every time that it was taken under what holds in a capture."""


@contextmanager
def pretended() -> Iterator[None]:
    """Makes the device, on which steps are captured."""
    with Operations(), Literals():
        yield


def _saving_from_cpu(save: Any) -> Any:
    """Files are written from memory that the device does not have."""

    def saved(tensors: dict[str, Tensor], *rest: Any) -> None:
        save({k: v.cpu() if isinstance(v, There) else v for k, v in tensors.items()}, *rest)

    return saved


def install() -> None:
    """Register the device, and capture steps on it."""
    global DEVICE
    backend_registration._setup_privateuseone_for_python_backend(NAME)
    torch.pretended.get_amp_supported_dtype = lambda *_: [torch.bfloat16]  # type: ignore[attr-defined]
    DEVICE = torch.device(NAME, 0)
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch.Generator = Generator  # type: ignore[misc]
    together.torch.cuda.Stream = lambda *_, **__: None  # type: ignore[assignment, misc]
    graph.StepGraph.__call__ = _called  # type: ignore[method-assign]
    graph.wanted = lambda setting, device: setting != "off" and device.type == NAME
    latents.BLOCKS[NAME] = latents.BLOCKS["cpu"]
    horizon_imagination.imagination._capturing = lambda: _capturing
    for module in (horizon_imagination.agent, horizon_imagination.checkpoint):
        module.save_file = _saving_from_cpu(module.save_file)
