"""A world that somebody else wrote: whatever it does against Gymnasium's contract is one line."""

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from horizon_imagination.errors import EnvFailure, UsageError

OLD = "if it speaks the old interface, add --env.old-api"


class Checked(gymnasium.Wrapper):
    """Passes everything on, and says what was expected where the world does something else.

    Its exceptions become an `EnvFailure` that carries the traceback. Rewards that float32 cannot
    hold are refused here, before a replay takes them.
    """

    transparent = True
    """Without a state of its own, and not named in snapshots."""

    def __init__(self, env: gymnasium.Env, name: str) -> None:
        for space in ("observation_space", "action_space"):
            if not hasattr(env, space):
                raise UsageError(f"env.id {name}: {type(env).__name__} has no {space}")
        _check_reset(env, name)
        super().__init__(env)
        self.name, self.steps = name, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        result = self._call("reset", lambda: self.env.reset(seed=seed, options=options))
        if not isinstance(result, tuple) or len(result) != 2:
            raise EnvFailure(
                f"reset() of {self.name} gave {_told(result)}: expected (observation, info); {OLD}"
            )
        return result[0], _info(result[1])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        result = self._call("step", lambda: self.env.step(action))
        if not isinstance(result, tuple) or len(result) != 5:
            hint = f"; {OLD}" if isinstance(result, tuple) and len(result) == 4 else ""
            raise EnvFailure(
                f"step() of {self.name} gave {_told(result)}: expected (observation, reward, "
                f"terminated, truncated, info){hint}"
            )
        observation, reward, terminated, truncated, info = result
        return observation, self._reward(reward), *self._ends(terminated, truncated), _info(info)

    def render(self) -> Any:
        """The world's picture."""
        return self._call("render", self.env.render)

    def close(self) -> None:
        self._call("close", self.env.close)

    def _call(self, method: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (UsageError, EnvFailure, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit and GeneratorExit too
            where = f" (step {self.steps} of an episode)" if method == "step" else ""
            line = first_line(error)
            hint = f"; {OLD}" if "values to unpack" in line else ""
            raise EnvFailure(
                f"{method}() of {self.name} failed{where}: {line}{hint}",
                traceback="".join(traceback.format_exception(error)),
            ) from error

    def _reward(self, reward: Any) -> float:
        try:
            value = float(reward)
            with np.errstate(over="ignore"):
                good = bool(np.isfinite(np.float32(value)))
        except (TypeError, ValueError):
            value, good = reward, False
        if not good:
            raise EnvFailure(
                f"step() of {self.name} gave the reward {value!r} (step {self.steps} of an "
                "episode): expected a finite number"
            )
        return value

    def _ends(self, *flags: Any) -> tuple[bool, bool]:
        for flag in flags:
            if not isinstance(flag, bool | np.bool_ | int | np.integer):
                raise EnvFailure(
                    f"step() of {self.name} gave {_told(flag)} for terminated or truncated: "
                    "expected True or False"
                )
        return bool(flags[0]), bool(flags[1])


def first_line(error: BaseException) -> str:
    """The kind of an exception and the first line of what it says, if it says anything."""
    try:
        text = (str(error).strip().splitlines() or [""])[0]
    except Exception:  # whoever wrote the world wrote its exceptions
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _check_reset(env: gymnasium.Env, name: str) -> None:
    try:
        parameters = inspect.signature(env.unwrapped.reset).parameters
    except (TypeError, ValueError, AttributeError):
        return  # it cannot be told; the first call will
    if "seed" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    raise UsageError(
        f"env.id {name}: reset({', '.join(parameters)}) takes no seed: expected "
        f"reset(*, seed=None, options=None); {OLD}"
    )


def _info(info: Any) -> dict[str, Any]:
    return info if isinstance(info, dict) else {}


def _told(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} values"
    shape = getattr(value, "shape", None)
    return type(value).__name__ + (f" of shape {shape}" if shape is not None else "")
