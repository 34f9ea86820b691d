"""Compile every kernel for a GPU that need not be here; prints one line per kernel."""

import importlib
import inspect
import pkgutil
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from horizon_imagination import kernels

FLAGS = {"silu": True, "residual": True, "masked": True, "first": False, "relu": True, "back": True}
SIZES = {
    "channels": 128, "groups": 32, "rows": 16, "chunks": 16, "dim": 64, "padded": 64, "half": 32,
    "queries": 64, "keys": 64, "block": 128,
}  # fmt: skip
PARTS = {"_groups", "_slopes", "_channels", "_tanh"}
"""Functions of the device that kernels call: compiled as parts of them."""
FLOATS = {"eps", "scale"}
HALF = {
    "x_ptr",
    "y_ptr",
    "g_ptr",
    "dy_ptr",
    "dx_ptr",
    "qkv_ptr",
    "keys_ptr",
    "values_ptr",
    "out_ptr",
}


def argument_type(name: str, kernel: str) -> str:
    """The type of an argument, by its name."""
    if name == "mask_ptr":
        return "*i1"
    if (kernel, name) in (("_residual_norm", "x_ptr"), ("_signs", "g_ptr")):
        return "*fp32"
    if name in HALF or (kernel == "_residual_norm" and name == "modulation_ptr"):
        return "*bf16"
    if name.endswith("_ptr"):
        half = ("gates_x_ptr", "product_ptr", "h_ptr", "out_h_ptr", "dh_ptr", "dgates_ptr")
        return "*bf16" if name in half else "*fp32"
    return "fp32" if (name in FLOATS and kernel != "_residual_norm") or name == "eps" else "i32"


def main(capability: int) -> None:
    """Compile for one compute capability."""
    for file in pkgutil.iter_modules(kernels.__path__):
        module = importlib.import_module(f"{kernels.__name__}.{file.name}")
        for name, function in vars(module).items():
            kernel = isinstance(function, triton.runtime.JITFunction)
            if not kernel or name in PARTS:
                continue
            constants, signature = {}, {}
            for argument in inspect.signature(function.fn).parameters:
                place = function.arg_names.index(argument)
                fixed = function.params[place].is_constexpr
                signature[argument] = "constexpr" if fixed else argument_type(argument, name)
                if fixed:
                    constants[(place,)] = FLAGS.get(argument, SIZES.get(argument))
            source = ASTSource(function, signature, constants)
            done = triton.compile(source, target=GPUTarget("cuda", capability, 32))
            print(f"{file.name}.{name}", done.metadata.shared, len(done.asm["cubin"]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
