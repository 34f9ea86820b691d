"""The presets `paper` and `fast`: every learner takes a step at their sizes on the CPU."""

import dataclasses

import numpy as np
import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.data import Replay, Store
from horizon_imagination.errors import UsageError
from horizon_imagination.learn.batches import RandomBatches, ReplayBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.streams import Streams

ACTIONS = 18


def smaller_batches(config, size):
    """The preset with everything as published but the size of its batches."""
    sections = {
        name: {"learner": dataclasses.replace(getattr(config, name).learner, batch_size=size)}
        for name in ("tokenizer", "world_model", "controller")
    }
    sections["tokenizer"]["perceptual"] = "none"  # its weights are fetched apart
    sections["runtime"] = {"device": "cpu", "precision": "float32"}
    return replaced(config, **sections)


def recorded(folder):
    store = Store.create(folder, (3, 64, 64), ACTIONS, "noise")
    rng = np.random.default_rng(0)
    store.begin(rng.integers(256, size=(3, 64, 64), dtype=np.uint8))
    for step in range(39):
        frame = rng.integers(256, size=(3, 64, 64), dtype=np.uint8)
        store.add(step % ACTIONS, step % 3 - 1.0, step == 38, False, frame)
    return store


@pytest.fixture(params=["paper", "fast"])
def made(tmp_path, request):
    cfg = smaller_batches(PRESETS[request.param][1], 1)
    agent = Agent(cfg, ACTIONS, torch.device("cpu"))
    store = recorded(tmp_path / "data")
    latents = LatentCache(store, agent.encode, agent.device)
    latents.refresh()
    streams = Streams(0, agent.device)
    batches = ReplayBatches(agent, Replay(store, cfg.replay), latents, streams)
    return agent, make_learners(agent, batches, streams, Guard(tmp_path, every=1))


@pytest.mark.slow
def test_every_learner_takes_a_step_at_full_size(made):
    agent, learners = made
    before = {name: value.clone() for name, value in agent.weights().items()}
    for learner in learners.in_order():
        metrics = learner.step()
        assert all(value.isfinite() for value in metrics.values()), learner.name
    after = agent.weights()
    for network in agent.networks():
        moved = [
            name
            for name in before
            if name.startswith(f"{network}.") and not torch.equal(before[name], after[name])
        ]
        assert moved, network


def test_missing_perceptual_weights_are_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("HORIZON_CACHE", str(tmp_path / "empty"))
    cfg = replaced(
        PRESETS["paper"][1],
        tokenizer={"channels": 8, "norm_groups": 4},
        denoiser={"layers": 1, "heads": 1},
    )
    assert cfg.tokenizer.perceptual == "vgg16"
    agent = Agent(cfg, ACTIONS, torch.device("cpu"))
    rng = torch.Generator()
    with pytest.raises(UsageError, match="horizon weights get vgg16"):
        make_learners(
            agent, RandomBatches(agent, rng), Streams(0, agent.device), Guard(tmp_path, every=1)
        )


@pytest.mark.parametrize("name", ["paper", "fast", "demo"])
def test_every_position_met_in_imagination_is_trained(name):
    cfg = PRESETS[name][1]
    assert cfg.world_model.segment_length >= cfg.imagination.context + cfg.imagination.horizon
