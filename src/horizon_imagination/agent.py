"""The agent: its five networks, built from a config, saved, loaded, and asked for actions.

agent = Agent.load("runs/demo")
agent.reset()
action = agent.act(observation)
"""

import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Shaped, UInt8
from safetensors.torch import save_file
from torch import Tensor, nn

from horizon_imagination.action_json import space_to_json
from horizon_imagination.actions import ActionSpace, Discrete, as_space
from horizon_imagination.config import Config
from horizon_imagination.config_json import from_json, to_json
from horizon_imagination.device import autocast, resolve_device, uses_bfloat16
from horizon_imagination.engine import graph
from horizon_imagination.engine.embedded import EmbeddedWorldModel
from horizon_imagination.engine.fused import FusedDenoiser
from horizon_imagination.envs import make_env
from horizon_imagination.envs.given import EnvLike, env_config
from horizon_imagination.envs.spaces import single, to_world
from horizon_imagination.envs.view import View, as_frames
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.evaluate import Evaluation, Protocol, evaluate
from horizon_imagination.files import replacing, write_json
from horizon_imagination.kernels import fuse, wanted
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.recurrent import RecurrentState
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.models.tokenizer import Tokenizer
from horizon_imagination.networks import build_controller, build_networks
from horizon_imagination.schedules import check_schedule, configured_schedule
from horizon_imagination.snapshots import (
    DESCRIPTION,
    WEIGHTS,
    agent_files,
    check_hashes,
    find_agent,
    read_agent_description,
)
from horizon_imagination.streams import derive_seed
from horizon_imagination.tensor_files import check_finite, read_tensors
from horizon_imagination.types import Latents, Schedule
from horizon_imagination.world_model import WorldModel, check_world_model

NETWORKS = ("tokenizer", "denoiser", "reward", "actor", "critic")


class Agent:
    """Tokenizer, denoiser (and its average), reward model, actor and critic.

    If a world model is given, actor and critic are the agent's only networks, and what is saved.
    A schedule that is given takes the place of the config's.
    """

    tokenizer: Tokenizer
    denoiser: Denoiser
    reward: RewardModel

    def __init__(
        self,
        config: Config,
        action_space: ActionSpace | int,
        device: torch.device,
        *,
        world_model: WorldModel | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        self.config, self.action_space, self.device = config, as_space(action_space), device
        self.given_world = world_model is not None
        self.given_schedule = schedule
        if schedule is not None:
            with as_usage_error():
                check_schedule(schedule, schedule.shape[-1])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(config.seed, "init"))
            if world_model is None:
                built = build_networks(config, self.action_space)
                self.tokenizer, self.denoiser, self.reward = built[:3]
                self.actor, self.critic = built[3:]
            else:
                with as_usage_error():
                    check_world_model(world_model)
                self.world_model, latent = world_model, world_model.latent_shape[:2]
                self.actor, self.critic = build_controller(config, self.action_space, *latent)
        self.fused = wanted(config.runtime.fused, device)
        self.captured = graph.wanted(config.runtime.graphs, device)
        for network in self.networks().values():
            network.to(device)
            if self.fused:
                fuse(network).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        averaged = config.denoiser.ema and not self.given_world
        self.denoiser_average = copy.deepcopy(self.denoiser) if averaged else None
        if config.runtime.compile and device.type == "cuda" and not self.given_world:
            self.denoiser.compile_blocks()
        self._rng = torch.Generator(device).manual_seed(derive_seed(config.seed, "act"))
        self._state: RecurrentState | None = None
        self.view: View | None = None
        """How the observations of its world are read; none where only finished frames are known."""

    @property
    def num_actions(self) -> int:
        """The number of actions, where they are discrete."""
        if not isinstance(self.action_space, Discrete):
            raise UsageError(f"{self.config.env.id} has {self.action_space.words()}: no number")
        return self.action_space.n

    @property
    def imagination_denoiser(self) -> Denoiser:
        """The denoiser that imagination uses."""
        return self.denoiser_average or self.denoiser

    def __getattr__(self, name: str) -> Any:
        """Say why an agent with a given world model has no such network."""
        if name in NETWORKS and self.__dict__.get("given_world"):
            raise UsageError(f"the agent was given its world model: it has no {name} of its own")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @cached_property
    def world_model(self) -> WorldModel:
        """The world model it imagines in."""
        return self.world_model_of(self.imagination_denoiser, self.reward)

    def world_model_of(self, denoiser: Denoiser, reward: RewardModel) -> EmbeddedWorldModel:
        """Its world model with these networks; windows run in fused kernels where they can."""
        fused = None
        if self.fused and FusedDenoiser.fits(denoiser):
            half = uses_bfloat16(self.config.runtime, self.device)
            fused = FusedDenoiser(denoiser, torch.bfloat16 if half else torch.float32)
        return EmbeddedWorldModel(self.tokenizer, denoiser, reward, fused)

    @property
    def schedule(self) -> Schedule:
        """The schedule it imagines with."""
        given = self.given_schedule
        return configured_schedule(self.config.imagination) if given is None else given

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a latent frame."""
        return self.world_model.latent_shape

    def networks(self) -> dict[str, nn.Module]:
        """The networks by name."""
        names = NETWORKS[3:] if self.given_world else NETWORKS
        return {name: getattr(self, name) for name in names}

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
            return self.world_model.encode(rearrange(frames, "b c h w -> b 1 c h w"))[:, 0]

    @torch.no_grad()
    def decode(self, z: Latents) -> UInt8[Tensor, "batch time _ _ _"]:
        """Frames to look at."""
        with autocast(self.config.runtime, self.device):
            return self.world_model.decode(z)

    def check_fits(
        self, name: str, frame_shape: tuple[int, int, int], action_space: ActionSpace
    ) -> None:
        """Refuse an environment or a dataset that the networks were not made for.

        `frame_shape` is channels, height and width.
        """
        env = self.config.env
        expected = (env.frame_channels, env.size, env.size)
        if (frame_shape, action_space) != (expected, self.action_space):
            mine = self.action_space
            alike = isinstance(mine, Discrete) and isinstance(action_space, Discrete)
            raise UsageError(
                f"{name} has frames of {_by(frame_shape)} and {action_space.words()}; the agent "
                f"was trained on {_by(expected)} and {mine.n if alike else mine.words()}: use it "  # type: ignore[union-attr]
                "where it was trained"
            )

    def reset(self, seed: int | None = None) -> None:
        """Forget the episode; a seed makes what follows repeatable."""
        self._state = None
        if seed is not None:
            self._rng.manual_seed(derive_seed(seed, "act"))

    def forget(self, ended: Bool[np.ndarray, " batch"]) -> None:
        """Forget the episodes of a batch that have ended; new ones begin in their places."""
        if self._state is not None:
            where = torch.from_numpy(np.asarray(ended, bool)).to(self.device)
            self._state = RecurrentState(
                *(part.masked_fill(where[:, None], 0) for part in self._state)
            )

    def evaluate(
        self,
        episodes: int = 100,
        *,
        env: EnvLike | None = None,
        seed: int = 0,
        greedy: bool = False,
        envs: int = 16,
    ) -> Evaluation:
        """Play episodes in the world it was trained in, or in another one, `envs` concurrently."""
        if episodes < 1 or envs < 1:
            raise UsageError(f"episodes is {episodes}, envs is {envs}: expected at least 1")
        protocol = Protocol(env_config(env, self.config.env), episodes, seed, greedy, envs)
        return Evaluation(protocol, evaluate(self, protocol))

    def make_env(self, seed: int = 0, *, trust: bool = False) -> gymnasium.Env:
        """The world it was trained in, showing the frames it was trained on.

        A world that the agent's file names as `module:Name` is code: it needs `trust`.
        """
        return make_env(self.config.env.trusted() if trust else self.config.env, seed)

    @torch.no_grad()
    def act(self, observation: Any, *, greedy: bool = False) -> int | Shaped[np.ndarray, "..."]:
        """An action on the next observation of an episode, or one for each of a batch.

        It is a whole number, or a vector in the units of the world.

        Takes frames as `make_env` returns them, and what the world itself observed in training:
        its dict, size, layout and type. Anything else is refused.
        """
        size, channels = self.config.env.size, self.config.env.frame_channels
        frames, batched = as_frames(observation, self.view, (size, size, channels))
        pixels = torch.from_numpy(np.ascontiguousarray(frames))
        z = self.encode(rearrange(pixels, "b h w c -> b c h w").to(self.device))
        if self._state is None:
            self._state = self.actor.lstm.zero_state(len(z), z)
        if len(self._state.h) != len(z):
            raise UsageError(
                f"the agent remembers {len(self._state.h)} episodes and got {len(z)} observations; "
                "call reset() before another number of them"
            )
        with autocast(self.config.runtime, self.device):
            action, self._state = self.actor.act(
                rearrange(z, "b c h w -> b 1 c h w"), self._state, self._rng, greedy=greedy
            )
        actions = to_world(self.action_space, action.cpu())
        return actions if batched else single(actions)

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

    def load_weights(self, weights: dict[str, Tensor], where: Path = Path(WEIGHTS)) -> None:
        """Take over weights by name: none missing, none left over, all finite."""
        mine = self.weights()
        if set(mine) != set(weights):
            odd = sorted(set(mine) ^ set(weights))[:3]
            raise UsageError(f"{where} does not fit the config: {', '.join(odd)} …")
        for name, value in mine.items():
            if value.shape != weights[name].shape:
                raise UsageError(
                    f"{where} does not fit the config: {name} has the shape "
                    f"{tuple(weights[name].shape)}, expected {tuple(value.shape)}"
                )
        check_finite(weights, where)
        with torch.no_grad():
            for name, value in mine.items():
                value.copy_(weights[name])

    def description(self) -> dict[str, Any]:
        """What `agent.json` says, as plain values."""
        about: dict[str, Any] = {"config": to_json(self.config), **space_to_json(self.action_space)}
        if self.given_world:
            about["given_world"] = True
        if self.view is not None:
            about["view"] = to_json(self.view)
        return about

    def save(self, folder: Path) -> None:
        """Write description and weights; the folder can be loaded with `Agent.load`."""
        with replacing(folder / WEIGHTS) as temporary:
            save_file({k: v.contiguous() for k, v in self.weights().items()}, temporary)
        write_json(folder / DESCRIPTION, self.description())

    @classmethod
    def load(
        cls, path: Path | str, device: str = "auto", *, world_model: WorldModel | None = None
    ) -> "Agent":
        """The agent of a run (its best snapshot, else its latest), of a snapshot, or of a file.

        One that learned in a given world model needs that world model again.
        """
        place = find_agent(Path(path))
        check_hashes(place, DESCRIPTION, WEIGHTS)
        described, weighed = agent_files(place)
        about, weights = read_agent_description(place), read_tensors(weighed)
        _check_given(place, about.given_world, world_model)
        if world_model is None:
            _check_size(about.config, about.action_space, weights, described)
        where = resolve_device(device)
        agent = cls(about.config, about.action_space, where, world_model=world_model)
        agent.load_weights(weights, weighed)
        if about.view is not None:
            agent.view = from_json(about.view, View, f"{described}: view")
        return agent


def _check_size(
    config: Config, actions: ActionSpace, weights: dict[str, Tensor], where: Path
) -> None:
    """Refuse a config of networks that cannot be built, or are larger than the weights beside it.

    They are built on the meta device, which takes neither memory nor time for large ones.
    """
    own, most = config.tokenizer, len(weights)
    deep = max(config.denoiser.layers, own.encoder_blocks, own.decoder_blocks, len(own.multipliers))
    try:
        if deep > most:
            raise ValueError(f"{deep} layers")
        with torch.device("meta"):
            made = build_networks(config, actions)
        sizes = {id(x): x.numel() for network in made for x in network.parameters()}
        needed = sum(sizes.values())  # what two networks share counts once
    except (ArithmeticError, IndexError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UsageError(f"{where} describes networks that cannot be built: {reason}") from error
    there = sum(x.numel() for x in weights.values())
    if needed > there:
        raise UsageError(
            f"{where} describes networks of {needed:,} parameters, the weights beside it have "
            f"{there:,}; restore the snapshot from a copy"
        )


def _check_given(folder: Path, given: bool, world_model: WorldModel | None) -> None:
    """An agent has its own world model, or needs the one it was given."""
    if given and world_model is None:
        raise UsageError(
            f"the agent in {folder} learned in a world model that was given from Python: give it "
            "again, as in hi.load_run(folder, world_model=...) or hi.Agent.load"
        )
    if world_model is not None and not given:
        raise UsageError(f"the agent in {folder} has a world model of its own: give it none")


def _by(frame_shape: tuple[int, int, int]) -> str:
    channels, height, width = frame_shape
    return f"{height} x {width} x {channels}"
