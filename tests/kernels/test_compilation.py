"""Every kernel compiles for GPUs that are not here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("capability", [80, 90])
def test_every_kernel_compiles_for_a_gpu_that_is_not_here(capability, tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "compile_all.py"), str(capability)],
        capture_output=True, text=True, env=env | {"TRITON_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    names = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"_add", "_sums", "_gradient", "_step", "_step_back", "_attend"} <= names
