"""The shape of actor, critic and reward model: a CNN per frame, then an LSTM over time.

The LSTM is written out because parallel imagination needs its state after every frame, not only
after the last, and because padded frames must leave the state as it is.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import pack, rearrange, unpack
from jaxtyping import Float
from torch import Tensor, nn

from horizon_imagination.models.layers import (
    Conv1x1,
    FeatureStatistics,
    LatentStatistics,
    ResnetBlock,
    norm_silu,
    time_features,
)
from horizon_imagination.types import Flags, Latents, Times

Hidden = Float[Tensor, "batch time hidden"]
TIME_FEATURES, SMOOTH_FEATURES = 64, 16
SMOOTH_START = 0.1
"""Factor on the first weights of smooth features, so that the picture is louder."""


class RecurrentState(NamedTuple):
    """Output and cell of the LSTM after a frame."""

    h: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"]


class RecurrentStates(NamedTuple):
    """Outputs and cells after every frame."""

    h: Hidden
    c: Hidden

    def at(self, time: int) -> RecurrentState:
        """The state after one frame."""
        return RecurrentState(self.h[:, time], self.c[:, time])


def noise_features(tau: Times) -> Float[Tensor, "batch time features"]:
    """Time features minus those of a clean frame, so that clean frames have none: a vector that is
    the same in every state drowns what is seen."""
    return time_features(tau, TIME_FEATURES) - time_features(tau.new_ones(()), TIME_FEATURES)


def smooth_noise_features(tau: Times) -> Float[Tensor, "batch time features"]:
    """Sines and cosines of up to two full turns over the way from clean to noise; 0 at clean."""
    turns = torch.arange(1, SMOOTH_FEATURES // 2 + 1, device=tau.device)
    angle = torch.pi / 2 * (1 - tau.float())[..., None] * turns
    return torch.cat([angle.sin(), 1 - angle.cos()], dim=-1)


class FrameEncoder(nn.Module):
    """One residual block, a reduction, a projection: a vector per latent frame."""

    def __init__(
        self,
        *,
        channels: int,
        size: int,
        cnn_channels: int,
        cnn_out_channels: int,
        hidden: int,
        norm_layers: bool,
        use_tau: bool,
        smooth_tau: bool,
        normalize: bool,
        center: bool,
    ) -> None:
        super().__init__()
        groups = min(32, cnn_channels // 4) if norm_layers else 0
        flat = cnn_out_channels * size**2
        self.statistics = LatentStatistics(channels, size) if normalize else None
        self.cnn = nn.Sequential(
            Conv1x1(channels, cnn_channels),
            ResnetBlock(cnn_channels, cnn_channels, groups),
            norm_silu(groups, cnn_channels),
            Conv1x1(cnn_channels, cnn_out_channels),
            nn.Flatten(),
            nn.LayerNorm(flat) if norm_layers else nn.Identity(),
        )
        self.center = FeatureStatistics(flat) if center else None
        self.project = nn.Linear(flat, hidden)
        self.features = smooth_noise_features if smooth_tau else noise_features
        size = SMOOTH_FEATURES if smooth_tau else TIME_FEATURES
        self.tau = nn.Linear(size, hidden, bias=False) if use_tau else None
        if smooth_tau and self.tau is not None:
            with torch.no_grad():
                self.tau.weight.mul_(SMOOTH_START)

    def forward(self, z: Latents, tau: Times | None = None) -> Hidden:
        """Features of every frame, clean or noisy; `tau` defaults to clean."""
        if tau is None:
            tau = z.new_ones(z.shape[:2])
        if self.statistics:
            z = self.statistics.normalize(z, tau)
        flat, shape = pack([z], "* c h w")
        features = self.cnn(flat)
        if self.center:
            features = self.center.normalize(features)
        x = unpack(self.project(features), shape, "* d")[0]
        if self.tau is not None:
            x = x + self.tau(self.features(tau).to(x.dtype))
        return F.silu(x)

    @torch.no_grad()
    def follow(self, z: Latents, mask: Flags) -> None:
        """Move running statistics towards those of a batch of clean frames."""
        if self.statistics:
            self.statistics.update(z, mask)
        if self.center:
            if self.statistics:
                z = self.statistics.normalize(z, z.new_ones(z.shape[:2]))
            flat, _ = pack([z], "* c h w")
            self.center.update(self.cnn(flat), rearrange(mask, "b t -> (b t)"))


class LSTM(nn.Module):
    """A one-layer LSTM that returns its state after every step and skips padding."""

    fused = False

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        bound = hidden**-0.5
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden, size).uniform_(-bound, bound))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden, hidden).uniform_(-bound, bound))
        self.bias_ih = nn.Parameter(torch.empty(4 * hidden).uniform_(-bound, bound))
        self.bias_hh = nn.Parameter(torch.empty(4 * hidden).uniform_(-bound, bound))

    def zero_state(self, batch: int, like: Tensor) -> RecurrentState:
        """The state before the first frame: two tensors, since an export ties a repeated one."""
        return RecurrentState(*(like.new_zeros(batch, self.hidden) for _ in range(2)))

    def forward(
        self, x: Hidden, state: RecurrentState, mask: Flags | None = None
    ) -> RecurrentStates:
        """States after each step; where the mask is False the state stays."""
        gates_x = F.linear(x, self.weight_ih, self.bias_ih + self.bias_hh)
        if self.fused:
            from horizon_imagination.kernels.recurrence import lstm_sequence

            weight = self.weight_hh.to(gates_x.dtype)
            return RecurrentStates(*lstm_sequence(gates_x, weight, state.h, state.c, mask))
        h, c = state
        outputs, cells = [], []
        for t in range(x.shape[1]):
            gates = gates_x[:, t] + F.linear(h, self.weight_hh)
            i, f, g, o = gates.chunk(4, dim=-1)
            new_c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            new_h = torch.sigmoid(o) * torch.tanh(new_c)
            if mask is not None:
                real = rearrange(mask[:, t], "b -> b 1")
                new_h, new_c = torch.where(real, new_h, h), torch.where(real, new_c, c)
            h, c = new_h, new_c
            outputs.append(h)
            cells.append(c)
        return RecurrentStates(torch.stack(outputs, dim=1), torch.stack(cells, dim=1))


class Head(nn.Linear):
    """A linear layer in the precision of its weights: a symlog value of 5 is 147, and in bfloat16
    its neighbours are 143 and 152."""

    def forward(self, input: Float[Tensor, "*rest hidden"]) -> Float[Tensor, "*rest output"]:
        """In float32, also under autocast."""
        input = input.to(self.weight.dtype)
        if input.is_meta:  # a device that autocast does not know; only sizes are asked for
            return super().forward(input)
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input)


class RecurrentNetwork(nn.Module):
    """Frame encoder, LSTM and a linear head."""

    def __init__(
        self,
        *,
        channels: int,
        size: int,
        cnn_channels: int,
        cnn_out_channels: int,
        hidden: int,
        outputs: int,
        use_tau: bool,
        normalize: bool,
        norm_layers: bool = False,
        smooth_tau: bool = False,
        center: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = FrameEncoder(
            channels=channels,
            size=size,
            cnn_channels=cnn_channels,
            cnn_out_channels=cnn_out_channels,
            hidden=hidden,
            norm_layers=norm_layers,
            use_tau=use_tau,
            smooth_tau=smooth_tau,
            normalize=normalize,
            center=center,
        )
        self.lstm = LSTM(hidden, hidden)
        self.head = Head(hidden, outputs)

    def forward(
        self,
        z: Latents,
        tau: Times | None = None,
        state: RecurrentState | None = None,
        mask: Flags | None = None,
    ) -> tuple[Float[Tensor, "batch time output"], RecurrentStates]:
        """Outputs and states at every frame; `tau` defaults to clean, `state` to the start."""
        return self.from_features(self.encoder(z, tau), state, mask)

    def from_features(
        self, features: Hidden, state: RecurrentState | None = None, mask: Flags | None = None
    ) -> tuple[Float[Tensor, "batch time output"], RecurrentStates]:
        """Outputs and states at every frame, of frames that are encoded already."""
        if state is None:  # as precise as the weights: autocast may have halved the features
            state = self.lstm.zero_state(len(features), self.lstm.weight_hh)
        states = self.lstm(features, state, mask)
        return self.head(states.h), states
