"""The agent: its five networks, built from a config, saved, loaded, and asked for actions.

agent = Agent.load("runs/demo")
agent.reset()
action = agent.act(observation)
"""

import copy
import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import UInt8
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from horizon_imagination.config import Config, RecurrentConfig
from horizon_imagination.config_json import from_json, to_json
from horizon_imagination.device import autocast, resolve_device, uses_bfloat16
from horizon_imagination.engine.fused import FusedDenoiser
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.kernels import fuse, wanted
from horizon_imagination.learn.streams import derive_seed
from horizon_imagination.models.actor_critic import Actor, Critic
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.recurrent import State
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.models.tokenizer import Tokenizer
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.snapshots import agent_folder
from horizon_imagination.types import Latents, Schedule

NETWORKS = ("tokenizer", "denoiser", "reward", "actor", "critic")
DESCRIPTION, WEIGHTS = "agent.json", "weights.safetensors"


class Agent:
    """Tokenizer, denoiser (and its average), reward model, actor and critic."""

    def __init__(self, config: Config, num_actions: int, device: torch.device) -> None:
        self.config, self.num_actions, self.device = config, num_actions, device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(config.seed, "init"))
            built = build_networks(config, num_actions)
        self.tokenizer, self.denoiser, self.reward, self.actor, self.critic = built
        self.fused = wanted(config.runtime.fused, device)
        for network in self.networks().values():
            network.to(device)
            if self.fused:
                fuse(network).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.denoiser_average = copy.deepcopy(self.denoiser) if config.denoiser.ema else None
        self._rng = torch.Generator(device).manual_seed(derive_seed(config.seed, "act"))
        self._state: State | None = None

    @property
    def dreamer(self) -> Denoiser:
        """The denoiser that imagination uses."""
        return self.denoiser_average or self.denoiser

    @property
    def captured(self) -> bool:
        """Whether steps run as CUDA graphs."""
        return self.config.runtime.graphs and self.device.type == "cuda"

    def window_denoiser(self) -> Denoiser | FusedDenoiser:
        """The denoiser that imagination uses, in fused kernels where they can take its place."""
        if not self.fused or not FusedDenoiser.fits(self.dreamer):
            return self.dreamer
        half = uses_bfloat16(self.config.runtime, self.device)
        return FusedDenoiser(self.dreamer, torch.bfloat16 if half else torch.float32)

    @property
    def schedule(self) -> Schedule:
        """The schedule it imagines with."""
        cfg = self.config.imagination
        return horizon_schedule(cfg.horizon, cfg.budget, cfg.decay_horizon)

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a latent frame."""
        size = self.tokenizer.latent_size
        return self.config.tokenizer.latent_channels, size, size

    def networks(self) -> dict[str, nn.Module]:
        """The networks by name."""
        return {name: getattr(self, name) for name in NETWORKS}

    @torch.no_grad()
    def follow_denoiser(self) -> None:
        """Move the averaged weights a step towards the denoiser's."""
        if self.denoiser_average is None:
            return
        decay, average = self.config.denoiser.ema, self.denoiser_average
        torch._foreach_lerp_(  # type: ignore[attr-defined]
            list(average.parameters()), list(self.denoiser.parameters()), 1 - decay
        )
        for mine, theirs in zip(average.buffers(), self.denoiser.buffers(), strict=True):
            mine.copy_(theirs)

    def encode(self, frames: UInt8[Tensor, "batch channel height width"]) -> Tensor:
        """Latents of stored frames, in the agent's precision."""
        with autocast(self.config.runtime, self.device):
            return self.tokenizer.encode(rearrange(frames, "b c h w -> b 1 c h w"))[:, 0]

    @torch.no_grad()
    def decode(self, z: Latents) -> UInt8[Tensor, "batch time _ _ _"]:
        """Frames to look at."""
        with autocast(self.config.runtime, self.device):
            return self.tokenizer.decode(z)

    def reset(self, seed: int | None = None) -> None:
        """Forget the episode; a seed makes what follows repeatable."""
        self._state = None
        if seed is not None:
            self._rng.manual_seed(derive_seed(seed, "act"))

    @torch.no_grad()
    def act(self, observation: np.ndarray, *, greedy: bool = False) -> int:
        """An action on the next observation (height, width, channel) of an episode."""
        frame = torch.from_numpy(np.ascontiguousarray(observation))
        z = self.encode(rearrange(frame, "h w c -> 1 c h w").to(self.device))
        if self._state is None:
            self._state = self.actor.lstm.zero_state(1, z)
        with autocast(self.config.runtime, self.device):
            action, self._state = self.actor.act(
                rearrange(z, "b c h w -> b 1 c h w"), self._state, self._rng, greedy=greedy
            )
        return int(action)

    def weights(self) -> dict[str, Tensor]:
        """Every weight and buffer by its full name."""
        named = self.networks()
        if self.denoiser_average is not None:
            named["denoiser_average"] = self.denoiser_average
        shared = self.config.controller.shared_encoder  # then the critic's is the actor's
        return {
            f"{name}.{key}": value
            for name, network in named.items()
            for key, value in network.state_dict().items()
            if not (shared and name == "critic" and key.startswith("encoder."))
        }

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Take over weights by name; nothing may be missing or left over."""
        mine = self.weights()
        if set(mine) != set(weights):
            odd = sorted(set(mine) ^ set(weights))[:3]
            raise UsageError(f"the weights do not fit this config: {', '.join(odd)} …")
        with torch.no_grad():
            for name, value in mine.items():
                if value.shape != weights[name].shape:
                    raise UsageError(
                        f"the weights do not fit this config: {name} has shape "
                        f"{tuple(weights[name].shape)}, expected {tuple(value.shape)}"
                    )
                value.copy_(weights[name])

    def save(self, folder: Path) -> None:
        """Write config and weights; the folder can be loaded with `Agent.load`."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {"config": to_json(self.config), "num_actions": self.num_actions}
        weights = {k: v.contiguous() for k, v in self.weights().items()}
        save_file(weights, folder / f"{WEIGHTS}.tmp")
        os.replace(folder / f"{WEIGHTS}.tmp", folder / WEIGHTS)
        (folder / DESCRIPTION).write_text(json.dumps(about, indent=1))

    @classmethod
    def load(cls, folder: Path | str, device: str = "auto") -> "Agent":
        """The agent of a run (its best snapshot, else its latest) or of a snapshot folder."""
        folder = agent_folder(Path(folder))
        try:
            about = json.loads((folder / DESCRIPTION).read_text())
            weights = load_file(folder / WEIGHTS)
        except (OSError, ValueError, SafetensorError) as error:
            raise UsageError(f"the snapshot {folder} cannot be read: {error}") from error
        agent = cls(from_json(about["config"]), about["num_actions"], resolve_device(device))
        agent.load_weights(weights)
        return agent


class Networks(NamedTuple):
    """The five networks, in the order in which they draw their initial weights."""

    tokenizer: Tokenizer
    denoiser: Denoiser
    reward: RewardModel
    actor: Actor
    critic: Critic


def build_networks(config: Config, num_actions: int) -> Networks:
    """The networks of a config, on torch's default device and from its default generator."""
    tokenizer = _tokenizer(config)
    latent = (config.tokenizer.latent_channels, tokenizer.latent_size)
    shape = _shape(config.controller.network, *latent)
    with as_usage_error():
        networks = Networks(
            tokenizer,
            _denoiser(config, num_actions, *latent),
            RewardModel(**_shape(config.reward, *latent)),
            Actor(
                outputs=num_actions,
                use_tau=config.controller.use_tau,
                bias=config.controller.actor_bias,
                **shape,
            ),
            Critic(**shape),
        )
    if config.controller.shared_encoder:
        networks.critic.encoder = networks.actor.encoder
    return networks


def _tokenizer(config: Config) -> Tokenizer:
    cfg = config.tokenizer
    return Tokenizer(
        size=config.env.size,
        image_channels=1 if config.env.grey else 3,
        patch_size=cfg.patch_size,
        channels=cfg.channels,
        multipliers=cfg.multipliers,
        encoder_blocks=cfg.encoder_blocks,
        decoder_blocks=cfg.decoder_blocks,
        attention_at=cfg.attention_at,
        latent_channels=cfg.latent_channels,
        norm_groups=cfg.norm_groups,
    )


def _denoiser(config: Config, num_actions: int, channels: int, size: int) -> Denoiser:
    cfg = config.denoiser
    return Denoiser(
        channels=channels,
        size=size,
        num_actions=num_actions,
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
