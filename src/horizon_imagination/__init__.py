"""Horizon Imagination: act in many future frames while they are being denoised.

The method as a library: schedules are matrices, imagination is a loop over their rows, stable
actions are read from dice thrown once. The agent, the studies and the tools stand on these names.
"""

from horizon_imagination.flow import (
    interpolate,
    sample_times,
    sweep_times,
    trainable,
    uniform_noise,
    velocity_loss,
)
from horizon_imagination.imagination import (
    Actor,
    Choice,
    Context,
    Denoiser,
    Imagined,
    Policy,
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
from horizon_imagination.returns import (
    advantages,
    lambda_returns,
    return_range,
    symexp,
    symlog,
    until_first_end,
    update_return_scale,
)
from horizon_imagination.schedules import (
    autoregressive_schedule,
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
    stable_gaussian,
    threshold_distance,
    thresholds,
    total_variation,
)
from horizon_imagination.types import NO_ACTION
from horizon_imagination.version import __version__
from horizon_imagination.windows import Window, frame_evaluations, window_plan

__all__ = [
    "NO_ACTION",
    "Actor",
    "Choice",
    "Context",
    "Denoiser",
    "Dice",
    "Imagined",
    "Policy",
    "Window",
    "__version__",
    "advantages",
    "autoregressive_schedule",
    "change_count",
    "change_probability",
    "coupled_action",
    "coupled_actor",
    "frame_evaluations",
    "frames_in_flight",
    "full_sequence_schedule",
    "held_actor",
    "horizon_schedule",
    "imagine",
    "interpolate",
    "lambda_returns",
    "late_change_rate",
    "moving",
    "naive_actor",
    "policy_entries",
    "pyramidal_schedule",
    "recorded_actor",
    "return_range",
    "roll",
    "sample_times",
    "stable_action",
    "stable_actor",
    "stable_gaussian",
    "sweep_times",
    "symexp",
    "symlog",
    "threshold_distance",
    "thresholds",
    "total_variation",
    "trainable",
    "uniform_noise",
    "until_first_end",
    "update_return_scale",
    "velocity_loss",
    "window_plan",
]
