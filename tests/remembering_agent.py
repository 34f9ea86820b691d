"""An agent whose actions depend on what it remembers, and on no dice."""

import torch
from einops import rearrange

from horizon_imagination.agent import Agent
from horizon_imagination.config import Config


@torch.no_grad()
def remembering_agent(config: Config) -> Agent:
    """Untrained, with a head that magnifies the differences between states of its memory.

    An untrained actor does the same whatever it saw. Here the logits are the three main directions
    in which states differ after random frames, so large that the policy is as good as certain.
    """
    agent = Agent(config, 3, torch.device("cpu"))
    size, rng = config.env.size, torch.Generator().manual_seed(0)
    shades = torch.randint(256, (64 * 4, 3, 1, 1), generator=rng).expand(-1, 3, size, size)
    z = agent.encode(shades.to(torch.uint8))
    states = agent.actor(rearrange(z, "(b t) c h w -> b t c h w", t=4))[1].h.flatten(0, 1)
    mean = states.mean(0)
    directions = torch.linalg.svd(states - mean, full_matrices=False).Vh[:3]
    scores = (states - mean) @ directions.T
    head = agent.actor.head
    head.weight.copy_(1e5 * directions / rearrange(scores.std(0), "a -> a 1"))
    head.bias.copy_(-head.weight @ mean)
    return agent
