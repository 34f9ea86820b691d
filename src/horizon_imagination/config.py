"""Every number of a run, as plain frozen values. Defaults are the paper's (its appendix tables).

A field, its flag (`--imagination.budget`), its metric prefix and its name in the docs are the same
word. Nothing here builds anything: `Agent` maps a config to networks.
"""

from dataclasses import dataclass, replace
from typing import Literal

from horizon_imagination.learner_config import LearnerConfig

ScheduleKind = Literal["horizon", "pyramidal", "autoregressive", "full"]
"""Sampling schedules by name; `schedules.schedule_of_kind` makes them."""


@dataclass(frozen=True, kw_only=True)
class AtariConfig:
    """The Atari protocol; the defaults are those of the published runs."""

    frame_skip: int = 4
    """Emulated frames per action."""
    max_noops: int = 30
    """A reset is followed by 1 to this many no-ops; 0 switches them off."""
    noop_unit: Literal["steps", "frames"] = "steps"
    """Whether a no-op lasts one agent step (the published runs) or one emulated frame."""
    max_pool: bool = False
    """Take the maximum over the last two emulated frames, against sprite flicker."""
    full_actions: bool = False
    """All 18 actions instead of the game's minimal set."""
    sticky: float = 0.0
    """Probability that the emulator repeats the previous action."""
    end_on_life_loss: bool = False
    """Report the loss of a life as the end of the episode; evaluations play whole games."""
    sign_rewards: bool = False
    """Replace each reward by its sign."""
    max_frames: int = 108_000
    """Emulated frames after which an episode is truncated."""


class UntrustedId(str):
    """The id of an environment that was read from a file: it never names code to import."""

    __slots__ = ()


class DatasetId(UntrustedId):
    """One that was read from a dataset, which no `--trust` is about."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Which world, and how it is seen."""

    id: str = "catch"
    """An embedded world, `ALE/Game-v5`, `Craftium/Name-v0`, any Gymnasium id, or `module:Name`."""
    size: int = 64
    """Height and width of the frames the agent sees."""
    grey: bool = False
    """One channel instead of three."""
    channels: Literal["auto", "rgba", "stack"] = "auto"
    """What the channels of a picture are: grey or RGB (auto), colours with transparency, which is
    dropped (rgba), or frames and planes that are all kept (stack). Four channels need a word."""
    stack_channels: int = 0
    """Channels of a stack; 0 takes what the environment shows when the run starts."""
    range: tuple[float, float] | None = None
    """Lowest and highest value of a picture of floats; none takes the bounds of its space."""
    pixels: bool = False
    """Use the environment's `rgb_array` render as the observation."""
    frame_skip: int = 1
    """Repeat each action (Atari and Craftium have their own)."""
    time_limit: int = 0
    """Truncate episodes after this many agent steps; 0 leaves them to the environment."""
    old_api: bool = False
    """The environment has the old Gym interface: `reset() -> obs`, `step() -> 4 values`."""
    options: str = ""
    """Keyword arguments of the environment, as a JSON object."""
    isolation: Literal["auto", "process", "inline"] = "auto"
    """Run it in its own supervised process, or in this one (auto: process for Craftium only)."""
    step_timeout: float = 60.0
    """Seconds after which a step of a supervised environment counts as hung."""
    reset_timeout: float = 300.0
    """Seconds after which a reset of a supervised environment counts as hung."""
    memory_limit: float = 0.0
    """GiB that a supervised environment may allocate; 0 for as much as the machine has."""
    max_failures: int = 5
    """Failures in a row after which the run writes a snapshot and stops."""
    atari: AtariConfig = AtariConfig()

    def __post_init__(self) -> None:
        if self.channels == "stack" and (self.grey or self.pixels):
            raise ValueError("env.channels stack goes neither with env.grey nor with env.pixels")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError(f"env.range {self.range}: expected the lowest value, then the highest")

    def trusted(self) -> "EnvConfig":
        """The same as if its id had been typed; for `--trust` and its like."""
        return replace(self, id=str(self.id))

    @property
    def frame_channels(self) -> int:
        """Channels of the frames the agent sees."""
        if self.channels == "stack":
            return self.stack_channels
        return 1 if self.grey else 3


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """The tanh autoencoder (appendix A, table 1)."""

    patch_size: int = 1
    """Space-to-depth before the first convolution."""
    channels: int = 64
    """Channels of the first convolution; a multiple of `norm_groups`."""
    multipliers: tuple[int, ...] = (2, 4, 4)
    """Channels per level; every level halves the resolution once."""
    encoder_blocks: int = 2
    """Residual blocks of every level of the encoder."""
    decoder_blocks: int = 3
    """Residual blocks of every level of the decoder."""
    attention_at: tuple[int, ...] = (16,)
    """Resolutions with attention after each residual block."""
    latent_channels: int = 16
    """Channels of the latents."""
    norm_groups: int = 32
    """Groups of channels that are normalised together."""
    perceptual: Literal["vgg16", "vgg19", "none"] = "vgg16"
    """The feature network of the perceptual loss."""
    latent_noise: float = 0.0
    """Half-width of uniform noise on the latents the decoder learns from: it spreads latents."""
    learner: LearnerConfig = LearnerConfig(
        batch_size=32, steps_per_epoch=300, first_epoch=10, weight_decay=0.05, betas=(0.9, 0.95)
    )

    @property
    def pixels_per_cell(self) -> int:
        """Pixels of a frame, in height and in width, that one cell of the latents stands for."""
        return self.patch_size * 2 ** len(self.multipliers)


@dataclass(frozen=True, kw_only=True)
class DenoiserConfig:
    """The frame-causal video DiT."""

    layers: int = 12
    """Transformer blocks."""
    heads: int = 8
    """Attention heads of a block."""
    head_dim: int = 64
    """Channels of a head; the tokens have heads x head_dim."""
    patch_size: int = 2
    """Height and width, in cells of the latents, of what becomes one token."""
    mlp_ratio: int = 4
    """Width of a block's perceptron, as a multiple of the tokens'."""
    prediction: Literal["velocity", "clean"] = "velocity"
    """What the network outputs; the velocity is derived from a clean prediction."""
    loss_weight: Literal["uniform", "noise_squared"] = "uniform"
    """Weight of a frame's velocity error: 1, or (1 - tau)^2."""
    action_tokens: bool = False
    """Add the action to the tokens besides the adaptive norm."""
    normalize: bool = False
    """Centre and scale latents by running statistics at input and output."""
    ema: float = 0.0
    """Decay of the averaged weights that imagination uses; 0 uses the weights themselves."""


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """CNN block, projection and LSTM: the shape of actor, critic and reward model."""

    cnn_channels: int = 256
    """Channels inside the convolutional block."""
    cnn_out_channels: int = 64
    """Channels that it hands to the projection."""
    hidden: int = 512
    """Numbers in the state of the LSTM."""
    normalize: bool = False
    """Centre and scale latents by running statistics before the network."""
    readout: Literal["symlog", "categories"] = "symlog"
    """How critic and reward model predict a scalar: its symlog, or a distribution over bins."""


@dataclass(frozen=True, kw_only=True)
class WorldModelConfig:
    """How denoiser and reward model are trained on segments of real experience."""

    segment_length: int = 33
    """Frames per training segment: context + horizon."""
    clean_prob: float = 0.2
    """Share of samples with a clean prefix."""
    max_clean: float = 0.7
    """Longest clean prefix, as a share of the segment."""
    horizon_times: float = 0.0
    """Share of samples whose times are shaped like a row of the Horizon schedule."""
    noise_ahead: int | None = None
    """Frames of pure noise in a segment that teach the denoiser: the first so many, or all."""
    change_every: int = 0
    """In one sample of so many, half of the noisy frames were begun under other actions; or 0."""
    change_by: Literal["frame", "effect"] = "frame"
    """They show another frame, or their own with what the other action makes different in it."""
    reward_rate: float = 1.0
    """Learning rate of the reward model, as a multiple of the learner's."""
    reward_weight_decay: float | None = None
    """Weight decay of the reward model; none for the learner's."""
    reward_noise: float = 0.0
    """Half-width of uniform noise on the latents it learns from, so that it memorises less."""
    reward_shift: int = 0
    """Cells by which the segments it learns from are shifted at most, in height and width."""
    learner: LearnerConfig = LearnerConfig(
        batch_size=8, steps_per_epoch=300, first_epoch=25, eps=1e-6
    )

    def __post_init__(self) -> None:
        if min(self.reward_shift, self.change_every) < 0:
            both = f"reward_shift ({self.reward_shift}) and change_every ({self.change_every})"
            raise ValueError(f"world_model.{both} must be at least 0")


@dataclass(frozen=True, kw_only=True)
class ImaginationConfig:
    horizon: int = 32
    """H, the number of imagined frames."""
    budget: int = 16
    """B, denoising steps for the whole segment; may be below the horizon."""
    decay_horizon: float = 4.0
    """nu, the width of the ramp: at most this many frames are between noise and clean at once; a
    step may move more, those that begin and end in it. 1 is autoregressive."""
    sampler: Literal["stable", "coupled", "naive", "naive_held"] = "stable"
    """How actions are drawn at each denoising step (naive is the paper's ablation)."""
    context: int = 1
    """Clean frames the world model starts from."""
    engine: Literal["window", "plain"] = "window"
    """window evaluates the frames that change, plain every frame, with the same results."""

    def __post_init__(self) -> None:
        if self.horizon < 1 or self.budget < 1:
            raise ValueError("imagination.horizon and imagination.budget must be at least 1")
        if not 1 <= self.decay_horizon <= self.horizon:
            bounds = f"[1, {self.horizon}] (the horizon), got {self.decay_horizon}"
            raise ValueError(f"imagination.decay_horizon must lie in {bounds}")
        if self.context < 1:
            raise ValueError("imagination.context must be at least 1: a dream starts from a frame")
        if self.sampler == "naive" and self.engine == "window":
            raise ValueError(
                "imagination.sampler naive redraws every action at every step and needs "
                "imagination.engine plain; naive_held runs on the window"
            )


@dataclass(frozen=True, kw_only=True)
class ControllerConfig:
    """Actor and critic, trained in imagination."""

    discount: float = 0.99
    """Weight of a reward one step later."""
    lambda_: float = 0.95
    """Of the lambda-returns: 0 trusts the critic after one step, 1 the rewards alone."""
    entropy_weight: float = 0.001
    """Weight of the policy's entropy in the actor's objective."""
    context: int = 20
    """Real frames that actor and critic see before the first imagined one."""
    use_tau: bool = True
    """Give the actor the denoising time of each frame."""
    smooth_tau: bool = False
    """Tell it in low frequencies that start small, not in sinusoids of 1000 tau."""
    shared_encoder: bool = True
    """One frame encoder for actor and critic, as in the published runs; the paper says two."""
    center_features: bool = False
    """Centre what the encoder projects, so that the LSTMs do not saturate in its mean."""
    clean_level: bool = True
    """Train the actor on the clean row too, as in the published runs."""
    rewarded: Literal["dream", "replay"] = "dream"
    """What pays: the dream (the paper), or its noise again with its last actions from the start."""
    return_scale_decay: float = 0.005
    """Share of the new in the running scale of returns, per step."""
    scale_by_deviation: bool = False
    """Scale advantages at least by the deviation of a batch's returns, for rare large rewards."""
    actor_bias: tuple[float, ...] = ()
    """Prior of the actor's output bias, one number per action."""
    network: RecurrentConfig = RecurrentConfig(normalize=True)
    learner: LearnerConfig = LearnerConfig(batch_size=30, steps_per_epoch=50, first_epoch=40)


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    capacity: int = 1_000_000
    """Sample from this many of the newest frames; all frames stay on disk."""
    recent_share: float = 0.3
    """Share of each batch that is sampled by Beta(3, 1), which favours recent data."""
    min_segment: int = 4
    """Shortest training segment, in frames; no end is learned nearer to its first one."""
    min_future: int = 1
    """Least number of real steps after a context; raise it where episodes are short."""
    end_share: float = 0.0
    """Share of the world model's segments that reach to the end of an episode that terminated.
    Where ends are rare and dreams do not end (`world_model/imagined_end`), try 0.15."""

    def __post_init__(self) -> None:
        if min(self.capacity, self.min_segment, self.min_future) < 1:
            raise ValueError("replay.capacity, min_segment and min_future must be at least 1")
        for name in ("recent_share", "end_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"replay.{name} must lie in [0, 1], got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    epochs: int = 500
    """Epochs of the whole run; in each, steps are collected and every learner learns."""
    collect_steps: int = 200
    """Environment steps per epoch."""
    initial_steps: int = 0
    """Environment steps before the first epoch."""
    snapshot_every: int = 10
    """Epochs between snapshots."""
    keep_snapshots: int = 2
    """How many of the latest snapshots are kept; if the last is damaged, the one before counts."""
    evaluate_every: int = 0
    """Epochs between evaluations; 0 for none."""
    evaluation_episodes: int = 16
    """Episodes of every evaluation."""
    target_return: float | None = None
    """Stop early when an evaluation of the best snapshot, on new episodes, reaches this return."""
    strips_every: int = 50
    """Epochs between film strips; 0 for none."""
    examine_every: int = 1
    """Epochs between measurements of the world model; 0 for the last epoch alone."""
    overlap: bool = False
    """While the tokenizer rests, act and train world model and controller concurrently: the latter
    imagines in the world model of the epoch's start, and new steps are learned from in the next."""
    keep_every_hours: float = 0.0
    """Also keep the first snapshot of every so many hours of training; 0 for none."""

    def examines(self, epoch: int) -> bool:
        """Whether the world model is measured in an epoch (from 0): in the last one always."""
        due = self.examine_every > 0 and epoch % self.examine_every == 0
        return due or epoch + 1 == self.epochs


@dataclass(frozen=True, kw_only=True)
class OfflineConfig:
    """Offline training on a dataset: tokenizer, then world model, then controller."""

    tokenizer_epochs: int = 10
    """Epochs in which the tokenizer learns, before the others."""
    tokenizer_steps: int = 3000
    """Steps per epoch."""
    world_model_epochs: int = 100
    """Epochs in which the world model learns, after the tokenizer."""
    world_model_steps: int = 3000
    """Steps per epoch."""
    controller_epochs: int = 500
    """Epochs in which the controller learns, after the world model."""
    controller_steps: int = 100
    """Steps per epoch."""


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    device: str = "auto"
    """cuda, cuda:N, mps, cpu, or auto for the best one available."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of activations: auto is bfloat16 on CUDA, float32 elsewhere."""
    graphs: Literal["auto", "on", "off"] = "auto"
    """Capture every training step as a CUDA graph; auto: on CUDA, in one process."""
    fused: Literal["auto", "on", "off"] = "auto"
    """Triton kernels for norms, LSTMs and the denoiser in imagination; auto: where they can run."""
    compile: bool = False
    """On CUDA, compile the blocks of the denoiser for training: the first steps take 10 s more."""
    threads: int = 0
    """CPU threads; 0 takes the fastest number in a short trial, which the run then keeps."""
    preempt_signal: str = "SIGUSR1"
    """Besides SIGTERM, SIGINT and SIGHUP, the signal that asks a run to write a snapshot and stop,
    with exit status 75; none for no other."""


@dataclass(frozen=True, kw_only=True)
class Config:
    env: EnvConfig = EnvConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    denoiser: DenoiserConfig = DenoiserConfig()
    reward: RecurrentConfig = RecurrentConfig()
    world_model: WorldModelConfig = WorldModelConfig()
    controller: ControllerConfig = ControllerConfig()
    imagination: ImaginationConfig = ImaginationConfig()
    replay: ReplayConfig = ReplayConfig()
    training: TrainingConfig = TrainingConfig()
    offline: OfflineConfig = OfflineConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    seed: int = 0
    """Seed of all random streams."""

    def __post_init__(self) -> None:
        shift, size = self.world_model.reward_shift, self.env.size
        cell = self.tokenizer.pixels_per_cell
        if shift and (shift + 1) * cell > size:
            raise ValueError(f"world_model.reward_shift {shift} must be < {size} / {cell} cells")
