"""The other side of `supervised`: serves one environment over a pipe until the pipe closes.

Run as `python -m horizon_imagination.envs.child FD`.
"""

import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gymnasium

from horizon_imagination.envs.checked import first_line
from horizon_imagination.envs.frames import view_of
from horizon_imagination.envs.make import make_inline
from horizon_imagination.envs.pipe import Pipe
from horizon_imagination.envs.state import restore, snapshot
from horizon_imagination.envs.supervised import MARK
from horizon_imagination.errors import EnvFailure, UsageError


def serve(pipe: Pipe) -> None:
    """Build the environment that the first message describes, then answer every question."""
    path, cfg, seed = pipe.receive()
    sys.path[:] = path
    limit_memory(cfg.memory_limit)
    try:
        env = make_inline(cfg, seed)
    except UsageError as error:
        pipe.send(("usage", (str(error), getattr(error, "traceback", ""))))
        return
    pipe.send(("ready", ((env.observation_space, env.action_space), view_of(env))))
    try:
        while True:
            question, argument = pipe.receive()
            pipe.send(("answer", _answer(env, question, argument)))
    except EOFError:
        pass  # the parent has closed its end: time to go
    finally:
        env.close()


def _answer(env: gymnasium.Env, question: str, argument: Any) -> Any:
    match question:
        case "reset":
            observation, info = env.reset(seed=argument)
            return observation, plain_info(info)
        case "step":
            observation, reward, terminated, truncated, info = env.step(argument)
            return observation, reward, terminated, truncated, plain_info(info)
        case "snapshot":
            return snapshot(env)
        case "restore":
            return restore(env, argument)
        case "render":
            return env.render()
    raise ValueError(f"unknown question {question!r}")


def plain_info(info: dict[str, Any]) -> dict[str, Any]:
    """Numbers, words and flags: voxels and game objects, which no learner reads, are not sent."""
    return {
        key: value for key, value in info.items() if isinstance(value, bool | int | float | str)
    }


def _leave_with_parent(parent: int) -> None:
    """A simulator that hangs never sees the pipe close; its parent's death it does notice."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)  # itself, and the engines it has started


def limit_memory(gib: float) -> None:
    """Make allocations beyond so much fail here, before the system ends some other process."""
    with suppress(ImportError, ValueError, OSError):  # not everywhere, and never above the limit
        import resource

        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        wanted = int(gib * 2**30) if gib else there
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))


def main(argv: list[str], serve: Callable[[Pipe], None] = serve) -> None:
    """Serve on the inherited file descriptor named by the first argument."""
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    pipe = Pipe(socket.socket(fileno=int(argv[0])), bytes.fromhex(os.environ[MARK]))
    try:
        serve(pipe)
    except BrokenPipeError:
        pass
    except Exception as error:  # whatever the simulator throws is the supervisor's to judge
        told = str(error) if isinstance(error, EnvFailure) else first_line(error)
        trace = getattr(error, "traceback", "") or traceback.format_exc()
        pipe.send(("error", (told, trace)))


if __name__ == "__main__":
    main(sys.argv[1:])
