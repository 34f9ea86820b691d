"""The policy as one step: frames and recurrent state in, the policy and the next state out."""

import copy

import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from horizon_imagination.actions import Box
from horizon_imagination.agent import Agent
from horizon_imagination.export.onnx_file import Graph
from horizon_imagination.models.recurrent import RecurrentState
from horizon_imagination.models.tokenizer import to_images

State = Float[Tensor, "batch hidden"]
Numbers = Float[Tensor, "batch _"]
PROBABILITIES, GAUSSIAN = ("probs", "logits"), ("means", "deviations")
"""What a step says of the policy, by name; means and deviations are those before the tanh."""


class PolicyStep(nn.Module):
    """Encoder and actor of an agent, frames as bytes."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.tokenizer = copy.deepcopy(agent.tokenizer)
        self.tokenizer.decoder = nn.Sequential()  # a policy looks, and paints nothing
        self.actor = copy.deepcopy(agent.actor)

    def forward(
        self, frames: UInt8[Tensor, "batch height width channel"], h: State, c: State
    ) -> tuple[Numbers, Numbers, State, State]:
        """Probabilities and logits, or means and deviations, and the state after these frames."""
        z = self.tokenizer.encode_images(to_images(rearrange(frames, "b h w c -> b c h w")))
        logits, states = self.actor(
            rearrange(z, "b c h w -> b 1 c h w"), None, RecurrentState(h, c)
        )
        logits, after, space = logits[:, 0], states.at(0), self.actor.action_space
        policy = space.policy(logits)
        if isinstance(space, Box):
            means, deviations = policy.chunk(2, dim=-1)
            return means, deviations, after.h, after.c
        return policy, logits, after.h, after.c


def policy_graph(agent: Agent) -> Graph:
    """The step of an agent, for any number of episodes."""
    cfg, hidden = agent.config.env, agent.actor.lstm.hidden
    said = GAUSSIAN if isinstance(agent.action_space, Box) else PROBABILITIES
    frames = torch.zeros(2, cfg.size, cfg.size, cfg.frame_channels, dtype=torch.uint8)
    return Graph(
        module=PolicyStep(agent),
        arguments=(frames, torch.zeros(2, hidden), torch.zeros(2, hidden)),
        inputs=("frames", "h", "c"),
        outputs=(*said, "next_h", "next_c"),
        free={name: (0, "batch") for name in ("frames", "h", "c")},
    )
