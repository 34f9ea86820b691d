"""What a run will need, said before it starts: memory, disk, time. All of it is estimated."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from einops import rearrange

from horizon_imagination.bench import stages
from horizon_imagination.bench.ceilings import product_speed
from horizon_imagination.bench.clock import CAPTURED
from horizon_imagination.bench.clock import timed as clocked
from horizon_imagination.bench.setting import Setting, random_store
from horizon_imagination.config import Config
from horizon_imagination.device import resolve_device, uses_bfloat16
from horizon_imagination.errors import UsageError
from horizon_imagination.learn.guard import NotFiniteError
from horizon_imagination.run.costs import Costs, costs
from horizon_imagination.run.display import clock
from horizon_imagination.run.pace import Stage

STEP_BYTES = 10
"""Action, reward, end and mark of a stored frame."""
WORTH_TIMING = 2.0
"""Seconds (by the count of FLOPs) up to which a step is timed rather than estimated."""


class Timed(NamedTuple):
    """Seconds of one step of every learner, of encoding a stored frame, of acting on a new one."""

    steps: dict[str, float]
    encode: float
    act: float


def describe_needs(config: Config, num_actions: int, offline: Path | None = None) -> str:
    """Parameters, memory, disk and time of a run, for people."""
    device = resolve_device(config.runtime.device)
    counted, stored = costs(config, num_actions), frames_stored(config)
    weights = memory(config, counted, uses_bfloat16(config.runtime, device))
    disk = snapshot_bytes(config, counted)
    seconds = stage_seconds(config, counted, num_actions, device)
    stages = ", ".join(f"{name.replace('_', ' ')} {span(x)}" for name, x in seconds.items())
    networks = ", ".join(f"{name} {n / 1e6:.2f} M" for name, n in counted.parameters.items())
    precision = "bfloat16" if uses_bfloat16(config.runtime, device) else "float32"
    replay = "" if offline else f"replay of {stored:,} frames {size(replay_bytes(config))}, "
    total = disk + (0 if offline else replay_bytes(config))
    detail = ", ".join(f"{name} {size(value)}" for name, value in weights.items())
    return "\n".join(
        [
            f"{config.env.id}: {num_actions} actions, on {device} in {precision}",
            f"  parameters  {sum(counted.parameters.values()) / 1e6:.2f} M ({networks})",
            f"  memory      about {size(sum(weights.values()))}, estimated ({detail})",
            f"  disk        about {size(total)} ({replay}snapshots {size(disk)})",
            f"  time        about {span(sum(seconds.values()))}, estimated, without the "
            f"environment's own ({stages})",
        ]
    )


def frames_stored(config: Config) -> int:
    """Frames that an online run collects, the episodes' last ones left out."""
    cfg = config.training
    return cfg.initial_steps + cfg.epochs * cfg.collect_steps


def replay_bytes(config: Config) -> int:
    """Disk for the replay of an online run."""
    return frames_stored(config) * ((1 if config.env.grey else 3) * config.env.size**2 + STEP_BYTES)


def snapshot_bytes(config: Config, counted: Costs) -> int:
    """Disk for the snapshots that are kept, one being written, and the best weights."""
    weights = 4 * sum(counted.parameters.values())
    if config.denoiser.ema:
        weights += 4 * counted.parameters["denoiser"]
    optimisers = 8 * sum(counted.parameters.values())
    kept = config.training.keep_snapshots + 1
    return kept * (weights + optimisers) + weights


def memory(config: Config, counted: Costs, half: bool) -> dict[str, float]:
    """Bytes on the device of the networks, by what they are for."""
    parameters = sum(counted.parameters.values())
    average = counted.parameters["denoiser"] if config.denoiser.ema else 0
    activations = max(step.activations for step in counted.steps.values())
    side = config.env.size // config.tokenizer.patch_size // 2 ** len(config.tokenizer.multipliers)
    latents = 4 * config.tokenizer.latent_channels * side**2 * frames_stored(config)
    return {
        "weights": 4.0 * (parameters + average),
        "gradients and optimisers": 12.0 * parameters,
        "activations": activations * (0.6 if half else 1.0),
        "latents": float(latents),
    }


def stage_seconds(
    config: Config, counted: Costs, num_actions: int, device: torch.device
) -> dict[str, float]:
    """Seconds of a whole run in every stage."""
    # Networks do not reach what a product of matrices does.
    speed = 0.5 * product_speed(device, torch.float32, side=1024, repeats=3)
    each = Timed(
        {name: x.flops / speed for name, x in counted.steps.items()},
        encode=counted.encode / speed,
        act=counted.act / speed,
    )
    if device.type != "cpu" or max(each.steps.values()) < WORTH_TIMING:
        each = timed(config, num_actions, device) or each
    cfg, found = config.training, {}
    for name, seconds in each.steps.items():
        own = getattr(config, name).learner
        stage = Stage(name, own.steps_per_epoch, own.first_epoch, own.last_epoch)
        found[name] = seconds * stage.steps_between(0, cfg.epochs)
    found["encoding"] = frames_encoded(config) * each.encode
    found["acting"] = frames_stored(config) * each.act
    return found


def frames_encoded(config: Config) -> int:
    """Frames that are turned into latents: all again after every change of the tokenizer."""
    cfg, own, total, known = config.training, config.tokenizer.learner, 0, 0
    for epoch in range(config.world_model.learner.first_epoch, cfg.epochs):
        rows = cfg.initial_steps + (epoch + 1) * cfg.collect_steps
        last = own.last_epoch is None or epoch <= own.last_epoch
        if own.steps_per_epoch and own.first_epoch <= epoch and last:
            known = 0
        total, known = total + rows - known, rows
    return total


def timed(config: Config, num_actions: int, device: torch.device) -> Timed | None:
    """What things take on made-up experience; None if that cannot be had."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _timed(config, num_actions, device, Path(folder))
    except (UsageError, NotFiniteError):
        return None  # what is wrong is reported by the run itself


def _timed(config: Config, num_actions: int, device: torch.device, folder: Path) -> Timed:
    length = max(config.world_model.segment_length, config.controller.context) + 32
    store = random_store(folder / "replay", config, length, num_actions)
    setting = Setting(config, store, device)
    latents, agent = setting.latents, setting.agent
    encoded = -(-store.num_frames // latents.block) * latents.block
    encoding = _seconds(stages.encoding(setting), device) / encoded
    frame = rearrange(store.frames[0], "c h w -> h w c")
    acting = _seconds(lambda: agent.act(frame), device)
    learners = setting.learners(config, tokenizer=True)
    calls = CAPTURED if agent.captured else 1
    steps = {x.name: _seconds(x.step, device, calls) for x in learners.in_order()}
    store.close()
    return Timed(steps, encoding, acting)


def _seconds(call: Callable[[], object], device: torch.device, warm_up: int = 1) -> float:
    return clocked(call, device, repeats=1, warm_up=warm_up).ms / 1e3


def span(seconds: float) -> str:
    """A rough time: minutes, hours or days.

    >>> span(75), span(5 * 3600), span(200 * 3600)
    ('1:15', '5.0 h', '8 days')
    """
    if seconds < 3600:
        return clock(seconds)
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 72 else f"{hours / 24:.0f} days"


def size(count: float) -> str:
    """Bytes for people.

    >>> size(2.5e9), size(3e6)
    ('2.5 GB', '3.0 MB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
