"""Catch as a world model whose velocities are exact: no tokenizer, no denoiser, nothing to learn.

Latents are the board itself, a pixel per cell. Given a clean frame and the actions after it, every
later board is certain, so the velocity that a perfect denoiser would learn is known:
v = (z^1 - z) / (1 - tau). A controller that does not learn here has no world model to blame.
"""

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from horizon_imagination.envs.catch import BACKGROUND, BALL, COLOURS, PADDLE
from horizon_imagination.models.tokenizer import to_frames, to_images
from horizon_imagination.types import Actions, Flags, Frames, Latents, Scalars, Times

Columns = Int[Tensor, "batch time"]


class ExactCatch:
    """A `WorldModel` of `catch` (8 cells) or `small-catch` (4), for frames of any size.

    It reads the first frame of a sequence, so contexts of one frame are all it needs
    (`imagination.context` 1).
    """

    def __init__(self, cells: int, size: int) -> None:
        self.cells, self.size = cells, size
        self.colours = to_images(torch.from_numpy(COLOURS))

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """RGB of every cell."""
        return 3, self.cells, self.cells

    def encode(self, frames: Frames) -> Float[Tensor, "batch time 3 _ _"]:
        """The pixel in the middle of every cell."""
        middle = (torch.arange(self.cells) * 2 + 1) * frames.shape[-1] // (2 * self.cells)
        return to_images(frames[..., middle, :][..., middle])

    def decode(self, z: Latents) -> UInt8[Tensor, "batch time channel _ _"]:
        """Every cell as a square."""
        cell = torch.arange(self.size, device=z.device) * self.cells // self.size
        return to_frames(z[..., cell, :][..., cell])

    def velocity(
        self, z: Latents, tau: Times, prev_actions: Actions, real: Flags | None = None
    ) -> Latents:
        """Straight to the board that the actions lead to."""
        rest = rearrange(1 - tau, "b t -> b t 1 1 1")
        towards = self.future(z[:, :1], prev_actions) - z
        return torch.where(rest > 0, towards / rest.where(rest > 0, 1.0), 0.0)

    def reward_and_end(self, z: Latents, real: Flags | None = None) -> tuple[Scalars, Scalars]:
        """A ball in the lowest row ends the episode; if it hides the paddle, it was caught."""
        row, _, paddle_seen = self._read(z)
        landed = (row == self.cells - 1).float()
        return landed * torch.where(paddle_seen, -1.0, 1.0), landed

    def future(
        self, first: Float[Tensor, "batch 1 3 cells cells"], prev_actions: Actions
    ) -> Float[Tensor, "batch time 3 cells cells"]:
        """The true boards, from the first one and the actions that lead to those after it."""
        steps = torch.arange(prev_actions.shape[1], device=first.device)
        row, column, seen = self._read(first)
        lowest = rearrange(first[:, :, :, -1], "b t c x -> b t x c")
        blue = lowest[..., 2].argmax(-1)
        paddle = [torch.where(seen, blue, column)[:, 0]]
        for action in prev_actions[:, 1:].unbind(1):
            paddle.append((paddle[-1] + action - 1).clamp(0, self.cells - 1))
        rows = (row + steps).clamp(max=self.cells - 1)
        return self._draw(rows, column.expand_as(rows), torch.stack(paddle, dim=1))

    def _read(self, z: Latents) -> tuple[Columns, Columns, Flags]:
        """Row and column of the ball, the reddest cell, and whether the paddle is seen."""
        ball = rearrange(z[:, :, 0], "b t y x -> b t (y x)").argmax(-1)
        return ball // self.cells, ball % self.cells, z[:, :, 2, -1].amax(-1) > 0

    def _draw(self, row: Columns, column: Columns, paddle: Columns) -> Latents:
        grid = torch.arange(self.cells, device=row.device)
        at_row, at_column, at_paddle = (
            rearrange(x, "b t -> b t 1") == grid for x in (row, column, paddle)
        )
        board = torch.full((*row.shape, self.cells, self.cells), BACKGROUND, device=row.device)
        board[:, :, -1] = torch.where(at_paddle, PADDLE, board[:, :, -1])
        at_ball = repeat(at_row, "b t y -> b t y 1") & repeat(at_column, "b t x -> b t 1 x")
        board = torch.where(at_ball, BALL, board)
        return rearrange(self.colours.to(row.device)[board], "b t y x c -> b t c y x")
