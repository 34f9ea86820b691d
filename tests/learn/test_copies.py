"""Copies of the networks: as they were at the last refresh, whatever the originals do."""

from dataclasses import replace

import pytest
import torch
from numbered_world import ACTIONS, config

from horizon_imagination.agent import Agent
from horizon_imagination.learn.copies import Copies


def agent_of(ema):
    cfg = config()
    return Agent(
        replace(cfg, denoiser=replace(cfg.denoiser, ema=ema)), ACTIONS, torch.device("cpu")
    )


@pytest.fixture(params=[0.0, 0.9], ids=["plain", "averaged"])
def agent(request):
    """Imagination uses the denoiser itself, or its average."""
    return agent_of(request.param)


def originals(agent):
    """Every weight that is copied, by the name that `state` has for it."""
    networks = {"actor": agent.actor, "denoiser": agent.imagination_denoiser}
    networks["reward"] = agent.reward
    return {
        f"{name}.{key}": value.clone()
        for name, network in networks.items()
        for key, value in network.state_dict().items()
    }


def cloned(copies):
    return {name: value.clone() for name, value in copies.state().items()}


def same(first, second):
    assert first.keys() == second.keys()
    return [name for name in first if torch.equal(first[name], second[name])]


@torch.no_grad()
def disturb(agent):
    """Change every weight of the agent, buffers too."""
    for network in (*agent.networks().values(), agent.imagination_denoiser):
        for value in network.state_dict().values():
            value.add_(1)


def test_copies_are_equal_to_the_originals_after_a_refresh(agent):
    copies = Copies(agent)
    assert len(same(copies.state(), originals(agent))) == len(copies.state())
    disturb(agent)
    assert same(copies.state(), originals(agent)) == []
    copies.refresh()
    assert len(same(copies.state(), originals(agent))) == len(copies.state())


def test_copies_stay_as_they_are_while_the_originals_change(agent):
    copies = Copies(agent)
    before = cloned(copies)
    disturb(agent)
    assert len(same(copies.state(), before)) == len(before)
    assert not any(value.requires_grad for value in copies.actor.parameters())


def test_a_state_is_restored_over_anything(agent):
    copies = Copies(agent)
    before = cloned(copies)
    disturb(agent)
    copies.refresh()
    assert same(copies.state(), before) == []
    copies.restore(before)
    assert len(same(copies.state(), before)) == len(before)


def test_the_state_of_one_process_is_that_of_another(agent):
    first = Copies(agent)
    disturb(agent)
    second = Copies(agent_of(agent.config.denoiser.ema))
    second.restore(first.state())
    assert len(same(second.state(), first.state())) == len(first.state())


def figures(world):
    """What a world model says of random frames."""
    rng = torch.Generator().manual_seed(0)
    z = torch.rand(2, 3, *world.latent_shape, generator=rng)
    tau, actions = torch.rand(2, 3, generator=rng), torch.tensor([[0, 1, 2], [3, 2, 1]])
    with torch.no_grad():
        return [world.velocity(z, tau, actions), *world.reward_and_end(z)]


def test_its_world_model_is_that_of_the_copies(agent):
    # A new denoiser is closed: its modulation, which is zero, would hide the blocks.
    disturb(agent)
    copies = Copies(agent)
    first = figures(copies.world_model)
    for mine, theirs in zip(first, figures(agent.world_model), strict=True):
        assert torch.equal(mine, theirs)
    disturb(agent)
    for mine, before in zip(figures(copies.world_model), first, strict=True):
        assert torch.equal(mine, before)
    copies.refresh()
    for mine, theirs in zip(figures(copies.world_model), figures(agent.world_model), strict=True):
        assert torch.equal(mine, theirs)
    assert any(
        not torch.equal(mine, before)
        for mine, before in zip(figures(copies.world_model), first, strict=True)
    )
