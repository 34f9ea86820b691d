"""Copies of the networks that an epoch acts and imagines with while the originals learn."""

import copy
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from horizon_imagination.agent import Agent

Network = TypeVar("Network", bound=nn.Module)


class Copies:
    """Actor, denoiser and reward model of an agent as they were at the last `refresh`.

    The tokenizer is the agent's own: it does not learn while copies are in use.
    """

    def __init__(self, agent: Agent) -> None:
        self._originals = {
            "actor": agent.actor,
            "denoiser": agent.imagination_denoiser,
            "reward": agent.reward,
        }
        self.actor = _copied(agent.actor)
        denoiser, reward = _copied(agent.imagination_denoiser), _copied(agent.reward)
        self._copies = {"actor": self.actor, "denoiser": denoiser, "reward": reward}
        self.world_model = agent.world_model_of(denoiser, reward)

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over the present weights."""
        for name, network in self._copies.items():
            theirs = self._originals[name].state_dict()
            torch._foreach_copy_(  # type: ignore[attr-defined]
                list(network.state_dict().values()), list(theirs.values())
            )

    def state(self) -> dict[str, Tensor]:
        """Every weight by its name, for a snapshot in the middle of an epoch."""
        return {
            f"{name}.{key}": value
            for name, network in self._copies.items()
            for key, value in network.state_dict().items()
        }

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` returned."""
        for name, value in self.state().items():
            value.copy_(state[name])


def _copied(network: Network) -> Network:
    return copy.deepcopy(network).requires_grad_(False)
