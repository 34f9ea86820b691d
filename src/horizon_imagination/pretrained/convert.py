"""Published weights turned into the names and layouts of our networks, without running code.

A pickle is a program. The reader here admits numpy arrays and plain containers; whatever else a
file asks for is refused before it is called.
"""

import io
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horizon_imagination.errors import UsageError

Weights = dict[str, Tensor]

# What numpy, before and after its move to numpy._core, writes for an array.
RECONSTRUCT = np.empty(0).__reduce__()[0]
ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class ArrayUnpickler(pickle.Unpickler):
    """Reads numpy arrays in plain containers and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """The admitted builders of arrays; anything else is refused by name."""
        if (module, name) not in ADMITTED:
            raise UsageError(
                f"the pickle asks for {module}.{name}, which is no numpy array: "
                "refused without running it; get the file from its source again"
            )
        return ADMITTED[module, name]


def read_pickled_arrays(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a pickled tree of dictionaries, by their path: `params/layer/kernel`."""
    try:
        tree = ArrayUnpickler(io.BytesIO(content)).load()
    except UsageError:
        raise
    except Exception as error:  # a damaged pickle raises almost anything
        raise UsageError(f"the pickle is damaged or cut off ({error}): get it again") from error
    return dict(leaves(tree))


def leaves(tree: object, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a tree of dictionaries with their paths."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}/{key}" if path else str(key))
    elif isinstance(tree, np.ndarray) and tree.dtype.kind == "f":
        yield path, tree
    else:
        raise UsageError(
            f"the pickle holds a {type(tree).__name__} at '{path}' where an array of numbers was "
            "expected: get the file from its source again"
        )


def read_torch_tensors(content: bytes) -> Weights:
    """The tensors of a `.pth` file, read without executing anything in it."""
    try:
        state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # torch raises UnpicklingError, RuntimeError, EOFError, ...
        raise UsageError(
            "the .pth file is damaged, or holds more than tensors and was refused: get it again"
        ) from error
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise UsageError("the .pth file holds no dictionary of tensors: give the weights alone")
    return dict(state)


def convert_i3d(content: bytes) -> Weights:
    """I3D with its batch norms folded: `Mixed_3b/Branch_0/Conv3d_0a_1x1.weight` and `.bias`."""
    arrays, weights = read_pickled_arrays(content), {}
    for path, kernel in arrays.items():
        if not path.endswith("/Conv_0/kernel"):
            continue
        layer = path.removeprefix("params/").removesuffix("/Conv_0/kernel")
        kernel = kernel.astype(np.float64)
        if (bias := arrays.get(f"params/{layer}/Conv_0/bias")) is None:
            norm = f"batch_stats/{layer}/BatchNorm_0"
            scale = 1 / np.sqrt(arrays[f"{norm}/var"].astype(np.float64).ravel() + 1e-3)
            bias = arrays[f"params/{layer}/BatchNorm_0/bias"] - scale * arrays[f"{norm}/mean"]
            kernel = kernel * scale
        weights[f"{layer}.weight"] = torch.from_numpy(kernel).permute(4, 3, 0, 1, 2)
        weights[f"{layer}.bias"] = torch.from_numpy(bias.ravel())
    return weights


def convert_vgg16(content: bytes) -> Weights:
    """VGG-16 features and LPIPS heads; images in [-1, 1] enter as (x - shift) / scale."""
    if is_zip(content):
        return from_torchvision(read_torch_tensors(content), convolutions=13)
    arrays, weights = read_pickled_arrays(content), imagenet_scaling()
    for i in range(13):
        kernel = torch.from_numpy(arrays[f"VGG16_0/Conv_{i}/kernel"])
        weights[f"conv{i}.weight"] = kernel.permute(3, 2, 0, 1)
        weights[f"conv{i}.bias"] = torch.from_numpy(arrays[f"VGG16_0/Conv_{i}/bias"])
    for i in range(5):
        head = arrays[f"NetLinLayer_{i}/Conv_0/kernel"]
        weights[f"head{i}"] = torch.from_numpy(head).flatten()
    return weights


def convert_vgg19(content: bytes) -> Weights:
    """VGG-19 features whose channels average 1 on natural images, or torchvision's own."""
    state = read_torch_tensors(content)
    if "features.0.weight" in state:
        return from_torchvision(state, convolutions=16)
    layers = sorted(int(name.split(".")[0]) for name in state if name.endswith(".weight"))
    colours, first = state["0.weight"][:, :, 0, 0].double(), state["2.weight"].double()
    # The 1 x 1 convolution computes colours @ (rgb - mean). Its linear part goes into the kernel;
    # the mean stays outside, so that zero padding still means the mean colour.
    mean = -torch.linalg.solve(colours, state["0.bias"].double())
    weights = {"shift": 2 * mean - 1, "scale": torch.full((3,), 2.0), "normalized": torch.ones(1)}
    for i, layer in enumerate(layers[1:]):
        weights[f"conv{i}.weight"] = state[f"{layer}.weight"]
        weights[f"conv{i}.bias"] = state[f"{layer}.bias"]
    weights["conv0.weight"] = torch.einsum("obhw,br->orhw", first, colours)
    return weights


def from_torchvision(state: Mapping[str, Tensor], convolutions: int) -> Weights:
    """torchvision's `features` under our names, as far as convolutions go."""
    kernels = [k for k in state if k.startswith("features.") and k.endswith(".weight")]
    if len(kernels) != convolutions:
        raise UsageError(
            f"the .pth file has {len(kernels)} feature convolutions, expected {convolutions}: "
            "give the file of the right network"
        )
    weights = imagenet_scaling()
    for i, name in enumerate(sorted(kernels, key=lambda k: int(k.split(".")[1]))):
        weights[f"conv{i}.weight"] = state[name]
        weights[f"conv{i}.bias"] = state[name.replace("weight", "bias")]
    return weights


def imagenet_scaling() -> Weights:
    """ImageNet's mean and deviation for images in [-1, 1], rounded as LPIPS has them."""
    return {
        "shift": torch.tensor([-0.030, -0.088, -0.188]),
        "scale": torch.tensor([0.458, 0.448, 0.450]),
    }


def is_zip(content: bytes) -> bool:
    """Whether a file is a zip archive, as torch writes them."""
    return content[:4] == b"PK\x03\x04"
