"""A stand-in that speaks Craftium's documented interface, traps included. No game inside.

Extra keys of `minetest_conf` make it misbehave: `standin_die_at` (steps until the engine is gone),
`standin_reset_seconds` (a slow reset), `standin_hang_at` (steps until a step never returns).
"""

import copy
import os
import random
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

WORLDS = {
    "ChopTree": (8, 2000, "hard"),
    "Room": (4, 1000, "soft"),
    "SmallRoom": (4, 500, "soft"),
    "Speleo": (7, 500, "hard"),
}


DEFAULTS: dict[str, Any] = {
    "obs_width": 640,
    "obs_height": 360,
    "init_frames": 15,
    "frameskip": 1,
    "minetest_conf": {},  # the trap: shared by all worlds, and mutated
    "sync_mode": False,
    "fps_max": 200,
    "mt_port": None,
    "run_dir_prefix": None,
    "voxel_obs_rx": 20,
    "voxel_obs_ry": 10,
    "voxel_obs_rz": 20,
    "mt_listen_timeout": 60_000,
    "seed": None,
    "render_mode": None,
}


class StandIn(gymnasium.Env):
    """`passed` is what the caller said, without what Craftium would have done anyway."""

    def __init__(self, num_actions: int, reset_kind: str, world: str, **passed: Any) -> None:
        if unknown := passed.keys() - DEFAULTS:
            raise TypeError(f"unexpected keyword arguments {sorted(unknown)}")
        self.passed = copy.deepcopy(passed)
        given = DEFAULTS | passed
        self.conf, self.world, self.reset_kind = given["minetest_conf"], world, reset_kind
        self.conf["standin_used"] = True
        self.voxels = [2 * given[f"voxel_obs_r{axis}"] + 1 for axis in "xyz"]
        self.height, self.width = given["obs_height"], given["obs_width"]
        shape = (self.width, self.height, 3)
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(num_actions)
        port = given["mt_port"]
        self.port = port if port is not None else random.randint(49152, 65535)
        self.engine: socket.socket | None = None
        home = Path(given["run_dir_prefix"] or os.getcwd())
        self.folder = home / f"minetest-run-{os.urandom(4).hex()}"
        self.folder.mkdir(parents=True)
        (self.folder / "world.sqlite").write_bytes(bytes(1000))
        self.lifetime = 0

    def reset(self, *, seed=None, options=None):  # soft resets ignore both
        if self.engine is None or self.reset_kind == "hard":
            self._stop()
            self.engine = socket.socket()
            try:
                self.engine.bind(("127.0.0.1", self.port))
                self.engine.listen()
            except OSError:
                raise ConnectionError("Connection closed by peer") from None
        time.sleep(self.conf.get("standin_reset_seconds", 0.0))
        self.position = np.zeros(3)
        return self._frame(), self._info()

    def step(self, action):
        if not isinstance(action, int | np.int64):
            return [self.step(a) for a in action]  # "a batch": breaks on an array without dimension
        self.lifetime += 1
        if self.lifetime == self.conf.get("standin_die_at", -1):
            raise ConnectionError("Connection closed by peer")
        if self.lifetime == self.conf.get("standin_hang_at", -1):
            time.sleep(1e6)
        self.position[1] -= action == 1
        reward = -self.position[1] if self.world == "Speleo" else -1.0
        found = self.world in ("Room", "SmallRoom") and self.position[1] <= -3
        return self._frame(), float(reward), bool(found), False, self._info()

    def close(self):
        self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stop(self):
        if self.engine is not None:
            self.engine.close()
        self.engine = None

    def _frame(self):
        depth = int(-20 * self.position[1]) % 256
        return np.full((self.height, self.width, 3), depth, dtype=np.uint8)

    def _info(self):
        return {
            "voxel_obs": np.zeros((*self.voxels, 3), dtype=np.uint32),
            "player_pos": self.position.copy(),
            "player_vel": np.zeros(3),
            "player_pitch": 0.0,
            "player_yaw": 0.0,
            "mt_dtime": 0.05,
        }


for _name, (_actions, _steps, _reset) in WORLDS.items():
    gymnasium.register(
        f"Craftium/{_name}-v0",
        entry_point=StandIn,
        max_episode_steps=_steps,
        kwargs={"num_actions": _actions, "reset_kind": _reset, "world": _name},
    )
