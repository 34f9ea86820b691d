"""A world small enough to solve: a falling dot, its exact velocity field, a policy that steers it.

The dot falls one line per frame and moves with the action, left, straight or right, around the
edges. Given a clean first frame and the actions, every later frame is certain, so the velocity
that a perfectly trained denoiser would learn is known: v = (z^1 - z) / (1 - tau).
"""

import torch
from einops import rearrange, reduce
from jaxtyping import Float, Int
from torch import Tensor

from horizon_imagination.types import Actions, Latents, Times

SIZE = 8
MOVES = (-1, 0, 1)
"""Columns that each action moves the dot by."""


def render(
    line: Int[Tensor, "batch time"], column: Int[Tensor, "batch time"]
) -> Float[Tensor, "batch time 1 height width"]:
    """Frames of -1 with the dot at +1."""
    grid = torch.arange(SIZE, device=line.device)
    at_line = rearrange(line % SIZE, "b t -> b t 1 1 1") == rearrange(grid, "h -> h 1")
    at_column = rearrange(column % SIZE, "b t -> b t 1 1 1") == grid
    return (at_line & at_column).float() * 2 - 1


def locate(z: Latents) -> tuple[Int[Tensor, "batch time"], Int[Tensor, "batch time"]]:
    """Line and column of the brightest pixel."""
    brightest = rearrange(z, "b t 1 h w -> b t (h w)").argmax(-1)
    return brightest // SIZE, brightest % SIZE


def future(
    first: Float[Tensor, "batch 1 1 height width"], prev_actions: Actions
) -> Float[Tensor, "batch time 1 height width"]:
    """The true frames, from the first one and the actions that lead to those after it."""
    line, column = locate(first)
    moves = torch.tensor(MOVES, device=first.device)[prev_actions[:, 1:]]
    steps = torch.cat([torch.zeros_like(line), moves], dim=1).cumsum(1)
    return render(line + torch.arange(steps.shape[1], device=first.device), column + steps)


def exact_velocity(z: Latents, tau: Times, prev_actions: Actions) -> Latents:
    """The velocity field of the world, for sequences whose first frame is clean."""
    rest = rearrange(1 - tau, "b t -> b t 1 1 1")
    towards = future(z[:, :1], prev_actions).to(z.dtype) - z
    return torch.where(rest > 0, towards / rest.where(rest > 0, 1.0), 0.0)


def steer(z: Latents, tau: Times, *, target: int = SIZE // 2) -> Float[Tensor, "batch time action"]:
    """A policy that leads the dot to a column, as sure of it as it can see the dot.

    It believes in columns by their brightness, the more the cleaner the frame, and prefers the
    move that the believed column asks for.
    """
    brightness = reduce(z, "b t 1 h w -> b t w", "max")
    belief = torch.softmax(8 * rearrange(tau, "b t -> b t 1") * brightness, dim=-1)
    wanted = torch.sign(target - torch.arange(SIZE, device=z.device)) + 1
    prefers = torch.nn.functional.one_hot(wanted, len(MOVES)).to(belief)
    return 0.05 / len(MOVES) + 0.95 * belief @ prefers
