"""Catch in fog: a world that needs memory, and moves made long before they pay."""

import numpy as np

from horizon_imagination.envs.catch import FOG, Board, Catch, inside

FIRST_FOG_ROW = 2


class Fog(Catch):
    """The ball is seen for two frames, vanishes in fog, and comes out as it lands.

    * *Partial view*: in five of seven steps the ball is hidden behind the fog.
    * *Stochastic*: a gust moves it by -1, 0 or +1 column (a third each; walls stop it) between the
      two frames in which it is seen. In the fog it falls straight.
    * *Delayed reward*: +1 caught or -1 missed, at the landing.

    With memory every ball can be caught: the best return is 1. Without it the fog shows only the
    paddle, so all that a policy can know there is what the paddle's column tells. Two moves are
    made in sight of the ball; from column p they reach at most 3, 4, 5, 5, 5, 5, 4, 3 columns, and
    each leads to one landing place: no policy without memory catches more than 17 / 32 of the
    balls, a return of 1 / 16. The random return is -0.75, as in Catch.
    """

    MEMORYLESS_BOUND = 1 / 16

    def _fall(self) -> None:
        if self.row == 0:
            self.column = inside(self.column + int(self.np_random.integers(-1, 2)), self.CELLS)
        self.row += 1

    def _board(self) -> Board:
        board = super()._board()
        board[FIRST_FOG_ROW : self.CELLS - 1] = np.uint8(FOG)
        return board


class SmallFog(Fog):
    """Catch in fog on a board of 6 x 6 cells, five steps, three of them in fog.

    The random return is 2 / 6 - 1. Two moves in sight of the ball reach 3, 4, 5, 5, 4, 3 columns:
    no policy without memory catches more than 24 / 36 of the balls, a return of 1 / 3.
    """

    CELLS = 6
    RANDOM_RETURN = 2 / 6 - 1
    MEMORYLESS_BOUND = 1 / 3
