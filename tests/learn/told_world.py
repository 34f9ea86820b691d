"""An imagined world whose frames tell their place and the action behind them, and its readers.

Channel 0 of a latent is its index (the last context frame is 0, earlier ones are negative),
channel 1 the action that led to it, channel 2 whatever a test puts there.
"""

import torch
import torch.nn.functional as F
from embedded_world import around
from numbered_world import SMALL

from horizon_imagination.config import ControllerConfig, ImaginationConfig
from horizon_imagination.engine.dream import Start
from horizon_imagination.learn.controller import ControllerLoss
from horizon_imagination.models.actor_critic import Actor, Critic
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.returns import symlog
from horizon_imagination.schedules import configured_schedule

ACTIONS, CONTEXT, SCALE = 3, 3, 8
SHAPE = {
    "channels": 3, "size": 4, "cnn_channels": 8, "cnn_out_channels": 4, "hidden": 16,
    "normalize": False,
}  # fmt: skip


def place(seen):
    """Index of every frame, from latents or from what `FirstPixel` makes of them."""
    return (seen.flatten(2)[..., 0] * SCALE).round().long()


def action_behind(z):
    return (z[:, :, 1, 0, 0] * SCALE).round().long()


class ToldDenoiser(Denoiser):
    """Leads every frame to its place and its action, whatever the noise."""

    twist: torch.Tensor | None = None
    """Added to channel 2, by sample and index."""

    def window(self, z, tau, prev_actions, *, cache, start, real=None):
        index = start + torch.arange(z.shape[1])
        clean = torch.zeros_like(z)
        clean[:, :, 0] = (index / SCALE)[None, :, None, None]
        clean[:, :, 1] = (prev_actions / SCALE)[:, :, None, None]
        if self.twist is not None:
            clean[:, :, 2] = self.twist[:, index][:, :, None, None]
        return (clean - z) / (1 - tau).clamp(min=1e-6)[..., None, None, None]


class ToldReward(RewardModel):
    """Rewards from a table [index, action]; an end at an index per sample and ever after."""

    table: torch.Tensor
    end_at: torch.Tensor

    def forward(self, z, tau=None, state=None, mask=None):
        index = place(z)
        reward = self.table[index.clamp(0), action_behind(z).clamp(0)]
        end = index >= self.end_at[:, None]
        return torch.stack([symlog(reward), -50.0 * end, 50.0 * end - 25], dim=-1), None


class FirstPixel(torch.nn.Module):
    """A frame encoder that tells the first pixel of every channel."""

    def forward(self, z, tau=None):
        return F.pad(z[..., 0, 0], (0, SHAPE["hidden"] - z.shape[2]))

    def follow(self, z, mask):
        pass


class ToldCritic(Critic):
    """Values from a table by index, which is its only parameter that matters."""

    def from_features(self, features, state=None, mask=None):
        return self.table[place(features) + CONTEXT - 1][..., None], None


class ToldActor(Actor):
    """Logits from a table by index."""

    def from_features(self, features, state=None, mask=None):
        _, states = super().from_features(features, state, mask)
        row = (place(features) + CONTEXT - 1).clamp(0, len(self.table) - 1)
        return self.table[row], states


def make_loss(horizon, batch, *, told=True, end_at=None, controller=None, **options):
    """A controller in the told world; its actor and critic are tables, or real networks."""
    torch.manual_seed(0)
    denoiser = ToldDenoiser(
        channels=3, size=4, action_space=ACTIONS, layers=1, heads=1, head_dim=12, patch_size=2,
        mlp_ratio=1, prediction="velocity", action_tokens=False, normalize=False,
    )  # fmt: skip
    reward = ToldReward(**SHAPE)
    reward.table = torch.randn(horizon + 1, ACTIONS) * 3
    reward.end_at = torch.full((batch,), 99) if end_at is None else torch.tensor(end_at)
    actor = (ToldActor if told else Actor)(outputs=ACTIONS, use_tau=True, **SHAPE)
    critic = (ToldCritic if told else Critic)(**SHAPE)
    if told:
        actor.encoder, critic.encoder = FirstPixel(), FirstPixel()
        actor.table = torch.nn.Parameter(torch.randn(CONTEXT + horizon, ACTIONS))
        critic.table = torch.nn.Parameter(torch.randn(CONTEXT + horizon))
    else:
        torch.nn.init.normal_(actor.head.weight, std=1.0)
    options = {"budget": horizon, "decay_horizon": 1.0, "engine": "plain"} | options
    imagination = ImaginationConfig(horizon=horizon, **options)
    return ControllerLoss(
        actor=actor,
        critic=critic,
        world=around(denoiser, reward),
        schedule=configured_schedule(imagination),
        config=ControllerConfig(**({"context": CONTEXT, "network": SMALL} | (controller or {}))),
        imagination=imagination,
        rng=torch.Generator().manual_seed(1),
    )


def make_start(batch):
    z = torch.zeros(batch, CONTEXT, 3, 4, 4)
    z[:, :, 0] = (torch.arange(-CONTEXT + 1, 1) / SCALE)[None, :, None, None]
    actions = torch.zeros(batch, CONTEXT, dtype=torch.long)
    return Start(z, actions, torch.ones(batch, CONTEXT, dtype=torch.bool))
