"""The networks of a dream as four graphs: denoise, decode, act, judge.

Each takes one episode. Frames are latents but in `decode`, which paints them.
"""

import copy

import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from horizon_imagination.actions import Box
from horizon_imagination.agent import Agent
from horizon_imagination.export.onnx_file import Graph
from horizon_imagination.metrics.image_quality import in_colour
from horizon_imagination.models.recurrent import RecurrentNetwork, RecurrentState
from horizon_imagination.models.tokenizer import to_frames
from horizon_imagination.types import Actions, Latents, Times

State = Float[Tensor, "1 hidden"]
Scalar = Float[Tensor, "1"]


class Denoise(nn.Module):
    """The velocity of every frame, given it and those before."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.denoiser = copy.deepcopy(agent.imagination_denoiser)

    def forward(self, z: Latents, tau: Times, actions: Actions) -> Latents:
        """Velocities; `actions` lead to their frames, -1 where there is none, -2 in a box."""
        return self.denoiser(z, tau, actions if actions.is_floating_point() else actions.long())


class Decode(nn.Module):
    """A latent as a picture with red, green, blue and opacity."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.tokenizer = copy.deepcopy(agent.tokenizer)
        self.tokenizer.encoder = nn.Sequential()

    def forward(
        self, z: Float[Tensor, "1 channel height width"]
    ) -> UInt8[Tensor, "_height _width 4"]:
        """Bytes, as a canvas takes them."""
        colours = in_colour(to_frames(self.tokenizer.decode_images(z))[0])
        opaque = torch.full_like(colours[:1], 255)
        return rearrange(torch.cat([colours, opaque]), "c h w -> h w c")


class Act(nn.Module):
    """The policy at one frame, clean or noisy, and the state of the actor after it."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.actor = copy.deepcopy(agent.actor)

    def forward(
        self, z: Float[Tensor, "1 channel height width"], tau: Scalar, h: State, c: State
    ) -> tuple[Float[Tensor, "1 output"], State, State]:
        """Probabilities of the actions, or means and deviations, and the state."""
        out, state = _step(self.actor, z, tau, RecurrentState(h, c))
        return self.actor.action_space.policy(out), state.h, state.c


class Judge(nn.Module):
    """Reward, chance of an end, and value of one clean frame."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.reward, self.critic = copy.deepcopy(agent.reward), copy.deepcopy(agent.critic)

    def forward(
        self,
        z: Float[Tensor, "1 channel height width"],
        h_reward: State,
        c_reward: State,
        h_critic: State,
        c_critic: State,
    ) -> tuple[Float[Tensor, "1 3"], State, State, State, State]:
        """The three numbers, and the states of reward model and critic."""
        clean = z.new_ones(1)
        said, after = _step(self.reward, z, clean, RecurrentState(h_reward, c_reward))
        reward, end = self.reward.split(said[:, None])
        value, later = _step(self.critic, z, clean, RecurrentState(h_critic, c_critic))
        numbers = torch.cat(
            [
                self.reward.readout.value(reward),
                end.softmax(-1)[..., 1],
                self.critic.readout.value(value[:, None]),
            ],
            dim=-1,
        )
        return numbers, after.h, after.c, later.h, later.c


def _step(
    network: RecurrentNetwork, z: Tensor, tau: Tensor, state: RecurrentState
) -> tuple[Tensor, RecurrentState]:
    out, states = network(rearrange(z, "1 c h w -> 1 1 c h w"), rearrange(tau, "t -> 1 t"), state)
    return out[:, 0], states.at(0)


def play_context(agent: Agent) -> int:
    """Frames that the world model looks back on in play: as many as it was trained with."""
    cfg = agent.config
    return max(cfg.world_model.segment_length - 1, cfg.imagination.context)


def window(agent: Agent) -> int:
    """Frames that `denoise` takes: the most that play or a whole imagination need.

    Fewer frames are filled up at the end, where earlier frames do not see them.
    """
    cfg = agent.config.imagination
    return max(play_context(agent) + 1, cfg.context + cfg.horizon)


def dream_graphs(agent: Agent) -> dict[str, Graph]:
    """The four graphs of an agent by name."""
    shape, one = agent.latent_shape, torch.ones(1)
    z = torch.zeros(1, *shape)
    actor, reward, critic = (
        torch.zeros(1, network.lstm.hidden) for network in (agent.actor, agent.reward, agent.critic)
    )
    frames, space = window(agent), agent.action_space
    kind = torch.float32 if isinstance(space, Box) else torch.int32
    noisy = (
        torch.zeros(1, frames, *shape),
        torch.full((1, frames), 0.5),
        torch.zeros(1, frames, *space.shape, dtype=kind),
    )
    judged = (z, reward, reward.clone(), critic, critic.clone())
    states = ("h_reward", "c_reward", "h_critic", "c_critic")
    after = tuple(f"next_{name}" for name in states)
    return {
        "denoise": Graph(Denoise(agent), noisy, ("z", "tau", "actions"), ("velocity",), {}),
        "decode": Graph(Decode(agent), (z,), ("z",), ("rgba",), {}),
        "act": Graph(
            Act(agent),
            (z, one, actor, actor.clone()),
            ("z", "tau", "h", "c"),
            ("policy", "next_h", "next_c"),
            {},
        ),
        "judge": Graph(Judge(agent), judged, ("z", *states), ("numbers", *after), {}),
    }
