"""Returns, advantages and what they are masked and scaled by (appendix, actor-critic)."""

import torch
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.types import Flags, Scalars

NORMAL_95 = 1.6448536
"""The 95th percentile of the standard normal distribution."""


def symlog(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """sign(x) log(|x| + 1).

    >>> symlog(torch.tensor([0.0, 1.0, -1.0]))
    tensor([ 0.0000,  0.6931, -0.6931])
    """
    return torch.sign(x) * torch.log1p(torch.abs(x))


def symexp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """sign(x) (exp(|x|) - 1), the inverse of symlog."""
    return torch.sign(x) * torch.expm1(torch.abs(x))


def lambda_returns(
    rewards: Scalars,
    terminated: Flags,
    values: Float[Tensor, "batch time+1"],
    *,
    discount: float,
    lambda_: float,
) -> Scalars:
    """G_t = r_t + gamma (1 - d_t) [(1 - lambda) V_{t+1} + lambda G_{t+1}],  G_H = V_H.

    H rewards, H + 1 values: the last value belongs to the frame after the last reward.

    >>> lambda_returns(torch.ones(1, 3), torch.zeros(1, 3).bool(), torch.full((1, 4), 100.0),
    ...                discount=0.99, lambda_=0.95)
    tensor([[100., 100., 100.]])
    """
    live = discount * (~terminated).to(values.dtype)
    returns = []
    g = values[:, -1]
    for t in reversed(range(rewards.shape[1])):
        g = rewards[:, t] + live[:, t] * torch.lerp(values[:, t + 1], g, lambda_)
        returns.append(g)
    return torch.stack(returns[::-1], dim=1)


def until_first_end(terminated: Flags) -> Flags:
    """True up to and including the step of the first end.

    >>> until_first_end(torch.tensor([[False, True, False, True]])).int()
    tensor([[1, 1, 0, 0]], dtype=torch.int32)
    """
    ends_before = terminated.int().cumsum(dim=1) - terminated.int()
    return ends_before == 0


def return_range(returns: Scalars, mask: Flags) -> Float[Tensor, ""]:
    """The distance between the 5th and the 95th percentile of the valid returns."""
    valid = torch.where(mask, returns, torch.nan).flatten()
    return torch.nanquantile(valid, 0.95) - torch.nanquantile(valid, 0.05)


def normal_range(returns: Scalars, mask: Flags) -> Float[Tensor, ""]:
    """The same distance in a normal distribution with the deviation of the valid returns.

    Where few returns are large, percentiles miss them, and the deviation does not:

    >>> returns = torch.tensor([[100.0] + 99 * [0.0]])
    >>> return_range(returns, returns >= 0), normal_range(returns, returns >= 0)
    (tensor(0.), tensor(32.7322))
    """
    count = mask.sum().clamp(min=1)
    mean = (returns * mask).sum() / count
    variance = ((returns - mean).square() * mask).sum() / count
    return 2 * NORMAL_95 * variance.sqrt()


def update_return_scale(
    scale: Float[Tensor, ""], observed: Float[Tensor, ""], decay: float
) -> Float[Tensor, ""]:
    """S <- (1 - decay) S + decay range; the first range (S is nan before it) is taken whole."""
    return torch.where(scale.isnan(), observed, torch.lerp(scale, observed, decay))


def advantages(returns: Scalars, values: Scalars, scale: Float[Tensor, ""]) -> Scalars:
    """A_t = (G_t - V_t) / max(1, S), without gradient."""
    return ((returns - values) / scale.clamp(min=1)).detach()
