"""Blocks of the denoiser that are compiled for training learn what plain ones learn."""

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.cli import main
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.run import start
from horizon_imagination.streams import Streams

ON_CPU = {"device": "cpu", "precision": "float32"}


def made(tmp_path, compiled: bool):
    agent = Agent(replaced(DEBUG, runtime=ON_CPU), 3, torch.device("cpu"))
    if compiled:
        agent.denoiser.compile_blocks()
    batches = RandomBatches(agent, torch.Generator().manual_seed(0))
    streams = Streams(0, agent.device)
    learners = make_learners(agent, batches, streams, Guard(tmp_path, every=1))
    assert learners.world_model is not None
    return agent, learners.world_model


@pytest.mark.compiled
def test_compiled_steps_learn_what_plain_steps_learn(tmp_path):
    (plain, launched), (compiled, run) = (made(tmp_path, c) for c in (False, True))
    for _ in range(3):
        expected, found = launched.step(), run.step()
        for name, value in expected.items():
            assert found[name] == pytest.approx(float(value), rel=1e-4, abs=1e-6), name
    expected, found = plain.weights(), compiled.weights()
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-5, msg=name)


def test_without_gradients_the_plain_blocks_run(tmp_path):
    agent, _ = made(tmp_path, True)
    called = []
    agent.denoiser._compiled = tuple(
        lambda *args, block=block: called.append(block) or block(*args)
        for block in agent.denoiser.blocks
    )
    z = torch.rand(1, 2, *agent.latent_shape)
    seen = z, torch.rand(1, 2), torch.zeros(1, 2, dtype=torch.long)
    with torch.no_grad():
        agent.denoiser(*seen)
    assert not called
    agent.denoiser(*seen)
    assert called == list(agent.denoiser.blocks)


def test_on_a_cpu_nothing_is_compiled():
    agent = Agent(replaced(DEBUG, runtime=ON_CPU | {"compile": True}), 3, torch.device("cpu"))
    assert agent.denoiser._compiled == ()


def test_on_a_cpu_nobody_asks_for_a_compiler(monkeypatch):
    monkeypatch.setattr(start.shutil, "which", lambda name: None)
    start._check_compiler(replaced(DEBUG, runtime=ON_CPU | {"compile": True}))


def test_without_a_compiler_a_run_on_cuda_says_so_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(start.shutil, "which", lambda name: None)
    monkeypatch.setattr(start, "resolve_device", lambda name: torch.device("cuda"))
    words = ["--preset", "debug", "--runtime.compile", "--out", str(tmp_path / "run")]
    assert main(["train", *words]) == 2
    said = capsys.readouterr().err.strip()
    assert "needs a C++ compiler" in said and len(said.splitlines()) == 1
    assert not (tmp_path / "run").exists()
