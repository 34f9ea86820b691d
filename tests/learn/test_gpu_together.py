"""On a GPU, learners on two streams learn what they learn one after the other."""

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.streams import Streams

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ROUNDS = 30


def trained(folder, *, streams: bool, lag: bool = True):
    """Figures of every round, and the weights after all of them."""
    device, base = torch.device("cuda"), PRESETS["fast"][1]
    config = replaced(
        base,
        tokenizer={"perceptual": "none"},
        training={"overlap": True},
        runtime={"device": "cuda", "compile": False},
    )
    agent = Agent(config, 6, device)
    batches = RandomBatches(agent, torch.Generator(device).manual_seed(1))
    learners = make_learners(agent, batches, Streams(0, device), Guard(folder, every=7))
    together = learners.together
    assert together is not None and together._learning is not None
    if not streams:
        together._learning = together._acting = None
    together.begin(1, 0)
    frames, found = batches.frames(64), []
    for _ in range(ROUNDS):
        with together.acting():
            agent.encode(frames)
        if not lag:
            together.copies.refresh()
        found.append(together.step())
    together.settle(examine=False)
    torch.cuda.synchronize()
    figures = torch.stack([torch.stack([x[k].float() for k in sorted(x)]) for x in found])
    weights = {name: value.float().cpu() for name, value in agent.weights().items()}
    return figures.cpu(), weights


def distance(a, b):
    """Of all weights, as a share of their norm."""
    apart = sum(float((a[name] - b[name]).square().sum()) for name in a)
    return (apart / sum(float(value.square().sum()) for value in b.values())) ** 0.5


def test_learners_on_two_streams_learn_what_they_learn_one_after_the_other(tmp_path):
    """Where one after the other does not repeat itself, streams may differ ten times as much."""
    once, again = (trained(tmp_path / name, streams=False) for name in "ab")
    beside = trained(tmp_path / "c", streams=True)
    noise, error = distance(again[1], once[1]), distance(beside[1], once[1])
    first = (beside[0][:3] - once[0][:3]).abs().max()
    print(f"weights {error:.1e} (again {noise:.1e}), figures of three rounds {first:.1e}")
    assert torch.isfinite(beside[0]).all()
    assert error <= 10 * noise + 1e-3


def test_the_comparison_would_see_a_world_model_that_moves_under_the_controller(tmp_path):
    once, again = (trained(tmp_path / name, streams=False) for name in "ab")
    moved = trained(tmp_path / "c", streams=False, lag=False)
    assert distance(moved[1], once[1]) > 2 * distance(again[1], once[1])
