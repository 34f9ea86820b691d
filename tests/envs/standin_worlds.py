"""Worlds that tests build by name (`standin_worlds:Name`): odd observations, odd manners."""

import os
import subprocess
import sys
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


class Shown(gymnasium.Env):
    """Shows random values within its bounds; `values` are the bounds of what it really shows."""

    action_space = spaces.Discrete(2)

    def __init__(
        self, shape, dtype="uint8", bounds=(0, 255), values=None, shown_as=None,
        drawn_as="uint8", render_mode=None,
    ) -> None:  # fmt: skip
        self.render_mode, self.drawn_as = render_mode, drawn_as
        low, high = (np.inf * x if abs(x) > 1e9 else x for x in bounds)
        self.observation_space = spaces.Box(low, high, tuple(shape), np.dtype(dtype).type)
        least, most = values or bounds
        picture = np.random.default_rng(0).uniform(least, most, shape)
        self.picture = (picture > 0.5) if dtype == "bool" else picture.astype(shown_as or dtype)

    def reset(self, *, seed=None, options=None):
        return self.picture, {}

    def step(self, action):
        return self.picture, 0.0, False, False, {}

    def render(self):
        picture = self.picture.astype(self.drawn_as)
        return picture / 255 if self.drawn_as.startswith("float") else picture


class TwoPictures(gymnasium.Env):
    observation_space = spaces.Dict(
        {name: spaces.Box(0, 255, (16, 16, 3), np.uint8) for name in ("left", "right")}
    )
    action_space = spaces.Discrete(2)


class Unbounded(gymnasium.Env):
    observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)
    action_space = spaces.Box(-np.inf, np.inf, (2,))


class Composite(gymnasium.Env):
    observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)
    action_space = spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2,))))


class Steered(gymnasium.Env):
    """Shows the action it was given: `kind` is several (from 1 on), grid (a box of 2 x 2)."""

    observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)

    def __init__(self, kind: str = "several"):
        grid = spaces.Box(-2, 2, (2, 2), np.float64)
        several = spaces.MultiDiscrete([3, 2], start=np.array([1, 0]))
        self.action_space = several if kind == "several" else grid
        self.taken = []

    def reset(self, *, seed=None, options=None):
        return np.zeros((16, 16, 3), np.uint8), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.taken.append(action)
        return np.full((16, 16, 3), 9, np.uint8), 1.0, len(self.taken) % 4 == 0, False, {}


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
                case "stray":
                    os.write(int(sys.argv[1]), b"hello, I am the engine")
                case "half":
                    mark = bytes.fromhex(os.environ["HORIZON_ENV_MARK"])
                    os.write(int(sys.argv[1]), mark + (1000).to_bytes(8, "big") + b"the first")
                    time.sleep(1e6)
                case "memory":
                    self.hoard = np.ones(2**30)  # 8 GiB
                case "daemon":
                    asleep = ["python", "-c", "import time; time.sleep(1000)"]
                    reward = subprocess.Popen(
                        asleep, executable=sys.executable, start_new_session=True
                    ).pid
        return frame, reward, self.steps == self.length, False, {"pid": os.getpid()}


class Rude(gymnasium.Env):
    """Breaks Gymnasium's contract in the way asked for, at its second step."""

    observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self, how: str = "") -> None:
        self.how, self.steps = how, 0
        if how == "build":
            raise KeyError("no such level")
        if how == "exit early":
            sys.exit(3)
        self.frame = np.zeros((16, 16, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        if self.how == "bare reset":
            return self.frame
        if self.how == "reset":
            raise RuntimeError("the level\ncannot be read")
        return self.frame, None if self.how == "no info" else {}

    def step(self, action):
        self.steps += 1
        if self.steps < 2 or not self.how:
            return self.frame, 0.0, False, False, {}
        results = {
            "four": (self.frame, 0.0, False, {}),
            "one": self.frame,
            "reward text": (self.frame, "much", False, False, {}),
            "reward none": (self.frame, None, False, False, {}),
            "reward inf": (self.frame, float("inf"), False, False, {}),
            "reward huge": (self.frame, 1e39, False, False, {}),
            "flags": (self.frame, 0.0, np.zeros(2), False, {}),
            "shape": (self.frame[:8], 0.0, False, False, {}),
            "dtype": (self.frame.astype(str), 0.0, False, False, {}),
            "nothing": (None, 0.0, False, False, {}),
        }
        if self.how == "exit":
            sys.exit(0)
        if self.how == "raise":
            raise RuntimeError("the engine is gone")
        return results.get(self.how, (self.frame, 0.0, False, False, {}))


class Seedless(Rude):
    def reset(self):
        return self.frame, {}


class Spaceless(gymnasium.Env):
    observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)
