"""The other side of `supervised`: serves one environment over a pipe until the pipe closes.

Run as `python -m horizon_imagination.envs.child FD`.
"""

import os
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import gymnasium

from horizon_imagination.envs.make import make_inline
from horizon_imagination.envs.state import restore, snapshot
from horizon_imagination.errors import UsageError


def serve(pipe: Connection) -> None:
    """Build the environment that the first message describes, then answer every question."""
    path, cfg, seed = pipe.recv()
    sys.path[:] = path
    try:
        env = make_inline(cfg, seed)
    except UsageError as error:
        pipe.send(("usage", str(error)))
        return
    pipe.send(("ready", (env.observation_space, env.action_space)))
    try:
        while True:
            question, argument = pipe.recv()
            pipe.send(("answer", _answer(env, question, argument)))
    except EOFError:
        pass  # the parent has closed its end: time to go
    finally:
        env.close()


def _answer(env: gymnasium.Env, question: str, argument: Any) -> Any:
    match question:
        case "reset":
            observation, info = env.reset(seed=argument)
            return observation, _plain(info)
        case "step":
            observation, reward, terminated, truncated, info = env.step(argument)
            return observation, reward, terminated, truncated, _plain(info)
        case "snapshot":
            return snapshot(env)
        case "restore":
            return restore(env, argument)
        case "render":
            return env.render()
    raise ValueError(f"unknown question {question!r}")


def _plain(info: dict[str, Any]) -> dict[str, Any]:
    # voxels, game objects: what no learner reads is not worth sending
    return {
        key: value for key, value in info.items() if isinstance(value, bool | int | float | str)
    }


def _leave_with_parent(parent: int) -> None:
    """A simulator that hangs never sees the pipe close; its parent's death it does notice."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main(argv: list[str]) -> None:
    """Serve on the inherited file descriptor named by the first argument."""
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    with Connection(int(argv[0])) as pipe:
        try:
            serve(pipe)
        except BrokenPipeError:
            pass
        except Exception as error:  # whatever the simulator throws is the supervisor's to judge
            text = (str(error).strip().splitlines() or [""])[0]
            pipe.send(("error", f"{type(error).__name__}: {text}"))


if __name__ == "__main__":
    main(sys.argv[1:])
