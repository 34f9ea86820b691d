"""The four Craftium worlds of the paper, with its settings. Craftium is imported only here.

Why each setting is there is told in docs/environments.md ("Craftium: traps").
"""

import shutil
import socket
import tempfile
from typing import Any

import gymnasium

from horizon_imagination.errors import UsageError

NOP, FORWARD, JUMP, DIG = "nop", "forward", "jump", "dig"
TURN = ("mouse x+", "mouse x-")
LOOK = (*TURN, "mouse y+", "mouse y-")

ACTIONS: dict[str, tuple[str, ...]] = {
    "Craftium/SmallRoom-v0": (NOP, FORWARD, *TURN),
    "Craftium/Room-v0": (NOP, FORWARD, *TURN),
    "Craftium/Speleo-v0": (NOP, FORWARD, JUMP, *LOOK),
    "Craftium/ChopTree-v0": (NOP, FORWARD, JUMP, DIG, *LOOK),
}
"""What each action number does."""

SUMMARIES = {
    "Craftium/SmallRoom-v0": "find the block in a small room; -1 a step, 500 steps",
    "Craftium/Room-v0": "find the block in a room; -1 a step, 1000 steps",
    "Craftium/Speleo-v0": "go down a cave; minus the height each step, 500 steps",
    "Craftium/ChopTree-v0": "chop trees; +1 each, 2000 steps",
}

BIASED_ACTION = {"Craftium/Speleo-v0": FORWARD, "Craftium/ChopTree-v0": DIG}


def actor_bias(env_id: str) -> tuple[float, ...]:
    """The paper's prior of the actor's output bias; empty where it has none.

    >>> actor_bias("Craftium/Speleo-v0")
    (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    """
    if env_id not in BIASED_ACTION:
        return ()
    return tuple(float(action == BIASED_ACTION[env_id]) for action in ACTIONS[env_id])


def settings(env_id: str, size: int) -> dict[str, Any]:
    """The keyword arguments of the published runs."""
    arguments: dict[str, Any] = {
        "frameskip": 4,
        "minetest_conf": {"time_speed": 0},  # a fresh dict: the default one is shared and leaks
        "sync_mode": True,
        "fps_max": 10 if env_id == "Craftium/ChopTree-v0" else 200,
        "obs_width": size,
        "obs_height": size,
    }
    if env_id == "Craftium/SmallRoom-v0":
        arguments["init_frames"] = 15
    return arguments


class Craftium(gymnasium.Wrapper):
    """One Craftium world with a port and a run folder of its own, removed on close."""

    def __init__(self, env_id: str, size: int, options: dict[str, Any]) -> None:
        _import_craftium()
        self.run_folder = tempfile.mkdtemp(prefix="craftium-")
        arguments = settings(env_id, size) | {
            "mt_port": free_port(),
            "run_dir_prefix": self.run_folder,
            "voxel_obs_rx": 0,
            "voxel_obs_ry": 0,
            "voxel_obs_rz": 0,
        }
        try:
            env = gymnasium.make(env_id, disable_env_checker=True, **(arguments | options))
        except BaseException:
            shutil.rmtree(self.run_folder, ignore_errors=True)
            raise
        super().__init__(env)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        # anything but an int, even an array of no dimensions, is taken for a batch
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        return observation, float(reward), bool(terminated), bool(truncated), info

    def close(self) -> None:
        try:
            self.env.close()
        finally:
            shutil.rmtree(self.run_folder, ignore_errors=True)


def free_port() -> int:
    """A port nobody listens on; Craftium would draw one from Python's global random numbers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _import_craftium() -> None:
    try:
        import craftium  # type: ignore[import-not-found]  # noqa: F401  (registers the ids)
    except ImportError as error:
        raise UsageError(
            "Craftium is not installed, and no package index has it: install the wheel of its "
            "GitHub releases (mikelma/craftium; Linux, Python 3.12) or build it from source"
        ) from error
