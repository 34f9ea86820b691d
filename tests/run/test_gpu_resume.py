"""On a GPU, with captured steps, fused kernels and fused optimisers, a run goes on after a stop."""

import json

import pytest
import torch

from horizon_imagination.cli import main

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_a_run_on_a_gpu_goes_on_where_it_stopped(tmp_path):
    where = ["--out", str(tmp_path / "run"), "--device", "cuda"]
    assert main(["train", "--preset", "debug", "--training.epochs", "4", *where]) == 0
    assert main(["train", "--training.epochs", "6", *where]) == 0
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(6))
    assert "controller/critic" in json.loads(lines[-1])
