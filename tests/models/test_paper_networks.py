"""The networks at the paper's sizes: how many parameters they have and who shares them."""

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.models.tokenizer import SpatialAttention
from horizon_imagination.presets import PRESETS


@pytest.fixture(scope="module")
def agent():
    return Agent(PRESETS["paper"][1], 18, torch.device("cpu"))


def count(*networks):
    return sum(p.numel() for network in networks for p in network.parameters())


def test_the_parameter_counts_are_the_papers(agent):
    assert count(agent.tokenizer) == 22_449_715
    assert count(agent.denoiser) / 1e6 == pytest.approx(57.7, abs=0.06)
    assert count(agent.reward) / 1e6 == pytest.approx(5.4, abs=0.05)
    own = {id(p): p.numel() for net in (agent.actor, agent.critic) for p in net.parameters()}
    assert sum(own.values()) / 1e6 == pytest.approx(7.5, abs=0.06)


def test_actor_and_critic_share_their_encoder_and_nothing_else(agent):
    actor, critic, reward = (
        {p.untyped_storage().data_ptr() for p in network.parameters()}
        for network in (agent.actor, agent.critic, agent.reward)
    )
    encoder = {p.untyped_storage().data_ptr() for p in agent.actor.encoder.parameters()}
    assert actor & critic == encoder and not (actor | critic) & reward


def test_latents_are_16_by_8_by_8_in_16_tokens(agent):
    assert agent.latent_shape == (16, 8, 8) and agent.denoiser.tokens_per_frame == 16
    z = agent.encode(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
    assert z.shape == (1, 16, 8, 8)


def test_the_decoder_attends_at_16_by_16(agent):
    seen = []
    for layer in agent.tokenizer.decoder.modules():
        if isinstance(layer, SpatialAttention):
            layer.register_forward_hook(lambda _, args, out: seen.append(args[0].shape[-1]))
    agent.decode(torch.zeros(1, 1, 16, 8, 8))
    assert seen == [8, 16, 16, 16]


def test_the_shape_of_the_transformer(agent):
    denoiser = agent.denoiser
    assert len(denoiser.blocks) == 12 and denoiser.heads == 8 and denoiser.head_dim == 64
    assert denoiser.patch == 2
    gates = [p for name, p in denoiser.named_parameters() if "modulate" in name]
    assert [tuple(gate.shape) for gate in gates] == [(74 * 512, 512)] and not any(
        p.any() for p in gates
    )


def test_no_weight_is_counted_twice_or_missing(agent):
    stored = sum(x.numel() for x in agent.weights().values())
    networks = agent.networks().values()
    weights = {id(p): p.numel() for network in networks for p in network.parameters()}
    statistics = {id(b): b.numel() for network in networks for b in network.buffers()}
    assert stored == sum(weights.values()) + sum(statistics.values())
    assert sum(statistics.values()) == 16 * 8 * 8 + 16 + 1, "mean, deviation, count: one encoder"
