"""Worlds whose actions are vectors: two whole numbers, and two numbers between uneven bounds."""

import gymnasium
import numpy as np
from gymnasium import spaces

from horizon_imagination.actions import Box, MultiDiscrete

WORLDS = {"Valves": Box((-2.0, 0.5), (2.0, 30.0)), "Lamp": MultiDiscrete((3, 2))}
"""The action spaces of the worlds below, as an agent has them."""


class Lamp(gymnasium.Env):
    """A step pays 1 for the colour that the frame shows, and 1 more for switching it on."""

    observation_space = spaces.Box(0, 255, (32, 32, 3), np.uint8)
    action_space: spaces.Space = spaces.MultiDiscrete([3, 2])
    names = ("colour", "switch")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.render(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        reward = self.worth(*action)
        self.steps += 1
        return self.render(), reward, self.steps == 4, False, {}

    def worth(self, first, second):
        """What an action pays."""
        return float(first == self.colour) + float(second)

    def get_action_meanings(self):
        """What the entries of an action are called."""
        return list(self.names)

    def render(self):
        """One of three colours, with some noise."""
        self.colour = int(self.np_random.integers(3))
        frame = self.np_random.integers(0, 120, (32, 32, 3))
        frame[..., self.colour] += 130
        return frame.astype(np.uint8)


class Valves(Lamp):
    """The first number pays for being near the colour's, the second for being small."""

    action_space = spaces.Box(np.float32([-2.0, 0.5]), np.float32([2.0, 30.0]))
    names = ("cold", "hot")

    def worth(self, first, second):
        return -float(np.square(first - self.colour + 1)) - float(second)
