"""What a config costs, without running it: parameters, FLOPs and memory of every stage.

Networks are built on the meta device and passed through a counter, so this takes seconds and no
memory whatever the sizes. A multiply-add counts as two FLOPs; a backward pass as two forward ones.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from horizon_imagination.agent import Networks, build_networks
from horizon_imagination.config import Config
from horizon_imagination.engine.policy_windows import entry_plan
from horizon_imagination.models.perceptual import BLOCKS
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.windows import frame_evaluations

VGG_CHANNELS = (64, 128, 256, 512, 512)


@dataclass(frozen=True)
class Measured:
    """One forward pass."""

    flops: float
    activations: float
    """Bytes kept for the backward pass, in float32."""

    def __add__(self, other: "Measured") -> "Measured":
        return Measured(self.flops + other.flops, self.activations + other.activations)

    def times(self, factor: float) -> "Measured":
        """So many of them."""
        return Measured(self.flops * factor, self.activations * factor)


@dataclass(frozen=True)
class Costs:
    """The costs of a config."""

    parameters: dict[str, int]
    """By network."""
    encode: float
    """FLOPs to encode a frame."""
    decode: float
    denoise: float
    """FLOPs of the denoiser for a whole training segment."""
    reward: float
    """FLOPs of the reward model, of the actor and of the critic, for a frame each."""
    actor: float
    critic: float
    steps: dict[str, Measured]
    """FLOPs and activations of one optimiser step of every learner."""
    act: float
    """FLOPs of one step in the real world."""


def costs(config: Config, num_actions: int) -> Costs:
    """Count everything."""
    with torch.device("meta"):
        networks = build_networks(config, num_actions)
        return _count(config, networks)


def _count(config: Config, networks: Networks) -> Costs:
    latent = config.tokenizer.latent_channels, *(networks.tokenizer.latent_size,) * 2
    image = torch.empty(1, 1 if config.env.grey else 3, config.env.size, config.env.size)
    encode = measure(lambda: networks.tokenizer.encode_images(image), networks)
    decode = measure(lambda: networks.tokenizer.decode_images(torch.empty(1, *latent)), networks)
    length = config.world_model.segment_length
    z, tau = torch.empty(1, length, *latent), torch.empty(1, length)
    actions = torch.zeros(1, length, dtype=torch.long)
    denoise = measure(lambda: networks.denoiser(z, tau, actions), networks)
    reward = measure(lambda: networks.reward(z), networks).times(1 / length)
    actor = measure(lambda: networks.actor(z), networks).times(1 / length)
    critic = measure(lambda: networks.critic(z), networks).times(1 / length)

    pieces = {
        "tokenizer": _pieces(config.tokenizer.learner),
        "world_model": _pieces(config.world_model.learner),
        "controller": _pieces(config.controller.learner),
    }
    steps = {
        "tokenizer": _trained(encode + decode + perceptual(config), pieces["tokenizer"]),
        "world_model": _trained(denoise + reward.times(length), pieces["world_model"]),
    }
    learned, imagined = _controller(config, denoise, reward, actor, critic)
    extra = Measured(imagined.flops * pieces["controller"][0] * pieces["controller"][1], 0.0)
    steps["controller"] = _trained(learned, pieces["controller"]) + extra
    return Costs(
        parameters=_parameters(networks),
        encode=encode.flops,
        decode=decode.flops,
        denoise=denoise.flops,
        reward=reward.flops,
        actor=actor.flops,
        critic=critic.flops,
        steps=steps,
        act=encode.flops + actor.flops,
    )


def _parameters(networks: Networks) -> dict[str, int]:
    """By network; what two of them share is counted once."""
    counts, seen = {}, set()
    for name, network in networks._asdict().items():
        own = [p for p in network.parameters() if id(p) not in seen]
        counts[name] = sum(p.numel() for p in own)
        seen.update(map(id, own))
    return counts


def _controller(
    config: Config, denoise: Measured, reward: Measured, actor: Measured, critic: Measured
) -> tuple[Measured, Measured]:
    """Of one trajectory: what has a gradient, and what has none."""
    cfg, context = config.imagination, config.controller.context
    with torch.device("cpu"):
        schedule = horizon_schedule(cfg.horizon, cfg.budget, cfg.decay_horizon)
        window, everything = frame_evaluations(schedule, cfg.context)
        noisy = len(entry_plan(schedule, clean_level=config.controller.clean_level).frames)
    evaluated = window if cfg.engine == "window" else everything
    learned = actor.times(context + cfg.horizon - 1 + noisy) + critic.times(context + cfg.horizon)
    per_frame = denoise.times(1 / config.world_model.segment_length)
    imagined = per_frame.times(evaluated) + reward.times(cfg.context + cfg.horizon)
    return learned, imagined + actor.times(context + evaluated)


def _pieces(learner) -> tuple[int, int]:
    """Samples of a micro-batch, and micro-batches."""
    return learner.batch_size // learner.micro_batches, learner.micro_batches


def _trained(forward: Measured, pieces: tuple[int, int]) -> Measured:
    size, count = pieces
    return Measured(3 * forward.flops * size * count, forward.activations * size)


def perceptual(config: Config) -> Measured:
    """The feature network on a frame and its reconstruction, as a part of a learning step."""
    if config.tokenizer.perceptual == "none":
        return Measured(0.0, 0.0)
    flops, activations, size, before = 0.0, 0.0, config.env.size, 3
    for width, layers in zip(VGG_CHANNELS, BLOCKS[config.tokenizer.perceptual], strict=True):
        for _ in range(layers):
            flops += 2 * 9 * before * width * size**2
            activations += 4 * width * size**2
            before = width
        size //= 2
    # Forward twice and backward once to the image: a third of it is what learning multiplies by 3.
    return Measured(flops, activations)


def measure(forward: Callable[[], object], networks: Networks) -> Measured:
    """FLOPs of a forward pass, and what it keeps for the backward one."""
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
    return Measured(float(counter.get_total_flops()), float(size))
