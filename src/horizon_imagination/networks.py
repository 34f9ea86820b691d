"""From a config to networks: the five of an agent, or actor and critic alone."""

from operator import attrgetter
from typing import NamedTuple

from horizon_imagination.actions import ActionSpace, Box
from horizon_imagination.config import Config, RecurrentConfig
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.models.actor_critic import Actor, Critic
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.models.tokenizer import Tokenizer

SIZES = {
    "tokenizer": (
        *("patch_size", "channels", "encoder_blocks", "decoder_blocks"),
        *("latent_channels", "norm_groups"),
    ),
    "denoiser": ("heads", "head_dim", "patch_size", "mlp_ratio"),
    "reward": ("cnn_channels", "cnn_out_channels", "hidden"),
    "controller.network": ("cnn_channels", "cnn_out_channels", "hidden"),
}
"""Fields of the config of which no network can be built below 1."""


class Networks(NamedTuple):
    """The five networks, in the order in which they draw their initial weights."""

    tokenizer: Tokenizer
    denoiser: Denoiser
    reward: RewardModel
    actor: Actor
    critic: Critic


def build_controller(
    config: Config, action_space: ActionSpace | int, channels: int, size: int
) -> tuple[Actor, Critic]:
    """Actor and critic for latents of this shape."""
    _check_context(config)
    shape = _shape(config.controller.network, channels, size)
    shape["center"] = config.controller.center_features
    with as_usage_error():
        _check_sampler(config, action_space)
        actor = Actor(
            outputs=action_space,
            use_tau=config.controller.use_tau,
            bias=config.controller.actor_bias,
            smooth_tau=config.controller.smooth_tau,
            **shape,
        )
        critic = Critic(readout=config.controller.network.readout, **shape)
    if config.controller.shared_encoder:
        critic.encoder = actor.encoder
    return actor, critic


def _check_sampler(config: Config, action_space: ActionSpace | int) -> None:
    if config.imagination.sampler == "coupled" and isinstance(action_space, Box):
        raise ValueError(
            "imagination.sampler coupled is for discrete actions: use stable, which is an optimal "
            "coupling of continuous ones"
        )


def build_networks(config: Config, action_space: ActionSpace | int) -> Networks:
    """The networks of a config, on torch's default device and from its default generator."""
    check_sizes(config)
    tokenizer = _tokenizer(config)
    latent = (config.tokenizer.latent_channels, tokenizer.latent_size)
    with as_usage_error():
        denoiser = _denoiser(config, action_space, *latent)
        reward = RewardModel(readout=config.reward.readout, **_shape(config.reward, *latent))
    return Networks(tokenizer, denoiser, reward, *build_controller(config, action_space, *latent))


def check_sizes(config: Config) -> None:
    """Refuse sizes that do not fit one another, before a network is built from them."""
    for section, names in SIZES.items():
        for name in names:
            if (value := attrgetter(f"{section}.{name}")(config)) < 1:
                raise UsageError(f"{section}.{name} is {value}: expected at least 1")
    if config.denoiser.head_dim % 2:
        raise UsageError(
            f"denoiser.head_dim {config.denoiser.head_dim} is odd: expected an even number, whose "
            "pairs the positions turn"
        )
    channels, groups = config.tokenizer.channels, config.tokenizer.norm_groups
    if channels % groups:
        raise UsageError(
            f"tokenizer.channels {channels} is not a multiple of tokenizer.norm_groups {groups}: "
            f"take other channels ({_multiples(channels, groups)}) or other groups"
        )
    _check_frames(config)


def _check_frames(config: Config) -> None:
    """Frames divide into cells of the latents, and these into patches of the denoiser."""
    size, patch = config.env.size, config.denoiser.patch_size
    cell = config.tokenizer.pixels_per_cell
    around = _multiples(size, cell * patch)
    if size % cell:
        raise UsageError(
            f"env.size {size} does not fit: the tokenizer divides frames by {cell} and the "
            f"denoiser by {patch} more, so the size must be a multiple of {cell * patch} ({around})"
        )
    side = size // cell
    if side % patch:
        fitting = ", ".join(str(n) for n in range(1, side + 1) if side % n == 0)
        raise UsageError(
            f"env.size {size} and denoiser.patch_size {patch} do not fit: the patches must divide "
            f"{side} x {side} latents; take a size that is a multiple of {cell * patch} "
            f"({around}), or patches of one of {fitting}"
        )


def _multiples(value: int, of: int) -> str:
    """The multiples next to a value, to choose from.

    >>> _multiples(84, 16), _multiples(5, 16)
    ('80 or 96', '16')
    """
    below = value // of * of
    return f"{below} or {below + of}" if below > 0 else str(of)


def _check_context(config: Config) -> None:
    imagined, known = config.imagination.context, config.controller.context
    if imagined > known:
        raise UsageError(
            f"imagination.context {imagined} is larger than controller.context {known}: dreams "
            "begin with frames that the controller was given; raise controller.context to "
            f"{imagined}, or lower the other"
        )


def _tokenizer(config: Config) -> Tokenizer:
    cfg = config.tokenizer
    return Tokenizer(
        size=config.env.size,
        image_channels=config.env.frame_channels,
        patch_size=cfg.patch_size,
        channels=cfg.channels,
        multipliers=cfg.multipliers,
        encoder_blocks=cfg.encoder_blocks,
        decoder_blocks=cfg.decoder_blocks,
        attention_at=cfg.attention_at,
        latent_channels=cfg.latent_channels,
        norm_groups=cfg.norm_groups,
    )


def _denoiser(
    config: Config, action_space: ActionSpace | int, channels: int, size: int
) -> Denoiser:
    cfg = config.denoiser
    return Denoiser(
        channels=channels,
        size=size,
        action_space=action_space,
        layers=cfg.layers,
        heads=cfg.heads,
        head_dim=cfg.head_dim,
        patch_size=cfg.patch_size,
        mlp_ratio=cfg.mlp_ratio,
        prediction=cfg.prediction,
        action_tokens=cfg.action_tokens,
        normalize=cfg.normalize,
    )


def _shape(cfg: RecurrentConfig, channels: int, size: int) -> dict[str, int | bool]:
    return {
        "channels": channels,
        "size": size,
        "cnn_channels": cfg.cnn_channels,
        "cnn_out_channels": cfg.cnn_out_channels,
        "hidden": cfg.hidden,
        "normalize": cfg.normalize,
    }
