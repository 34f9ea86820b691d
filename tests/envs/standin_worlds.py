"""Worlds that tests build by name (`standin_worlds:Name`): odd observations, odd manners."""

import os
import time
from types import SimpleNamespace

import gymnasium
import numpy as np
from gymnasium import spaces


class Painted(gymnasium.Env):
    """A still picture in any layout; four steps; the reward is the action."""

    PICTURE = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)

    def __init__(self, layout: str = "hwc", kind: str = "uint8", start: int = 0) -> None:
        picture = self.PICTURE
        if "grey" in layout:
            picture = picture[:, :, :1]
        if "chw" in layout:
            picture = picture.transpose(2, 0, 1)
        if "hw_" in layout:
            picture = picture[:, :, 0]
        high = {"uint8": 255, "unit": 1.0, "float255": 255.0}[kind]
        if kind != "uint8":
            picture = picture.astype(np.float32) / (255 if kind == "unit" else 1)
        box = spaces.Box(0, high, picture.shape, picture.dtype.type)
        self.picture, self.layout = picture, layout
        self.observation_space = (
            spaces.Dict({"image": box, "text": spaces.Discrete(3)}) if "dict" in layout else box
        )
        self.action_space = spaces.Discrete(3, start=start)
        self.start, self.steps = start, 0

    def _observe(self):
        return {"image": self.picture, "text": 1} if "dict" in self.layout else self.picture

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self._observe(), {"seed": seed}

    def step(self, action):
        assert self.start <= action < self.start + 3
        self.steps += 1
        return self._observe(), float(action), self.steps == 4, False, {}


class Saved(Painted):
    """Takes part in snapshots."""

    def layer_state(self):
        return {"steps": self.steps}

    def set_layer_state(self, state):
        self.steps = state["steps"]


class TwoPictures(gymnasium.Env):
    observation_space = spaces.Dict(
        {name: spaces.Box(0, 255, (16, 16, 3), np.uint8) for name in ("left", "right")}
    )
    action_space = spaces.Discrete(2)


class Continuous(gymnasium.Env):
    observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)
    action_space = spaces.Box(-1, 1, (2,))


class Old:
    """The old interface, with spaces of no known package."""

    observation_space = SimpleNamespace(shape=(16, 16, 3), dtype=np.uint8, low=0, high=255)
    action_space = SimpleNamespace(n=2)

    def __init__(self, limit: bool = False):
        self.limit, self.seeds = limit, []

    def seed(self, seed):
        self.seeds.append(seed)

    def reset(self):
        self.steps = 0
        return np.zeros((16, 16, 3), np.uint8)

    def step(self, action):
        self.steps += 1
        done = self.steps == 3
        info = {"TimeLimit.truncated": True} if done and self.limit else {}
        return np.full((16, 16, 3), self.steps, np.uint8), 1.0, done, info


class Fragile(gymnasium.Env):
    """Misbehaves in the way asked for at one step of each of its lives."""

    observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self, how: str = "", at: int = 3, length: int = 1000) -> None:
        self.how, self.at, self.length, self.lifetime = how, at, length, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        if self.how == "reset":
            raise OSError("no world today")
        return np.zeros((16, 16, 3), np.uint8), {"pid": os.getpid()}

    def step(self, action):
        self.steps += 1
        self.lifetime += 1
        frame, reward = np.full((16, 16, 3), self.steps % 256, np.uint8), 1.0
        if self.lifetime == self.at:
            match self.how:
                case "exit":
                    os._exit(3)
                case "raise":
                    raise RuntimeError("the engine is gone")
                case "hang":
                    time.sleep(1e6)
                case "shape":
                    frame = frame[:8]
                case "reward":
                    reward = float("nan")
        return frame, reward, self.steps == self.length, False, {"pid": os.getpid()}
