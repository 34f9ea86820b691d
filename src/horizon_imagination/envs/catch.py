"""The smallest world worth imagining: a ball falls, a paddle catches it."""

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import UInt8

from horizon_imagination.actions import Discrete
from horizon_imagination.envs.state import State, rng_state, set_rng_state
from horizon_imagination.errors import UsageError

CELLS = 8
"""Rows and columns of the board, unless a world has its own."""

BACKGROUND, BALL, PADDLE, FOG = range(4)
COLOURS = np.array([(16, 18, 40), (250, 200, 60), (70, 190, 250), (110, 112, 120)], dtype=np.uint8)

Board = UInt8[np.ndarray, "cells cells"]
Frame = UInt8[np.ndarray, "height width 3"]


def render(board: Board, size: int) -> Frame:
    """The board's cells as flat coloured squares, `size` pixels high and wide."""
    cell = np.arange(size) * len(board) // size
    return COLOURS[board[cell][:, cell]]


class Catch(gymnasium.Env):
    """+1 if the paddle is under the ball when it lands, else -1; seven steps, three actions.

    Actions: 0 left, 1 stay, 2 right. The paddle can reach the ball from every start, so the best
    return is 1. A paddle that moves at random is anywhere with equal chance: the random return is
    2 / 8 - 1 = -0.75.
    """

    CELLS = CELLS
    ACTIONS = Discrete(3)
    RANDOM_RETURN = -0.75
    BEST_RETURN = 1.0

    def __init__(self, size: int = 64, seed: int = 0) -> None:
        if size < self.CELLS:
            raise UsageError(f"env.size {size} is too small: the board needs at least {self.CELLS}")
        self.size = size
        self.render_mode = "rgb_array"
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.np_random = np.random.default_rng(seed)
        self.row, self.column, self.paddle = self.CELLS - 1, 0, 0  # ended: a reset is due

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self.row = 0
        self.column, self.paddle = (int(x) for x in self.np_random.integers(self.CELLS, size=2))
        return self.render(), {}

    def step(self, action: int | np.integer) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        if self.row == self.CELLS - 1:
            raise gymnasium.error.ResetNeeded("the episode has ended: call reset() before step()")
        if not 0 <= action < 3:
            raise UsageError(
                f"action {action} is unknown: expected 0 (left), 1 (stay) or 2 (right)"
            )
        self.paddle = inside(self.paddle + int(action) - 1, self.CELLS)
        self._fall()
        landed = self.row == self.CELLS - 1
        reward = (1.0 if self.paddle == self.column else -1.0) if landed else 0.0
        return self.render(), reward, landed, False, {}

    def get_action_meanings(self) -> list[str]:
        """What the actions are called."""
        return ["left", "stay", "right"]

    def render(self) -> Frame:
        """The frame the agent sees."""
        return render(self._board(), self.size)

    def layer_state(self) -> State:
        """The whole state of the world, random numbers included."""
        return {
            "row": self.row,
            "column": self.column,
            "paddle": self.paddle,
            "rng": rng_state(self.np_random),
        }

    def set_layer_state(self, state: State) -> None:
        """The inverse of `layer_state`."""
        self.row, self.column, self.paddle = state["row"], state["column"], state["paddle"]
        set_rng_state(self.np_random, state["rng"])

    def _fall(self) -> None:
        self.row += 1

    def _board(self) -> Board:
        board = np.full((self.CELLS, self.CELLS), BACKGROUND, dtype=np.uint8)
        board[self.CELLS - 1, self.paddle] = PADDLE
        board[self.row, self.column] = BALL  # last: a caught ball hides the paddle
        return board


class SmallCatch(Catch):
    """Catch on a board of 4 x 4 cells, three steps: learned in a fraction of the time.

    The random return is 2 / 4 - 1 = -0.5, the best one 1.
    """

    CELLS = 4
    RANDOM_RETURN = -0.5


def inside(column: int, cells: int) -> int:
    """The column, stopped by the walls."""
    return min(max(column, 0), cells - 1)
