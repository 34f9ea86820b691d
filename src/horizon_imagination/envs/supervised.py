"""An environment in a process of its own, restarted when it crashes, hangs or returns garbage."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import UInt8

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.pipe import Pipe, StrayBytes
from horizon_imagination.envs.state import State
from horizon_imagination.errors import BrokenWorldError, EnvFailure, UsageError

Frame = UInt8[np.ndarray, "height width channel"]
MARK = "HORIZON_ENV_MARK"
"""The variable that a child and all it starts inherit; it also opens every message."""


class ChildError(RuntimeError):
    """One crash, hang or garbage answer of the child; its text is the reason."""

    def __init__(self, reason: str, *, traceback: str = "") -> None:
        super().__init__(reason)
        self.traceback = traceback


class Supervised(gymnasium.Env):
    """The environment of a config, kept alive.

    When the child fails during a step, the episode ends there: the last good frame comes back with
    reward 0, `truncated`, and the reason in `info["failure"]`; the next reset starts a new child.
    A reset that fails is tried again with a new child. `failures` counts all of them;
    `failures_in_a_row` goes back to 0 at every good step, and at `env.max_failures` of them
    `EnvFailure` is raised.
    """

    def __init__(self, cfg: EnvConfig, seed: int) -> None:
        self.cfg, self.seed = cfg, seed
        self.failures = self.failures_in_a_row = self.children = 0
        self.last_failure = ""
        self.child: Child | None = None
        self.render_mode = "rgb_array"
        self.frame: Frame | None = None
        child = self._child()
        self.observation_space, self.action_space = child.spaces
        self.view = child.view

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        before = self.failures
        while True:
            child = self._child()
            try:
                frame, info = child.ask(("reset", seed), self.cfg.reset_timeout, "reset")
                self.frame = self._checked(frame)
            except ChildError as failure:
                self._failed(failure)
                continue
            if self.failures > before:
                info["failure"] = self.last_failure
            return self.frame, info

    def step(self, action: Any) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        if self.child is None or self.frame is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        try:
            answer = self.child.ask(("step", int(action)), self.cfg.step_timeout, "step")
            frame, reward, terminated, truncated, info = answer
            if not np.isfinite(reward):
                raise ChildError(f"garbage: the reward is {reward}")
            self.frame = self._checked(frame)
        except ChildError as failure:
            frame = self.frame
            self._failed(failure)
            assert frame is not None
            return frame, 0.0, False, True, {"failure": self.last_failure}
        self.failures_in_a_row = 0
        return self.frame, float(reward), bool(terminated), bool(truncated), info

    def render(self) -> Frame | None:
        """The frame the agent sees."""
        return self.frame

    def close(self) -> None:
        if self.child is not None:
            self.child.close()
        self.child = None

    def layer_state(self) -> State | None:
        """The state of the environment in the child, if it can tell."""
        if self.child is None:
            return None
        try:
            inner = self.child.ask(("snapshot", None), self.cfg.step_timeout, "snapshot")
        except ChildError:
            return None  # the next step will report it
        return None if inner is None else {"inner": inner, "frame": self.frame}

    def set_layer_state(self, state: State) -> None:
        """The inverse of `layer_state`."""
        try:
            self._child().ask(("restore", state["inner"]), self.cfg.reset_timeout, "restore")
        except ChildError as failure:
            raise EnvFailure(f"{self.cfg.id} did not take its saved state: {failure}") from failure
        frame = state["frame"]
        self.frame = None if frame is None else np.asarray(frame, dtype=np.uint8)

    def _child(self) -> "Child":
        """The living child, started if need be."""
        while self.child is None:
            # a new child gets a new seed, or a world that dies at step 50 would do so forever
            fresh = np.random.SeedSequence([self.seed, self.children]).generate_state(1)[0]
            seed = int(fresh >> 1) if self.children else self.seed
            self.children += 1
            try:
                self.child = Child(self.cfg, seed)
            except ChildError as failure:
                self._failed(failure)
        return self.child

    def _failed(self, failure: ChildError) -> None:
        self.failures += 1
        self.failures_in_a_row += 1
        self.last_failure = str(failure)
        self.frame = None
        if self.child is not None:
            self.child.kill()
            self.child = None
        if self.failures_in_a_row >= self.cfg.max_failures:
            raise EnvFailure(
                f"{self.cfg.id} failed {self.failures_in_a_row} times in a row (env.max_failures), "
                f"the last time with: {failure}",
                traceback=failure.traceback,
            )

    def _checked(self, frame: Any) -> Frame:
        space = self.observation_space
        if isinstance(frame, np.ndarray) and (frame.shape, frame.dtype) == (
            space.shape,
            space.dtype,
        ):
            return frame
        found = f"{frame.dtype}{frame.shape}" if isinstance(frame, np.ndarray) else type(frame)
        raise ChildError(f"garbage: the observation is {found}, expected uint8{space.shape}")


class Child:
    """One process that serves one environment, and everything it may leave behind."""

    def __init__(self, cfg: EnvConfig, seed: int) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="horizon-env-", ignore_cleanup_errors=True)
        self.mark = secrets.token_bytes(8)
        # what the simulator leaves in its temporary folder goes even if it is killed
        module, variables = "horizon_imagination.envs.child", {"TMPDIR": self.folder.name}
        self.process, self.pipe = start_process(module, self.mark, variables)
        try:
            self.spaces, self.view = self.ask((sys.path, cfg, seed), cfg.reset_timeout, "starting")
        except (ChildError, UsageError):
            self.kill()
            raise

    def ask(self, question: Any, timeout: float, doing: str) -> Any:
        """The child's answer, or `ChildError`."""
        try:
            self.pipe.send(question, timeout)
            kind, answer = self.pipe.receive(timeout)
        except TimeoutError:
            raise ChildError(f"hang: no answer within {timeout:g} s ({doing})") from None
        except StrayBytes as error:
            raise ChildError(f"garbage: {error}") from None
        except (EOFError, OSError):
            raise ChildError(self._death()) from None
        if kind == "usage":
            raise BrokenWorldError(answer[0], traceback=answer[1])
        if kind == "error":
            raise ChildError(f"crash: {answer[0]}", traceback=answer[1])
        return answer

    def close(self) -> None:
        """Let the child close its environment; kill it if that takes too long."""
        self.pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10.0)
        self.kill()

    def kill(self) -> None:
        """Kill the child and every process it started, and remove its files."""
        self.pipe.close()
        with suppress(ProcessLookupError, PermissionError):  # gone already
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        end_strays(self.mark)
        self.folder.cleanup()

    def _death(self) -> str:
        how = how_it_died(self.process)
        return f"crash: the process died ({how})" if how else "crash: the pipe is closed"


def start_process(
    module: str, mark: bytes, variables: dict[str, str]
) -> tuple[subprocess.Popen, Pipe]:
    """A module of ours as a program, with variables besides our own, and the pipe to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(number)],
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
            env=os.environ | variables | {MARK: mark.hex()},
            start_new_session=True,  # a group of its own: engines it starts are killed with it
        )
    return process, Pipe(ours, mark)


def how_it_died(process: subprocess.Popen) -> str:
    """The signal or the exit status of a process that has closed its pipe; empty if it lives."""
    try:
        code = process.wait(timeout=5.0)
    except subprocess.TimeoutExpired:
        return ""
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def end_strays(mark: bytes) -> None:
    """Kill what a child has started and let go: processes that left its session keep its mark.

    Linux tells the environment of every process; elsewhere those that left are not found.
    """
    word = f"{MARK}={mark.hex()}".encode()
    for _ in range(10):  # one that forks while it is looked for is found the next time
        strays = [pid for pid in _processes() if word in _environment(pid)]
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not strays:
            return


def _processes() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # gone, or somebody else's
