"""What a config costs, counted without running it: parameters, FLOPs, bytes, activations.

Networks are built on the meta device and passed through torch's counter, which takes seconds and
no memory whatever the sizes. `horizon info`, `horizon bench` and the estimate before a run all
read this count. Its rules:

    FLOPs   a multiply-add is two, a backward pass costs two forward passes;
            attention counts the pairs of frames that see each other, masked pairs and padding
            do not count;
            imagination counts the frames of its window plan (`windows.window_plan`)
    bytes   a lower bound, with every intermediate result kept on chip:
            inference   weights, once per evaluation of a window
                        + latents in and out (float32)
                        + keys and values: of settled frames read, of the window's frames written
            training    weights, read forwards and backwards
                        + gradients written and read, AdamW's three numbers read and written
                        + activations that the backward pass needs, written and read
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from horizon_imagination.actions import ActionSpace, Box, as_space
from horizon_imagination.config import Config, LearnerConfig
from horizon_imagination.engine.policy_windows import EntryPlan, entry_plan
from horizon_imagination.models.perceptual import BLOCKS
from horizon_imagination.networks import Networks, build_networks
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.types import Schedule
from horizon_imagination.windows import window_plan

FLOAT = 4
"""Bytes of a float32."""
VGG_CHANNELS = (64, 128, 256, 512, 512)


@dataclass(frozen=True)
class Forward:
    """A forward pass."""

    flops: float
    activations: float
    """Bytes kept for the backward pass, in float32."""

    def __add__(self, other: "Forward") -> "Forward":
        return Forward(self.flops + other.flops, self.activations + other.activations)

    def times(self, factor: float) -> "Forward":
        """This pass repeated, or a share of it."""
        return Forward(self.flops * factor, self.activations * factor)


@dataclass(frozen=True)
class Work:
    """One call of a stage."""

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
    """Frames that the denoiser evaluates in them."""
    pairs: int
    """Pairs of frames, one attending to the other: each sees itself and all before it."""
    seen: int
    """Frames whose keys and values are read or written, over all windows."""
    actor_frames: int
    """Imagined frames that the actor evaluates."""


def plan_counts(schedule: Schedule, context: int, *, window: bool = True) -> PlanCounts:
    """Count over the window plan, or over all frames at every row for the plain loop.

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
    # The actor leads to every frame of a window but its first; the clean row asks once more.
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
class Costs:
    """The count of a config.

    Methods that take a config want one that differs from the counted one in its imagination alone.
    """

    config: Config
    parameters: dict[str, int]
    """By network; what two networks share is counted once."""
    encode: Forward
    """The tokenizer on a frame, there and back."""
    decode: Forward
    dense_segment: Forward
    """The denoiser on a training segment, with the masked pairs of frames: torch's count."""
    reward: Forward
    """Reward model, actor and critic, on a frame each."""
    actor: Forward
    critic: Forward
    frame_encoder: Forward
    """The part of the actor before its LSTM, on a frame."""
    number: int = FLOAT
    """Bytes of a number in the precision of the networks."""
    steps: dict[str, Forward] = field(init=False)
    """FLOPs of an optimiser step of every learner, and activations of one of its micro-batches."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", self._steps())

    @property
    def act(self) -> float:
        """FLOPs of one step in the real world."""
        return self.encode.flops + self.actor.flops

    @property
    def side(self) -> int:
        """Height and width of a latent frame."""
        cfg = self.config.tokenizer
        return self.config.env.size // cfg.patch_size // 2 ** len(cfg.multipliers)

    @property
    def tokens(self) -> int:
        """Tokens of a frame in the denoiser."""
        return (self.side // self.config.denoiser.patch_size) ** 2

    @property
    def latent_bytes(self) -> int:
        """Bytes of a latent frame."""
        return FLOAT * self.config.tokenizer.latent_channels * self.side**2

    @property
    def pair_flops(self) -> float:
        """FLOPs of attention per pair of frames: a product for scores and one for values."""
        cfg = self.config.denoiser
        return 4.0 * self.tokens**2 * cfg.heads * cfg.head_dim * cfg.layers

    @property
    def frame_flops(self) -> float:
        """FLOPs of the denoiser per frame, attention left out."""
        length = self.config.world_model.segment_length
        return self.dense_segment.flops / length - self.pair_flops * length

    @property
    def segment(self) -> Forward:
        """The denoiser on a training segment."""
        length = self.config.world_model.segment_length
        masked = self.pair_flops * length * (length - 1) / 2
        return Forward(self.dense_segment.flops - masked, self.dense_segment.activations)

    def plan(self, config: Config) -> PlanCounts:
        """What the imagination of a config asks for."""
        cfg = config.imagination
        return plan_counts(_schedule(config), cfg.context, window=cfg.engine == "window")

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
        """The denoiser, and the actor over the real context and the windows."""
        plan = self.plan(config)
        frames = batch * (config.controller.context + plan.actor_frames)
        calls = 2 + plan.evaluations  # the context, every window, the clean row
        actor = Work(
            self.actor.flops * frames,
            calls * self._weights("actor") + self.latent_bytes * frames,
        )
        return self.denoiser(config, batch) + actor

    def rewards(self, config: Config, batch: int) -> Work:
        """Rewards and ends of imagined trajectories."""
        frames = batch * (config.imagination.context + config.imagination.horizon)
        return Work(
            self.reward.flops * frames, self._weights("reward") + self.latent_bytes * frames
        )

    def judged(self, config: Config, batch: int) -> Work:
        """Imagination and its rewards; where it is replayed, the denoiser once more."""
        work = self.imagination(config, batch) + self.rewards(config, batch)
        return work + self.denoiser(config, batch) if _replays(config) else work

    def controller(self, config: Config) -> Work:
        """A whole step of the controller: imagination, rewards, and learning from them."""
        batch = config.controller.learner.batch_size
        learned = Work(
            3 * batch * self._learned(config).flops,
            self._trained("controller", ("actor", "critic")),
        )
        return self.judged(config, batch) + learned

    def learner(self, name: str) -> Work:
        """A step of the tokenizer or of the world model."""
        networks = ("tokenizer",) if name == "tokenizer" else ("denoiser", "reward")
        return Work(self.steps[name].flops, self._trained(name, networks))

    def encoding(self, frames: int, block: int) -> Work:
        """Stored frames to latents, in blocks; about half of the tokenizer's weights encode."""
        channels = self.config.env.frame_channels
        moved = frames * (channels * self.config.env.size**2 + self.latent_bytes)
        return Work(
            self.encode.flops * frames, moved + frames / block * self._weights("tokenizer") / 2
        )

    def _steps(self) -> dict[str, Forward]:
        config, length = self.config, self.config.world_model.segment_length
        forward = {
            "tokenizer": self.encode + self.decode + perceptual(config),
            "world_model": self.segment + self.reward.times(length),
            "controller": self._learned(config),
        }
        steps = {}
        for name, one in forward.items():
            learner: LearnerConfig = getattr(config, name).learner
            piece = learner.batch_size // learner.micro_batches
            steps[name] = Forward(
                3 * one.flops * piece * learner.micro_batches, one.activations * piece
            )
        batch = config.controller.learner.batch_size
        steps["controller"] += Forward(self.judged(config, batch).flops, 0.0)
        steps["world_model"] += Forward(self.segment.flops * _begun_otherwise(config), 0.0)
        return steps

    def _learned(self, config: Config) -> Forward:
        """What has a gradient in a controller's step, for one trajectory.

        The actor sees context and imagined frames clean, all but the last, and the noisy frames
        of its entries; the critic sees all of them clean. An encoder that both share sees the
        clean frames once, unless the critic's are replayed.
        """
        frames = config.controller.context + config.imagination.horizon
        noisy = len(_entries(config).frames)
        both = self.actor.times(frames - 1 + noisy) + self.critic.times(frames)
        once = config.controller.shared_encoder and not _replays(config)
        saved = frames - 1 if once else 0
        return both + self.frame_encoder.times(-saved)

    def _weights(self, network: str) -> float:
        return float(self.number * self.parameters[network])

    def _trained(self, name: str, networks: tuple[str, ...]) -> float:
        parameters = sum(self.parameters[network] for network in networks)
        pieces = getattr(self.config, name).learner.micro_batches
        kept = self.steps[name].activations * pieces * self.number / FLOAT
        return parameters * (2 * pieces * self.number + 8 * FLOAT) + 2 * kept


def costs(config: Config, action_space: ActionSpace | int, number: int = FLOAT) -> Costs:
    """Count a config."""
    with torch.device("meta"):
        networks = build_networks(config, action_space)
        latent = config.tokenizer.latent_channels, *(networks.tokenizer.latent_size,) * 2
        image = torch.empty(1, config.env.frame_channels, config.env.size, config.env.size)
        length = config.world_model.segment_length
        z, tau = torch.empty(1, length, *latent), torch.empty(1, length)
        kind = torch.float32 if isinstance(action_space, Box) else torch.long
        actions = torch.zeros(1, length, *as_space(action_space).shape, dtype=kind)
        one = torch.empty(1, *latent)
        passes = {
            "encode": measure(lambda: networks.tokenizer.encode_images(image), networks),
            "decode": measure(lambda: networks.tokenizer.decode_images(one), networks),
            "dense_segment": measure(lambda: networks.denoiser(z, tau, actions), networks),
            "reward": measure(lambda: networks.reward(z), networks).times(1 / length),
            "actor": measure(lambda: networks.actor(z), networks).times(1 / length),
            "critic": measure(lambda: networks.critic(z), networks).times(1 / length),
            "frame_encoder": measure(lambda: networks.actor.encoder(z), networks).times(1 / length),
        }
    return Costs(config=config, parameters=_parameters(networks), number=number, **passes)


def _schedule(config: Config) -> Schedule:
    cfg = config.imagination
    return horizon_schedule(cfg.horizon, cfg.budget, cfg.decay_horizon)


def _entries(config: Config) -> EntryPlan:
    return entry_plan(_schedule(config), clean_level=config.controller.clean_level)


def _begun_otherwise(config: Config) -> int:
    """Segments that the denoiser is asked about in a step, before it learns, to begin frames under
    other actions; by their effect, under their own too."""
    cfg = config.world_model
    if not cfg.change_every:
        return 0
    piece = cfg.learner.batch_size // cfg.learner.micro_batches
    asked = 2 if cfg.change_by == "effect" else 1
    return asked * -(-piece // cfg.change_every) * cfg.learner.micro_batches


def _replays(config: Config) -> bool:
    """Whether the controller denoises its dreams once more, with their last actions."""
    return config.controller.rewarded == "replay" and bool(_entries(config).frames)


def _parameters(networks: Networks) -> dict[str, int]:
    counts, seen = {}, set()
    for name, network in networks._asdict().items():
        own = [p for p in network.parameters() if id(p) not in seen]
        counts[name] = sum(p.numel() for p in own)
        seen.update(map(id, own))
    return counts


def perceptual(config: Config) -> Forward:
    """The feature network on a frame and its reconstruction, as a part of a learning step."""
    if config.tokenizer.perceptual == "none":
        return Forward(0.0, 0.0)
    flops, activations, size, before = 0.0, 0.0, config.env.size, 3
    for width, layers in zip(VGG_CHANNELS, BLOCKS[config.tokenizer.perceptual], strict=True):
        for _ in range(layers):
            flops += 2 * 9 * before * width * size**2
            activations += FLOAT * width * size**2
            before = width
        size //= 2
    # Forward twice and backward once to the image: a third of it is what learning multiplies by 3.
    return Forward(flops, activations)


def measure(forward: Callable[[], object], networks: Networks) -> Forward:
    """FLOPs of a forward pass, and the bytes that it keeps for the backward one."""
    weights = {p.untyped_storage()._cdata for n in networks for p in n.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()._cdata
        if storage not in weights:
            kept[storage] = tensor
        return tensor

    with FlopCounterMode(display=False) as counter, saved_tensors_hooks(keep, lambda x: x):
        out = forward()  # noqa: F841  (kept: its graph holds the tensors)
    size = sum(x.untyped_storage().nbytes() for x in kept.values())
    return Forward(float(counter.get_total_flops()), float(size))
