"""How much work a stage is: floating-point operations, and the fewest bytes it has to move.

Operations are those of `run.costs`; imagination's are counted from its window plan. Bytes are a
lower bound, with every intermediate result kept on chip:

    inference   weights, once per evaluation of a window
                + latents in and out (float32)
                + keys and values: of settled frames read, of the window's frames written
    training    weights, read forwards and backwards
                + gradients written and read, AdamW's three numbers read and written (float32)
                + activations that the backward pass needs, written and read
"""

from dataclasses import dataclass

from horizon_imagination.config import Config
from horizon_imagination.engine.policy_windows import entry_plan
from horizon_imagination.run.costs import Costs
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.types import Schedule
from horizon_imagination.windows import window_plan

FLOAT = 4


@dataclass(frozen=True)
class Work:
    """Of one call of a stage."""

    flops: float = 0.0
    moved: float = 0.0
    """Bytes."""

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flops + other.flops, self.moved + other.moved)


@dataclass(frozen=True)
class PlanCounts:
    """What a schedule asks of the networks for one trajectory."""

    evaluations: int
    """Windows that the denoiser is called with."""
    frames: int
    """Frames that it evaluates in them."""
    pairs: int
    """Of these, queries x keys, in frames: each sees itself and all before it."""
    seen: int
    """Frames whose keys and values are read or written, over all windows."""
    actor_frames: int
    """Imagined frames that the actor evaluates."""


def plan_counts(schedule: Schedule, context: int, *, window: bool = True) -> PlanCounts:
    """Count over the windows, or over all frames at every row if there are none.

    >>> plan_counts(horizon_schedule(2, 2, 1), context=1)
    PlanCounts(evaluations=2, frames=4, pairs=8, seen=5, actor_frames=1)
    """
    horizon, rows = schedule.shape[1], len(schedule) - 1
    if not window:
        every = context + horizon
        pairs = rows * every * (every + 1) // 2
        return PlanCounts(rows, rows * every, pairs, rows * every, (rows + 1) * (horizon - 1))
    plan = window_plan(schedule, context)
    clean = (schedule == 1).int().cumprod(1).sum(1).tolist()
    settled, actor_frames = 0, 0
    for row, end in [*((w.row, w.stop - context - 1) for w in plan), (rows, horizon - 1)]:
        if end > settled:
            actor_frames += end - settled
            settled = max(settled, min(clean[row], end))
    return PlanCounts(
        evaluations=sum(w.width > 0 for w in plan),
        frames=sum(w.width for w in plan),
        pairs=sum((w.stop * (w.stop + 1) - w.start * (w.start + 1)) // 2 for w in plan),
        seen=sum(w.stop for w in plan if w.width),
        actor_frames=actor_frames,
    )


@dataclass(frozen=True)
class Counts:
    """The work of every stage of a config; imagination's depends on its schedule and batch."""

    config: Config
    counted: Costs
    number: int
    """Bytes of a number in the networks' precision."""

    @property
    def side(self) -> int:
        """Height and width of latents."""
        cfg = self.config.tokenizer
        return self.config.env.size // cfg.patch_size // 2 ** len(cfg.multipliers)

    @property
    def tokens(self) -> int:
        """Of a frame."""
        return (self.side // self.config.denoiser.patch_size) ** 2

    @property
    def latent_bytes(self) -> int:
        """Of a frame."""
        return FLOAT * self.config.tokenizer.latent_channels * self.side**2

    @property
    def pair_flops(self) -> float:
        """Of attention, per pair of frames: a product for scores and one for values."""
        cfg = self.config.denoiser
        return 4.0 * self.tokens**2 * cfg.heads * cfg.head_dim * cfg.layers

    @property
    def frame_flops(self) -> float:
        """Of the denoiser without attention, per frame; the counter's attention is dense."""
        length = self.config.world_model.segment_length
        return self.counted.denoise / length - self.pair_flops * length

    def plan(self, config: Config) -> PlanCounts:
        """Of a config that differs from this one in its imagination alone."""
        cfg = config.imagination
        schedule = horizon_schedule(cfg.horizon, cfg.budget, cfg.decay_horizon)
        return plan_counts(schedule, cfg.context, window=cfg.engine == "window")

    def denoiser(self, config: Config, batch: int) -> Work:
        """The denoiser over all windows."""
        plan, cfg = self.plan(config), self.config.denoiser
        keys_values = 2 * cfg.layers * self.tokens * cfg.heads * cfg.head_dim * self.number
        return Work(
            batch * (self.frame_flops * plan.frames + self.pair_flops * plan.pairs),
            plan.evaluations * self._weights("denoiser")
            + batch * (2 * self.latent_bytes * plan.frames + keys_values * plan.seen),
        )

    def imagination(self, config: Config, batch: int) -> Work:
        """The denoiser, and the actor over context and windows."""
        plan, context = self.plan(config), self.config.controller.context
        frames = batch * (context + plan.actor_frames)
        calls = 2 + plan.evaluations
        actor = Work(
            self.counted.actor * frames,
            calls * self._weights("actor") + self.latent_bytes * frames,
        )
        return self.denoiser(config, batch) + actor

    def rewards(self, config: Config, batch: int) -> Work:
        """Rewards and ends of imagined trajectories."""
        frames = batch * (config.imagination.context + config.imagination.horizon)
        return Work(
            self.counted.reward * frames, self._weights("reward") + self.latent_bytes * frames
        )

    def controller(self, config: Config) -> Work:
        """A whole step of the controller: imagination, rewards, and learning from them."""
        cfg, learner = config.imagination, config.controller.learner
        batch, context = learner.batch_size, config.controller.context
        schedule = horizon_schedule(cfg.horizon, cfg.budget, cfg.decay_horizon)
        noisy = len(entry_plan(schedule, clean_level=config.controller.clean_level).frames)
        flops = self.counted.actor * (context + cfg.horizon - 1 + noisy)
        flops += self.counted.critic * (context + cfg.horizon)
        learned = Work(3 * batch * flops, self._trained("controller", ("actor", "critic")))
        return self.imagination(config, batch) + self.rewards(config, batch) + learned

    def learner(self, name: str) -> Work:
        """A step of the tokenizer or of the world model."""
        networks = ("tokenizer",) if name == "tokenizer" else ("denoiser", "reward")
        return Work(self.counted.steps[name].flops, self._trained(name, networks))

    def encoding(self, frames: int, block: int) -> Work:
        """Stored frames to latents, in blocks; about half of the tokenizer's weights encode."""
        channels = 1 if self.config.env.grey else 3
        moved = frames * (channels * self.config.env.size**2 + self.latent_bytes)
        return Work(
            self.counted.encode * frames, moved + frames / block * self._weights("tokenizer") / 2
        )

    def _weights(self, network: str) -> float:
        return float(self.number * self.counted.parameters[network])

    def _trained(self, name: str, networks: tuple[str, ...]) -> float:
        parameters = sum(self.counted.parameters[network] for network in networks)
        pieces = getattr(self.config, name).learner.micro_batches
        kept = self.counted.steps[name].activations * pieces * self.number / FLOAT
        return parameters * (2 * pieces * self.number + 8 * FLOAT) + 2 * kept
