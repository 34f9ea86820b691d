"""Horizon Imagination: act in many future frames while they are being denoised.

`import horizon_imagination as hi` gives the method as pure functions (`hi.horizon_schedule`,
`hi.imagine`, `hi.stable_action`, …), and `hi.Agent`, `hi.Config`, `hi.make_env` and `hi.load_run`.
Each name is imported when it is first used: the import itself loads no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from horizon_imagination.version import __version__

if TYPE_CHECKING:
    from horizon_imagination.actions import Box, Discrete, MultiDiscrete
    from horizon_imagination.agent import Agent
    from horizon_imagination.config import Config
    from horizon_imagination.envs import make_env
    from horizon_imagination.flow import (
        interpolate,
        sample_times,
        sweep_times,
        trainable,
        uniform_noise,
        velocity_error,
        velocity_loss,
    )
    from horizon_imagination.gaussian_actions import (
        fresh_movement,
        squash,
        squashed_entropy,
        squashed_log_prob,
        stable_gaussian,
        wasserstein,
    )
    from horizon_imagination.imagination import (
        ActorFn,
        Choice,
        Context,
        Imagined,
        PolicyFn,
        VelocityFn,
        change_count,
        coupled_actor,
        held_actor,
        imagine,
        late_change_rate,
        naive_actor,
        policy_entries,
        recorded_actor,
        stable_actor,
    )
    from horizon_imagination.play.browser import play_in_browser
    from horizon_imagination.report.pictures import strips
    from horizon_imagination.returns import (
        advantages,
        lambda_returns,
        return_range,
        symexp,
        symlog,
        until_first_end,
        update_return_scale,
    )
    from horizon_imagination.run.callbacks import Callback, RunStart
    from horizon_imagination.run.read import Run, load_run
    from horizon_imagination.run.train import train
    from horizon_imagination.run.trainer import Trainer
    from horizon_imagination.schedules import (
        autoregressive_schedule,
        check_schedule,
        frames_in_flight,
        full_sequence_schedule,
        horizon_schedule,
        moving,
        pyramidal_schedule,
    )
    from horizon_imagination.stable_actions import (
        Dice,
        change_probability,
        coupled_action,
        roll,
        stable_action,
        threshold_distance,
        thresholds,
        total_variation,
    )
    from horizon_imagination.types import NO_ACTION
    from horizon_imagination.windows import Window, frame_evaluations, window_plan
    from horizon_imagination.world_model import WindowedWorldModel, WorldModel

__all__ = [
    "NO_ACTION",
    "ActorFn",
    "Agent",
    "Box",
    "Callback",
    "Choice",
    "Config",
    "Context",
    "Dice",
    "Discrete",
    "Imagined",
    "MultiDiscrete",
    "PolicyFn",
    "Run",
    "RunStart",
    "Trainer",
    "VelocityFn",
    "Window",
    "WindowedWorldModel",
    "WorldModel",
    "__version__",
    "advantages",
    "autoregressive_schedule",
    "change_count",
    "change_probability",
    "check_schedule",
    "coupled_action",
    "coupled_actor",
    "frame_evaluations",
    "frames_in_flight",
    "fresh_movement",
    "full_sequence_schedule",
    "held_actor",
    "horizon_schedule",
    "imagine",
    "interpolate",
    "lambda_returns",
    "late_change_rate",
    "load_run",
    "make_env",
    "moving",
    "naive_actor",
    "play_in_browser",
    "policy_entries",
    "pyramidal_schedule",
    "recorded_actor",
    "return_range",
    "roll",
    "sample_times",
    "squash",
    "squashed_entropy",
    "squashed_log_prob",
    "stable_action",
    "stable_actor",
    "stable_gaussian",
    "strips",
    "sweep_times",
    "symexp",
    "symlog",
    "threshold_distance",
    "thresholds",
    "total_variation",
    "train",
    "trainable",
    "uniform_noise",
    "until_first_end",
    "update_return_scale",
    "velocity_error",
    "velocity_loss",
    "wasserstein",
    "window_plan",
]

_METHOD = (
    *("schedules", "stable_actions", "gaussian_actions", "actions", "flow", "imagination"),
    *("returns", "windows", "world_model", "types"),
)
"""Modules of the method; any of them may hold a public name."""
_ELSEWHERE = {
    "Agent": "agent",
    "Callback": "run.callbacks",
    "Config": "config",
    "Run": "run.read",
    "RunStart": "run.callbacks",
    "Trainer": "run.trainer",
    "load_run": "run.read",
    "make_env": "envs",
    "play_in_browser": "play.browser",
    "strips": "report.pictures",
    "train": "run.train",
}
"""Public name -> its module, for names outside the method."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in __all__:
        for home in [_ELSEWHERE[name]] if name in _ELSEWHERE else _METHOD:
            module = importlib.import_module(f"{__name__}.{home}")
            if name in vars(module):
                globals()[name] = vars(module)[name]
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted({*globals(), *__all__})
