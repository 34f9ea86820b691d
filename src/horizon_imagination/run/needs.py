"""What a run needs: memory, disk, time and threads, estimated before it; disk while it trains."""

import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from horizon_imagination.actions import ActionSpace, as_space
from horizon_imagination.config import Config
from horizon_imagination.costs import Costs, costs
from horizon_imagination.device import resolve_device, uses_bfloat16
from horizon_imagination.errors import UsageError
from horizon_imagination.files import write_json
from horizon_imagination.learn.guard import NotFiniteError
from horizon_imagination.learn.rehearsal import rehearse, rehearsed_by_count
from horizon_imagination.learn.together import Together, overlaps
from horizon_imagination.run.callbacks import Callback, RunStart
from horizon_imagination.schema import read_json
from horizon_imagination.timing import ThreadTrial
from horizon_imagination.wording import duration, number, size

ESTIMATE = "estimate.json"
"""What was estimated before the run began, kept for comparison."""
STEP_BYTES = 10
"""Action, reward, end and mark of a stored frame."""
LARGE = 1e11
"""FLOPs from which on a step is not tried on a CPU, where it would take seconds."""
MARGIN = 2.0
"""Snapshots that should still fit: one that is written beside the one it replaces."""


@dataclass(frozen=True)
class Estimate:
    """The time of a whole run."""

    stages: dict[str, float]
    """Seconds of every stage on a quiet machine, the environment's own left out."""
    slowdown: float
    """How many times slower the steps were while they were measured, beside other programs."""
    trial: ThreadTrial | None
    """The trial of threads, if the config leaves their number open."""
    epoch: dict[str, float] = field(default_factory=dict)
    """Seconds of an epoch by learner."""

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return sum(self.stages.values())

    @property
    def busy(self) -> bool:
        """Whether other programs slowed the measurement down."""
        return self.slowdown > 1

    def busy_note(self) -> str:
        """What the load of the machine means for the time, in one line; empty on a quiet one."""
        if not self.busy:
            return ""
        return (
            f"other programs were busy here while this was measured: at such a load the steps "
            f"take {number(self.slowdown, 2)} times as long, about "
            f"{duration(self.slowdown * self.seconds)}"
        )


@dataclass(frozen=True)
class Estimated:
    """The estimate of a run; empty for runs of earlier versions."""

    epoch_seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of an epoch by learner, on a quiet machine."""
    disk_bytes: float = 0.0
    """Disk of the whole run, its replay included."""


@dataclass(frozen=True)
class Needs:
    """What a run needs."""

    text: str
    """For people."""
    threads: int
    """CPU threads to train with; 0 for torch's own choice."""
    estimated: Estimated = field(default_factory=Estimated)


def describe_needs(
    config: Config, actions: ActionSpace | int, offline: Path | None = None
) -> Needs:
    """Parameters, memory, disk, time and threads of a run."""
    device = resolve_device(config.runtime.device)
    counted, stored = costs(config, actions), frames_stored(config)
    weights = memory(config, counted, uses_bfloat16(config.runtime, device))
    found = estimate(counted, actions, device)
    disk = snapshot_bytes(config, counted, found.seconds)
    stages = ", ".join(f"{n.replace('_', ' ')} {duration(x)}" for n, x in found.stages.items())
    networks = ", ".join(f"{name} {n / 1e6:.2f} M" for name, n in counted.parameters.items())
    precision = "bfloat16" if uses_bfloat16(config.runtime, device) else "float32"
    replay = "" if offline else f"replay of {stored:,} frames {size(replay_bytes(config))}, "
    total = disk + (0 if offline else replay_bytes(config))
    detail = ", ".join(f"{name} {size(value)}" for name, value in weights.items())
    quiet = " on a quiet machine" if found.busy else ""
    target = config.training.target_return
    most = "" if target is None else f"; less if an evaluation reaches {target:g}"
    lines = [
        f"{config.env.id}: {as_space(actions).words()}, on {device} in {precision}",
        f"  parameters  {sum(counted.parameters.values()) / 1e6:.2f} M ({networks})",
        f"  memory      about {size(sum(weights.values()))} of tensors, estimated ({detail}), "
        "besides the program's own few hundred MB",
        f"  disk        about {size(total)} ({replay}snapshots {size(disk)})",
        f"  time        about {duration(found.seconds)}{quiet}, estimated, without the "
        f"environment's own ({stages}){most}",
    ]
    if found.busy:
        lines.append(f"  busy        {found.busy_note()}")
    if found.trial is not None:
        lines.append(f"  threads     {_tried(found.trial)}")
    threads = found.trial.threads if found.trial else config.runtime.threads
    return Needs("\n".join(lines), threads, Estimated(found.epoch, float(total)))


def _tried(trial: ThreadTrial) -> str:
    """
    >>> _tried(ThreadTrial(1, {1: 0.0125, 2: 0.033})), _tried(ThreadTrial(1, {}))
    ('1, the fastest in a short trial (a step with 1: 12.5 ms, 2: 33 ms)', '1')
    """
    if not trial.seconds:
        return str(trial.threads)
    times = ", ".join(f"{count}: {number(1e3 * x, 3)} ms" for count, x in trial.seconds.items())
    return f"{trial.threads}, the fastest in a short trial (a step with {times})"


def frames_stored(config: Config) -> int:
    """Frames that an online run collects, the episodes' last ones left out."""
    cfg = config.training
    return cfg.initial_steps + cfg.epochs * cfg.collect_steps


def replay_bytes(config: Config) -> int:
    """Disk for the replay of an online run."""
    return frames_stored(config) * (config.env.frame_channels * config.env.size**2 + STEP_BYTES)


def snapshot_bytes(config: Config, counted: Costs, seconds: float = 0.0) -> int:
    """Disk for the snapshots that a run of so long keeps, one being written, the best weights."""
    weights = 4 * sum(counted.parameters.values())
    if config.denoiser.ema:
        weights += 4 * counted.parameters["denoiser"]
    optimisers = 8 * sum(counted.parameters.values())
    hours = config.training.keep_every_hours
    kept = config.training.keep_snapshots + 1 + (int(seconds / 3600 / hours) if hours > 0 else 0)
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


def estimate(counted: Costs, actions: ActionSpace | int, device: torch.device) -> Estimate:
    """The time of a run: steps of a throw-away agent are timed, or counted where it is large."""
    config, each = counted.config, None
    if device.type != "cpu" or max(x.flops for x in counted.steps.values()) < LARGE:
        # What is wrong with the config is reported by the run itself.
        with suppress(UsageError, NotFiniteError):
            each = rehearse(config, actions, device)
    each = each or rehearsed_by_count(counted, device)
    cfg, stages, epoch = config.training, {}, {}
    learners = config.tokenizer.learner, config.world_model.learner, config.controller.learner
    beside = [x for x in range(cfg.epochs) if each.together is not None and overlaps(x, *learners)]
    for name, seconds in each.steps.items():
        own = getattr(config, name).learner
        apart = set(range(cfg.epochs)) - set(beside if name != "tokenizer" else ())
        stages[name] = seconds * sum(map(own.steps_in, apart))
        epoch[name] = seconds * own.steps_per_epoch
    if each.together is not None:
        steps = sum(map(config.controller.learner.steps_in, beside))
        stages[Together.name] = each.together * steps
    stages["encoding"] = frames_encoded(config) * each.encode
    stages["acting"] = frames_acted(config, len(beside)) * each.act
    return Estimate(stages, each.slowdown, each.trial, epoch)


def frames_acted(config: Config, beside: int = 0) -> int:
    """Frames on which an online run asks its policy and waits for it: in all epochs after the
    controller's first but those, so many, in which others learn beside it."""
    epochs = config.training.epochs - config.controller.learner.first_epoch - 1
    return config.training.collect_steps * max(0, epochs - beside)


def frames_encoded(config: Config) -> int:
    """Frames that are turned into latents: all again after every change of the tokenizer."""
    cfg, own, total, known = config.training, config.tokenizer.learner, 0, 0
    for epoch in range(config.world_model.learner.first_epoch, cfg.epochs):
        rows = cfg.initial_steps + (epoch + 1) * cfg.collect_steps
        if own.works_in(epoch):
            known = 0
        total, known = total + rows - known, rows
    return total


def read_estimate(folder: Path) -> Estimated:
    """The estimate of the run in a folder."""
    path = folder / ESTIMATE
    return read_json(path, Estimated, extra=True) if path.exists() else Estimated()


def write_estimate(folder: Path, estimated: Estimated) -> None:
    """Keep the estimate."""
    write_json(folder / ESTIMATE, asdict(estimated))


def free_bytes(folder: Path) -> int:
    """Free disk where a folder is or will be."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def folder_bytes(folder: Path) -> int:
    """The size of all files below a folder; those that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


def room_warning(needed: float, free: float) -> str:
    """What to say before a run that needs more disk than there is; empty if it fits.

    >>> room_warning(1e9, 5e9), room_warning(5e9, 1e9)[:55]
    ('', 'the disk has 1.0 GB free and the run needs about 5.0 GB')
    """
    if needed <= free:
        return ""
    return (
        f"the disk has {size(free)} free and the run needs about {size(needed)}: make room, or "
        "name another --out"
    )


class DiskWatch(Callback):
    """Warns once when the next snapshots, and the frames collected until then, may not fit."""

    def __init__(self) -> None:
        self.snapshot, self.warned = 0, False

    def on_start(self, run: RunStart) -> None:
        self.folder, self.note = run.folder, run.note
        cfg = run.agent.config
        frame = cfg.env.frame_channels * cfg.env.size**2
        self.collected = cfg.training.snapshot_every * cfg.training.collect_steps * frame
        parameters = sum(weight.numel() for weight in run.agent.weights().values())
        self.snapshot = 12 * parameters  # weights and two moments, until one is measured

    def on_snapshot(self, epochs: int, folder: Path) -> None:
        self.snapshot = folder_bytes(folder)

    def on_metrics(self, epoch: int, metrics: dict[str, float]) -> None:
        free, next_ones = free_bytes(self.folder), MARGIN * self.snapshot + self.collected
        if free >= next_ones:
            self.warned = False
        elif not self.warned:
            self.warned = True
            self.note(
                f"warning: the disk is nearly full: {size(free)} are free, the next snapshot and "
                f"the steps until then need {size(next_ones)}; make room, or stop the run now "
                "(Ctrl-C saves it) and go on elsewhere"
            )
