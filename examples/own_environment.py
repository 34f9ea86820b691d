"""An environment of your own: any gymnasium.Env class with pictures and an action space."""

import sys
from dataclasses import replace

import gymnasium
import numpy as np

import horizon_imagination as hi
from horizon_imagination.presets import PRESETS


class Lights(gymnasium.Env):
    """One of two halves is lit; the action that names it pays 1. Four steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.lit = 4, int(self.np_random.integers(2))
        return self.picture(), {}

    def step(self, action):
        reward, self.left = float(action == self.lit), self.left - 1
        self.lit = int(self.np_random.integers(2))
        return self.picture(), reward, self.left == 0, False, {}

    def picture(self):
        frame = np.full((16, 16, 3), 20, np.uint8)
        frame[:, 8 * self.lit : 8 * self.lit + 8] = 220
        return frame


if __name__ == "__main__":
    config = PRESETS[sys.argv[2]][1]  # "demo" learns; "debug" shows that it runs
    training = replace(config.training, epochs=int(sys.argv[3]), strips_every=0)
    config = replace(config, env=replace(config.env, size=32), training=training)
    run = hi.train(config, env=Lights, out=sys.argv[1])
    print(f"return {run.agent.evaluate(10).mean:.2f} after {run.epochs} epochs; best 4, random 2")
