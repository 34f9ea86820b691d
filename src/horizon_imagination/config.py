"""Every number of a run, as plain frozen values. Defaults are the paper's (its appendix tables).

A field, its flag (`--imagination.budget`), its metric prefix and its name in the docs are the same
word. Nothing here builds anything: `agent.build` maps a config to networks.
"""

from dataclasses import dataclass
from typing import Literal

from horizon_imagination.env_config import AtariConfig, EnvConfig

__all__ = [
    "AtariConfig",
    "Config",
    "ControllerConfig",
    "DenoiserConfig",
    "EnvConfig",
    "ImaginationConfig",
    "LearnerConfig",
    "OfflineConfig",
    "RecurrentConfig",
    "ReplayConfig",
    "RuntimeConfig",
    "TokenizerConfig",
    "TrainingConfig",
    "WorldModelConfig",
]


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """The optimiser (AdamW) of one network and its share of every epoch."""

    batch_size: int
    steps_per_epoch: int
    first_epoch: int = 0
    """Epoch (from 0) at which this learner starts."""
    learning_rate: float = 2e-4
    final_learning_rate: float | None = None
    """Reached by cosine decay after `decay_steps`; none keeps the rate."""
    decay_steps: int = 0
    last_epoch: int | None = None
    """Epoch after which this learner rests; none for never."""
    warmup_steps: int = 0
    """Steps of linear warm-up."""
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-8
    max_grad_norm: float = 1.0
    micro_batches: int = 1
    """Cut each batch into this many pieces and accumulate gradients, for small cards."""

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.steps_per_epoch < 0 or self.micro_batches < 1:
            raise ValueError(
                "batch_size and micro_batches must be at least 1, steps_per_epoch at least 0"
            )
        if self.batch_size % self.micro_batches:
            raise ValueError(
                f"micro_batches ({self.micro_batches}) must divide batch_size ({self.batch_size})"
            )


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """The tanh autoencoder (appendix A, table 1)."""

    patch_size: int = 1
    """Space-to-depth before the first convolution."""
    channels: int = 64
    multipliers: tuple[int, ...] = (2, 4, 4)
    """Channels per level; every level halves the resolution once."""
    encoder_blocks: int = 2
    decoder_blocks: int = 3
    attention_at: tuple[int, ...] = (16,)
    """Resolutions with attention after each residual block."""
    latent_channels: int = 16
    norm_groups: int = 32
    perceptual: Literal["vgg16", "vgg19", "none"] = "vgg16"
    """The feature network of the perceptual loss."""
    latent_noise: float = 0.0
    """Uniform noise of this half-width on the latents the decoder learns from: makes latents use
    their range, so that small errors of imagination stay small in pixels."""
    learner: LearnerConfig = LearnerConfig(
        batch_size=32, steps_per_epoch=300, first_epoch=10, weight_decay=0.05, betas=(0.9, 0.95)
    )


@dataclass(frozen=True, kw_only=True)
class DenoiserConfig:
    """The frame-causal video DiT."""

    layers: int = 12
    heads: int = 8
    head_dim: int = 64
    patch_size: int = 2
    mlp_ratio: int = 4
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
    cnn_out_channels: int = 64
    hidden: int = 512
    normalize: bool = False
    """Centre and scale latents by running statistics before the network."""


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
    learner: LearnerConfig = LearnerConfig(
        batch_size=8, steps_per_epoch=300, first_epoch=25, eps=1e-6
    )


@dataclass(frozen=True, kw_only=True)
class ImaginationConfig:
    horizon: int = 32
    """H, the number of frames imagined at once."""
    budget: int = 16
    """B, denoising steps for the whole segment; may be below the horizon."""
    decay_horizon: float = 4.0
    """nu, how many frames are in flight at a time; 1 is autoregressive."""
    sampler: Literal["stable", "coupled", "naive", "naive_held"] = "stable"
    """How actions are drawn at each denoising step (naive is the paper's ablation)."""
    context: int = 1
    """Clean frames the world model starts from."""
    engine: Literal["window", "plain"] = "window"
    """The exact window over a cache, or the plain loop that evaluates everything."""

    def __post_init__(self) -> None:
        if self.horizon < 1 or self.budget < 1:
            raise ValueError("imagination.horizon and imagination.budget must be at least 1")
        if not 1 <= self.decay_horizon <= self.horizon:
            raise ValueError(
                f"imagination.decay_horizon must lie in [1, {self.horizon}] (the horizon), "
                f"got {self.decay_horizon}"
            )
        if self.context < 1:
            raise ValueError(
                "imagination.context must be at least 1: the agent starts from a frame"
            )
        if self.sampler == "naive" and self.engine == "window":
            raise ValueError(
                "imagination.sampler naive redraws every action at every step and needs "
                "imagination.engine plain; naive_held runs on the window"
            )


@dataclass(frozen=True, kw_only=True)
class ControllerConfig:
    """Actor and critic, trained in imagination."""

    discount: float = 0.99
    lambda_: float = 0.95
    entropy_weight: float = 0.001
    context: int = 20
    """Real frames that actor and critic see before the first imagined one."""
    use_tau: bool = True
    """Tell the actor how noisy a frame is."""
    shared_encoder: bool = True
    """One frame encoder for actor and critic, as in the published runs; the paper says two."""
    clean_level: bool = True
    """Train the actor on the clean row too, as in the published runs."""
    return_scale_decay: float = 0.005
    actor_bias: tuple[float, ...] = ()
    """Prior of the actor's output bias, one number per action."""
    network: RecurrentConfig = RecurrentConfig(normalize=True)
    learner: LearnerConfig = LearnerConfig(batch_size=30, steps_per_epoch=50, first_epoch=40)


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    capacity: int = 1_000_000
    """Sample from the newest this many frames; all are kept on disk."""
    recent_share: float = 0.3
    """Share of each batch drawn from Beta(3, 1), which favours recent data."""
    min_segment: int = 4
    """Shortest training segment, in frames."""
    min_future: int = 1
    """Real steps that must follow the context of an imagination: in worlds of short episodes, more
    of them keep it from starting where nothing can be changed any more."""

    def __post_init__(self) -> None:
        if self.min_segment < 1 or self.min_future < 1 or self.capacity < 1:
            raise ValueError(
                "replay.capacity, replay.min_segment and replay.min_future must be at least 1"
            )
        if not 0 <= self.recent_share <= 1:
            raise ValueError(f"replay.recent_share must lie in [0, 1], got {self.recent_share}")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    epochs: int = 500
    collect_steps: int = 200
    """Environment steps per epoch."""
    initial_steps: int = 0
    """Environment steps before the first epoch."""
    snapshot_every: int = 10
    """Epochs between snapshots."""
    keep_snapshots: int = 1
    evaluate_every: int = 0
    """Epochs between evaluations; 0 evaluates only on request."""
    evaluation_episodes: int = 16
    target_return: float | None = None
    """Stop early once an evaluation (of the best snapshot, on fresh episodes) reaches this."""
    strips_every: int = 50
    """Epochs between film strips; 0 switches them off."""


@dataclass(frozen=True, kw_only=True)
class OfflineConfig:
    """The phases of training on a stored dataset, one after the other."""

    tokenizer_epochs: int = 10
    tokenizer_steps: int = 3000
    """Steps per epoch."""
    world_model_epochs: int = 100
    world_model_steps: int = 3000
    controller_epochs: int = 500
    controller_steps: int = 100


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    device: str = "auto"
    """cuda, mps, cpu, or auto for the best there is."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Activations of networks: auto is bfloat16 on CUDA, float32 elsewhere."""
    graphs: bool = False
    """Capture every training step as a CUDA graph (CUDA only)."""
    fused: Literal["auto", "on", "off"] = "auto"
    """Triton kernels for norms, LSTMs and the denoiser of imagination: auto where they can run."""
    threads: int = 0
    """CPU threads; 0 leaves the choice to torch."""


@dataclass(frozen=True, kw_only=True)
class Config:
    env: EnvConfig = EnvConfig()  # noqa: RUF009  (frozen)
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
    """All random streams derive from it."""
