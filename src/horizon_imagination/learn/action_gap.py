"""Whether the denoiser uses its actions: how much its error rises when it is told a wrong one.

A world model that ignores actions can have a small loss and good pictures, and no policy can learn
in it. This figure tells the two apart.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.flow import interpolate, uniform_noise, velocity_error
from horizon_imagination.learn.world_model import Experience
from horizon_imagination.models.denoiser import Denoiser

FRAMES = 32
"""At least so many are asked about."""
TINY = 1e-12
"""In the place of no error: where no segment has a second frame, there is no gap."""


@torch.no_grad()
def action_gap(
    denoiser: Denoiser, sample: Callable[[], Experience], rng: torch.Generator
) -> Float[Tensor, ""]:
    """Error with a wrong action over the error with the true one, less 1.

    Each segment is asked for one frame, all noise after clean frames; 0 means that it does not
    matter what was done. All draws are the CPU's.
    """
    errors, asked = [], 0
    while asked < FRAMES:
        batch = sample()
        errors.append(torch.stack(_errors(denoiser, batch, rng)))
        asked += len(batch.z)
    true, wrong = torch.stack(errors).sum(0)
    return (wrong - true) / true.clamp(min=TINY)


def _errors(
    denoiser: Denoiser, batch: Experience, rng: torch.Generator
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    (samples, length), device = batch.mask.shape, batch.z.device
    rows, last = torch.arange(samples, device=device), batch.mask.sum(1) - 1
    share = torch.rand(samples, generator=rng).to(device)
    place = torch.minimum((1 + share * last).long(), last)
    tau = (torch.arange(length, device=device) != place[:, None]).float()
    noise = uniform_noise(*batch.z.shape, rng=rng).to(device)
    other = batch.prev_actions.clone()
    other[rows, place] = denoiser.action_space.another(other[rows, place], rng)
    noisy, counted = interpolate(noise, batch.z, tau), last > 0
    found = []
    for actions in (batch.prev_actions, other):
        error = velocity_error(denoiser(noisy, tau, actions).float(), noise, batch.z)
        found.append((error[rows, place] * counted).sum())
    return found[0], found[1]
