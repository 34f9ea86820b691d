"""Every weight has a gradient in half precision too.

Networks that first run without gradients in the same context, as actor and reward model do in
imagination, must not lose theirs to weights that were converted there.
"""

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.streams import Streams

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        ],
    ),
]


def gradients(precision, device, folder):
    config = replaced(
        DEBUG,
        runtime={"precision": precision, "device": device, "graphs": "off"},
        controller={"shared_encoder": True, "center_features": True},
    )
    agent = Agent(config, 3, torch.device(device))
    batches = RandomBatches(agent, torch.Generator(device).manual_seed(0))
    streams = Streams(0, agent.device)
    learners = make_learners(agent, batches, streams, Guard(folder, every=1, writes=False))
    controller = learners.controller
    controller._gradients([controller.sample(8)])
    networks = {"actor": agent.actor, "critic": agent.critic}
    return {
        f"{name}.{key}": value.grad
        for name, network in networks.items()
        for key, value in network.named_parameters()
    }


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_the_controller_are_those_of_full_precision(device, tmp_path):
    full, half = (gradients(precision, device, tmp_path) for precision in ("float32", "bfloat16"))
    for name, expected in full.items():
        found = half[name]
        assert found is not None and expected is not None, name
        assert float(expected.norm()) > 0, name
        assert float((found - expected).norm()) < 0.3 * float(expected.norm()), name
