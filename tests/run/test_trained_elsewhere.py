"""Training on a device that is not the CPU, without having one: the same numbers, no tensor on a
wrong device, and captured steps that the host neither reads nor writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

pytestmark = pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch knows no devices written in Python",
)
SCRIPT = Path(__file__).parent / "trained_elsewhere.py"


def said(*words):
    """What the script prints, in a process of its own."""
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    program = [sys.executable, str(SCRIPT), *map(str, words)]
    done = subprocess.run(program, env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["fast", "naive", "coupled", "continuous"])
def test_a_run_on_another_device_has_the_numbers_of_the_cpu(variant, tmp_path):
    """Collecting, learning, measuring, evaluating and saving, with captured steps."""
    found = said(variant, tmp_path)
    here, there = found["here"], found["there"]
    assert len(here) == len(there) == 6 and found["captures"] > 50
    assert {"controller/actor", "world_model/imagined_end", "evaluation/return"} <= set(here[-1])
    for mine, theirs in zip(here, there, strict=True):
        assert theirs == pytest.approx(mine, rel=1e-4, abs=1e-4)


@pytest.mark.slow
def test_a_step_with_a_mistake_is_found():
    """Mixed devices in the first step, the others in the first one that is captured."""
    found = said("mistakes")
    assert found["mixes"][0] == 0 and "operands of both devices" in found["mixes"][1]
    for how in ("copies", "reads"):
        step, problem = found[how]
        assert step == 3 and "the host reads or writes values of a captured step" in problem
