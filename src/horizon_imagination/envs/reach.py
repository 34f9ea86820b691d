"""The smallest world of continuous actions: a point is moved onto a target."""

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float64, UInt8

from horizon_imagination.actions import Box
from horizon_imagination.envs.state import State, rng_state, set_rng_state
from horizon_imagination.errors import UsageError

BACKGROUND, TARGET, POINT = np.array([(16, 18, 40), (250, 200, 60), (70, 190, 250)], np.float64)
SIDE = 0.2
"""Side of the squares that stand for point and target, as a share of the frame."""

Position = Float64[np.ndarray, " axis"]
Frame = UInt8[np.ndarray, "height width 3"]


def best_return(axes: int, steps: int, reach: float) -> float:
    """The expected return of going straight to the target, which is the best there is.

    Point and target are uniform in [-1, 1] and independent, so the distance x on an axis has the
    density (2 - x) / 2, and after k steps x - k reach of it is left, if anything. The mean square
    of that is the integral of (x - m)^2 (2 - x) / 2 from m = k reach to 2: (2 - m)^4 / 24.

    >>> best_return(axes=1, steps=2, reach=1.0) == -1 / 24
    True
    """
    left = (max(0.0, 2 - k * reach) for k in range(1, steps + 1))
    return -axes * sum(x**4 for x in left) / 24


class Reach(gymnasium.Env):
    """Minus the squared distance from the target after every step; four steps, two numbers.

    Places go from -1 to 1 on each axis. An action moves the point by up to 0.6; walls stop it. The
    target stays where it is. `best_return` is analytic; the random return is measured (400,000
    episodes).
    """

    AXES, STEPS, REACH = 2, 4, 0.6
    ACTIONS = Box((-1.0, -1.0), (1.0, 1.0))
    RANDOM_RETURN = -5.96
    BEST_RETURN = best_return(2, 4, 0.6)

    def __init__(self, size: int = 64, seed: int = 0) -> None:
        if size < 16:
            raise UsageError(f"env.size {size} is too small: the world needs at least 16")
        self.size = size
        self.render_mode = "rgb_array"
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.AXES,), np.float32)
        self.np_random = np.random.default_rng(seed)
        self.steps = self.STEPS  # ended: a reset is due
        self.point, self.target = np.zeros(self.AXES), np.zeros(self.AXES)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self.point, self.target = self.np_random.uniform(-1, 1, (2, self.AXES))
        self.steps = 0
        return self.render(), {}

    def step(self, action: Any) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        if self.steps == self.STEPS:
            raise gymnasium.error.ResetNeeded("the episode has ended: call reset() before step()")
        if problem := self.ACTIONS.problem(action):
            raise UsageError(problem)
        move = np.clip(np.asarray(action, np.float64).reshape(self.AXES), -1, 1)
        self.point = np.clip(self.point + self.REACH * move, -1, 1)
        self.steps += 1
        reward = -float(np.square(self.point - self.target).sum())
        return self.render(), reward, self.steps == self.STEPS, False, {}

    def get_action_meanings(self) -> list[str]:
        """What the entries of an action are called."""
        return ["right", "down"][: self.AXES]

    def render(self) -> Frame:
        """The frame the agent sees: two squares, drawn to a fraction of a pixel."""
        frame = np.broadcast_to(BACKGROUND, (self.size, self.size, 3))
        for colour, place, row in ((TARGET, self.target, -1.0), (POINT, self.point, 1.0)):
            down = place[-1] if self.AXES > 1 else row  # on a line, the target is above the point
            cover = np.outer(_cover(down, self.size), _cover(place[0], self.size))[..., None]
            frame = frame * (1 - cover) + colour * cover
        return np.rint(frame).astype(np.uint8)

    def layer_state(self) -> State:
        """The whole state of the world, random numbers included."""
        return {
            "steps": self.steps,
            "point": self.point.tolist(),
            "target": self.target.tolist(),
            "rng": rng_state(self.np_random),
        }

    def set_layer_state(self, state: State) -> None:
        """The inverse of `layer_state`."""
        self.steps = state["steps"]
        self.point, self.target = np.array(state["point"]), np.array(state["target"])
        set_rng_state(self.np_random, state["rng"])


class SmallReach(Reach):
    """On a line, three steps: learned in a fraction of the time."""

    AXES, STEPS, REACH = 1, 3, 0.8
    ACTIONS = Box((-1.0,), (1.0,))
    RANDOM_RETURN = -2.34
    BEST_RETURN = best_return(1, 3, 0.8)


def _cover(place: float, size: int) -> Float64[np.ndarray, " size"]:
    """How much of each pixel along an axis a square covers, its middle between the walls."""
    first = (place + 1) / 2 * (1 - SIDE) * size
    edges = np.arange(size)
    return np.clip(np.minimum(edges + 1, first + SIDE * size) - np.maximum(edges, first), 0, 1)
