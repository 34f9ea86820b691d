"""An environment that misbehaves in a named way at a named step: hostile_world:Hostile."""

import os
import signal
import subprocess
import sys
import threading
import time

import gymnasium
import numpy as np

SIZE = 16


class OddError(Exception):
    """An exception that cannot even be told."""

    def __str__(self) -> str:
        raise ValueError("no words for it")


def _raise(error):
    raise error


def _fork(apart):
    pid = os.fork()
    if pid == 0:
        if apart:
            os.setsid()
        time.sleep(600)
        os._exit(0)


def _stray():
    """Bytes into every descriptor that is open."""
    for number in range(3, 64):
        try:
            os.write(number, b"stray bytes\n" * 10)
        except OSError:
            continue


def _close_all():
    os.closerange(3, 64)


def _hog(size):
    return np.ones(size // 8).sum()


def _deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


def _unwritable():
    sys.stdout.close()


def _in_thread():
    threading.Thread(target=time.sleep, args=(600,)).start()


FRAME = np.zeros((SIZE, SIZE, 3), np.uint8)
STEPS = {
    "shape": (FRAME[:4], 0.0, False, False, {}),
    "grey": (FRAME[..., 0], 0.0, False, False, {}),
    "empty": (FRAME[:0], 0.0, False, False, {}),
    "float_frame": (FRAME + 0.5, 0.0, False, False, {}),
    "nan_frame": (np.full(FRAME.shape, np.nan), 0.0, False, False, {}),
    "no_frame": (None, 0.0, False, False, {}),
    "text_frame": ("frame", 0.0, False, False, {}),
    "objects": (np.full(FRAME.shape, None), 0.0, False, False, {}),
    "nan_reward": (FRAME, float("nan"), False, False, {}),
    "infinite_reward": (FRAME, float("inf"), False, False, {}),
    "huge_reward": (FRAME, 1e308, False, False, {}),
    "no_reward": (FRAME, None, False, False, {}),
    "text_reward": (FRAME, "1", False, False, {}),
    "array_reward": (FRAME, np.zeros(3), False, False, {}),
    "complex_reward": (FRAME, 1j, False, False, {}),
    "text_end": (FRAME, 0.0, "no", None, {}),
    "array_end": (FRAME, 0.0, np.zeros(2, bool), False, {}),
    "no_info": (FRAME, 0.0, False, False, None),
    "odd_info": (FRAME, 0.0, False, False, {"f": lambda: 0, 3: object()}),
    "large_info": (FRAME, 0.0, False, False, {"x": "x" * 2**22}),
    "four": (FRAME, 0.0, False, {}),
    "nothing": None,
    "number": 7,
}
ACTS = {
    "value_error": lambda: _raise(ValueError("a\nlong\nstory" * 500)),
    "odd_error": lambda: _raise(OddError()),
    "surrogate": lambda: _raise(KeyError("\ud800")),
    "memory_error": lambda: _raise(MemoryError()),
    "recursion": lambda: _raise(RecursionError()),
    "stop": lambda: _raise(StopIteration()),
    "generator_exit": lambda: _raise(GeneratorExit()),
    "exit": lambda: sys.exit(0),
    "exit_text": lambda: sys.exit("bye"),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "os_exit": lambda: os._exit(0),
    "abort": os.abort,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": lambda: time.sleep(600),
    "deaf_hang": _deaf,
    "fork": lambda: _fork(False),
    "fork_apart": lambda: _fork(True),
    "spawn": lambda: subprocess.Popen(["sleep", "600"], start_new_session=True),
    "stdout": lambda: os.write(1, b"\x00\xff garbage \x1b[2J" * 1000),
    "stray_bytes": _stray,
    "close_descriptors": _close_all,
    "close_stdout": _unwritable,
    "hog": lambda: _hog(6 * 2**30),
    "thread": _in_thread,
    "chdir": lambda: os.chdir("/"),
    "environment": os.environ.clear,
    "seed": lambda: np.random.seed(0),
}
ALONE = {
    *("os_exit", "abort", "kill", "hang", "deaf_hang", "stray_bytes", "close_descriptors", "hog"),
    *("interrupt", "fork", "fork_apart", "spawn", "exit", "exit_text", "close_stdout", "thread"),
    *("environment", "chdir"),
}
"""What only a process of its own can withstand."""
PLACES = ("step", "reset", "make", "close")
WAYS = (*STEPS, *ACTS)


class Hostile(gymnasium.Env):
    """Good until step `at` of each episode."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(0, 255, FRAME.shape, np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, how="", at=3, where="step", render_mode=None, **_):
        self.how, self.at, self.where, self.count = how, at, where, 0
        self._act("make")

    def reset(self, *, seed=None, options=None):
        self.count = 0
        if self.where == "reset" and self.how in STEPS:
            answer = STEPS[self.how]
            return (answer[0], answer[-1]) if isinstance(answer, tuple) else answer
        self._act("reset")
        return FRAME, {}

    def step(self, action):
        self.count += 1
        if self.at <= self.count < 12 and self.where == "step":
            if self.how in STEPS:
                return STEPS[self.how]
            self._act("step")
        return FRAME + np.uint8(self.count), 1.0, self.count >= 8, False, {}

    def close(self):
        self._act("close")

    def _act(self, where):
        if self.where == where and self.how in ACTS:
            ACTS[self.how]()
