"""From a config to networks: the five of an agent, or actor and critic alone."""

from typing import NamedTuple

from horizon_imagination.actions import ActionSpace, Box
from horizon_imagination.config import Config, RecurrentConfig
from horizon_imagination.errors import as_usage_error
from horizon_imagination.models.actor_critic import Actor, Critic
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.models.tokenizer import Tokenizer


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
    tokenizer = _tokenizer(config)
    latent = (config.tokenizer.latent_channels, tokenizer.latent_size)
    with as_usage_error():
        denoiser = _denoiser(config, action_space, *latent)
        reward = RewardModel(readout=config.reward.readout, **_shape(config.reward, *latent))
    return Networks(tokenizer, denoiser, reward, *build_controller(config, action_space, *latent))


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
