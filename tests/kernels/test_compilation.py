"""Every kernel compiles for GPUs that are not here."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytestmark = pytest.mark.compiled

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src" / "horizon_imagination" / "kernels"


def jitted(path):
    """The functions of a file that Triton compiles, and those of them that others call."""
    functions = [
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and any("triton.jit" in ast.unparse(x) for x in node.decorator_list)
    ]
    calls = {
        node.func.id
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return {function.name for function in functions}, calls


def kernels():
    """Every function that is launched, by file and name."""
    found = set()
    for path in SOURCE.glob("*.py"):
        names, called = jitted(path)
        found |= {f"{path.stem}.{name}" for name in names - called}
    return found


@pytest.mark.parametrize("capability", [80, 90])
def test_every_kernel_compiles_for_a_gpu_that_is_not_here(capability, tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(HERE / "compile_all.py"), str(capability)],
        capture_output=True, text=True, env=env | {"TRITON_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    compiled = {line.split()[0] for line in done.stdout.splitlines()}
    assert compiled == kernels() and len(compiled) >= 12
