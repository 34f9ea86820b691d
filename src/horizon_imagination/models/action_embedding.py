"""Embeddings of previous actions for the denoiser, one kind per action space."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from horizon_imagination.actions import ActionSpace, Box, Discrete, MultiDiscrete
from horizon_imagination.types import Actions, is_action

Embedded = Float[Tensor, "batch time dim"]
TURNS = 4
"""Sines and cosines of each entry of a vector: up to so many half turns from end to end."""


class DiscreteEmbedding(nn.Embedding):
    """A vector per action; the last one stands for no action."""

    def __init__(self, space: Discrete, dim: int) -> None:
        super().__init__(space.n + 1, dim)

    def start(self, std: float) -> None:
        """Draw the vectors anew, with this deviation."""
        nn.init.normal_(self.weight, std=std)

    def forward(self, input: Actions) -> Embedded:
        return super().forward(input % self.num_embeddings)  # NO_ACTION is -1: the last


class FactorEmbedding(nn.Module):
    """The sum of a vector per factor."""

    def __init__(self, space: MultiDiscrete, dim: int) -> None:
        super().__init__()
        self.factors = nn.ModuleList(DiscreteEmbedding(part, dim) for part in space.parts)

    def start(self, std: float) -> None:
        """Draw the vectors anew, so that their sum has this deviation."""
        for weight in self.factors.parameters():
            nn.init.normal_(weight, std=std * len(self.factors) ** -0.5)

    def forward(self, actions: Actions) -> Embedded:
        """Summed over the factors."""
        each = zip(self.factors, actions.unbind(-1), strict=True)
        return torch.stack([factor(action) for factor, action in each]).sum(0)


class BoxEmbedding(nn.Module):
    """A linear map of the entries and of their sines and cosines; a vector for no action."""

    def __init__(self, space: Box, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear((2 * TURNS + 1) * len(space.low), dim, bias=False)
        self.none = nn.Parameter(torch.empty(dim))
        self.start(1.0)

    def start(self, std: float) -> None:
        """Draw the weights anew, for embeddings of this deviation."""
        # About half of the squares of the features: sin^2 + cos^2 = 1.
        nn.init.normal_(self.linear.weight, std=std * (self.linear.in_features / 2) ** -0.5)
        nn.init.normal_(self.none, std=std)

    def forward(self, actions: Actions) -> Embedded:
        """Of vectors scaled to [-1, 1]."""
        turns = torch.arange(1, TURNS + 1, device=actions.device)
        angle = torch.pi / 2 * rearrange(actions, "b t d -> b t d 1") * turns
        features = torch.cat([actions[..., None], angle.sin(), angle.cos()], dim=-1)
        known = self.linear(rearrange(features, "b t d f -> b t (d f)").to(self.none.dtype))
        return torch.where(is_action(actions[..., :1]), known, self.none)


def action_embedding(
    space: ActionSpace, dim: int
) -> DiscreteEmbedding | FactorEmbedding | BoxEmbedding:
    """The embedding that belongs to a space."""
    if isinstance(space, Discrete):
        return DiscreteEmbedding(space, dim)
    return (
        FactorEmbedding(space, dim)
        if isinstance(space, MultiDiscrete)
        else BoxEmbedding(space, dim)
    )
