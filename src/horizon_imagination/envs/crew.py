"""Environments in a few worker processes, each of which steps its share: emulators hold Python's
lock, so threads do not help them, and a process for each costs more to start and to ask than it
plays.

A worker that fails ends the whole crew; `supervised` has environments that are restarted. The other
side runs as `python -m horizon_imagination.envs.crew FD`.
"""

import os
import secrets
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, SupportsFloat

import gymnasium

from horizon_imagination.actions import ActionSpace
from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.child import main, plain_info
from horizon_imagination.envs.make import make_inline
from horizon_imagination.envs.pipe import Pipe, StrayBytes
from horizon_imagination.envs.spaces import action_space
from horizon_imagination.envs.supervised import Frame, how_it_died, start_process
from horizon_imagination.envs.trust import check_trusted
from horizon_imagination.errors import EnvFailure

Outcome = tuple[Frame, SupportsFloat, bool, bool, dict[str, Any]]
Question = tuple[str, int, Any]
"""begin, step or close; the number of the environment; its seed, or the action."""


class Crew:
    """Environments by number, spread over worker processes."""

    def __init__(self, cfg: EnvConfig, workers: int) -> None:
        check_trusted(cfg)
        self.cfg, self.space = cfg, None
        self._workers: list[_Worker] = []
        try:
            self._workers += (_Worker(cfg) for _ in range(workers))
        except BaseException:
            self.close()
            raise

    def begin(self, numbers: Sequence[int], seeds: Sequence[int]) -> list[Frame]:
        """Make environments and reset each with its seed; their first frames."""
        asked = [("begin", n, seed) for n, seed in zip(numbers, seeds, strict=True)]
        found = self._ask(asked, self.cfg.reset_timeout)
        for _, space in found:
            self.space = space
        return [frame for frame, _ in found]

    def step(self, numbers: Sequence[int], actions: Sequence[Any]) -> list[Outcome]:
        """Take an action in each."""
        asked = [("step", n, action) for n, action in zip(numbers, actions, strict=True)]
        return self._ask(asked, self.cfg.step_timeout)

    def end(self, number: int) -> None:
        """Close one."""
        self._ask([("close", number, None)], self.cfg.reset_timeout)

    @property
    def action_space(self) -> ActionSpace:
        """That of the environments, once one has begun."""
        assert self.space is not None
        return self.space

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in self._workers:
            worker.end()

    def _ask(self, questions: list[Question], timeout: float) -> list[Any]:
        """Ask every worker its share of the questions, then read all answers, in their order."""
        shares: dict[int, list[int]] = {}
        for place, (_, number, _) in enumerate(questions):
            shares.setdefault(number % len(self._workers), []).append(place)
        answers: list[Any] = [None] * len(questions)
        for index, places in shares.items():
            worker = self._workers[index]
            worker.send([questions[place] for place in places], len(places) * timeout)
        for index, places in shares.items():
            found = self._workers[index].receive(len(places) * timeout)
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        return answers


class _Worker:
    """One process, seen from here."""

    def __init__(self, cfg: EnvConfig) -> None:
        module = "horizon_imagination.envs.crew"
        self.process, self.pipe = start_process(module, secrets.token_bytes(8), {})
        self.send((sys.path, cfg), cfg.reset_timeout)

    def send(self, message: Any, timeout: float) -> None:
        """Send it; `EnvFailure` if nobody takes it."""
        try:
            self.pipe.send(message, timeout)
        except OSError:
            raise EnvFailure(self._death()) from None

    def receive(self, timeout: float) -> list[Any]:
        """The answers; `EnvFailure` with what the worker says went wrong."""
        try:
            kind, answer = self.pipe.receive(timeout)
        except TimeoutError:
            raise EnvFailure(f"a process that plays gave no answer within {timeout:g} s") from None
        except StrayBytes as error:
            raise EnvFailure(f"a process that plays wrote garbage: {error}") from None
        except (EOFError, OSError):
            raise EnvFailure(self._death()) from None
        if kind == "error":
            raise EnvFailure(answer[0], traceback=answer[1])
        return answer

    def end(self) -> None:
        """Kill the process and whatever it started."""
        self.pipe.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _death(self) -> str:
        how = how_it_died(self.process)
        return f"a process that plays {f'died ({how})' if how else 'closed its pipe'}"


def _serve(pipe: Pipe) -> None:
    """Answer every list of questions until the pipe closes."""
    path, cfg = pipe.receive()
    sys.path[:] = path
    envs: dict[int, gymnasium.Env] = {}
    with suppress(EOFError):  # the parent has closed its end: time to go
        while True:
            pipe.send(("answers", [_answer(cfg, envs, *question) for question in pipe.receive()]))


def _answer(
    cfg: EnvConfig, envs: dict[int, gymnasium.Env], question: str, number: int, argument: Any
) -> Any:
    match question:
        case "begin":
            envs[number] = make_inline(cfg, argument)
            return envs[number].reset(seed=argument)[0], action_space(envs[number])
        case "step":
            frame, reward, terminated, truncated, info = envs[number].step(argument)
            return frame, float(reward), bool(terminated), bool(truncated), plain_info(info)
        case "close":
            return envs.pop(number).close()
    raise ValueError(f"unknown question {question!r}")


if __name__ == "__main__":
    main(sys.argv[1:], _serve)
