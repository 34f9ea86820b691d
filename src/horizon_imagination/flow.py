"""Rectified flow with a time per frame (Eq. 1): noise at tau = 0, data at tau = 1."""

import torch
from einops import rearrange, reduce
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.types import Flags, Latents, Times


def uniform_noise(*shape: int, rng: torch.Generator) -> Float[Tensor, "..."]:
    """z^0 ~ U[-1, 1], the range of the tanh latents."""
    return torch.rand(*shape, generator=rng, device=rng.device) * 2 - 1


def interpolate(z0: Latents, z1: Latents, tau: Times) -> Latents:
    """z^tau = tau z^1 + (1 - tau) z^0."""
    tau = rearrange(tau, "b t -> b t 1 1 1")
    return tau * z1 + (1 - tau) * z0


def sample_times(
    batch: int, horizon: int, rng: torch.Generator, clean_prob: float = 0.2, max_clean: float = 0.7
) -> Times:
    """Independent times per frame; a share of the rows gets a clean prefix of length c >= 1.

    c is uniform on 1 .. floor(max_clean * horizon).
    """
    longest = max(1, int(max_clean * horizon + 1e-9))
    c = 1 + (_rand(batch, 1, rng=rng) * longest).floor()
    prefix = torch.arange(horizon, device=rng.device) < c
    clean = prefix & (_rand(batch, 1, rng=rng) < clean_prob)
    return _rand(batch, horizon, rng=rng).masked_fill(clean, 1.0)


def sweep_times(batch: int, horizon: int, context: int, rng: torch.Generator) -> Times:
    """Times as imagination meets them: a clean context, then a row of a random Horizon schedule.

    The decay horizon is log-uniform in [1, H], the place of the row in the sweep uniform.
    """
    imagined = horizon - context
    decay = imagined ** _rand(batch, 1, rng=rng)
    place = _rand(batch, 1, rng=rng) * (1 + (imagined - 1) / decay)
    tau = (place - torch.arange(imagined, device=rng.device) / decay).clamp(0, 1)
    return torch.cat([torch.ones(batch, context, device=rng.device), tau], dim=1)


def trainable(tau: Times, mask: Flags, noise_ahead: int | None = None) -> Flags:
    """Frames that teach the denoiser: not padding, and not clean.

    At tau = 1 the target z^1 - z^0 holds noise that the input does not show. With `noise_ahead`,
    of the frames at tau = 0 only the first so many teach: what follows pure noise cannot be told,
    and imagination does not ask for it.

    >>> tau = torch.tensor([[1.0, 0.5, 0.0, 0.0, 0.0]])
    >>> trainable(tau, tau >= 0, noise_ahead=2)
    tensor([[False,  True,  True,  True, False]])
    """
    taught = mask & (tau < 1)
    if noise_ahead is None:
        return taught
    return taught & ((tau == 0).cumsum(1) <= noise_ahead)


def velocity_error(v: Latents, z0: Latents, z1: Latents) -> Times:
    """|v - (z^1 - z^0)|^2 of every frame, averaged over its elements."""
    return reduce((v - (z1 - z0)).square(), "b t c h w -> b t", "mean")


def velocity_loss(v: Latents, z0: Latents, z1: Latents, mask: Flags) -> Float[Tensor, ""]:
    """The mean error over the frames of the mask; pass `trainable(tau, mask)`."""
    return (velocity_error(v, z0, z1) * mask).sum() / mask.sum().clamp(min=1)


def _rand(*shape: int, rng: torch.Generator) -> Tensor:
    return torch.rand(*shape, generator=rng, device=rng.device)
