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
    LatentStatistics,
    ResnetBlock,
    norm_silu,
    time_features,
)
from horizon_imagination.types import Flags, Latents, Times

Hidden = Float[Tensor, "batch time hidden"]
TIME_FEATURES = 64


class State(NamedTuple):
    """Output and cell of the LSTM after a frame."""

    h: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"]


class States(NamedTuple):
    """Outputs and cells after every frame."""

    h: Hidden
    c: Hidden

    def at(self, time: int) -> State:
        """The state after one frame."""
        return State(self.h[:, time], self.c[:, time])


def noise_features(tau: Times) -> Float[Tensor, "batch time features"]:
    """Time features minus those of a clean frame, so that clean frames have none: a vector that is
    the same in every state drowns what is seen."""
    return time_features(tau, TIME_FEATURES) - time_features(tau.new_ones(()), TIME_FEATURES)


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
        normalize: bool,
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
        self.project = nn.Linear(flat, hidden)
        self.tau = nn.Linear(TIME_FEATURES, hidden, bias=False) if use_tau else None

    def forward(self, z: Latents, tau: Times) -> Hidden:
        """Features of every frame, clean or noisy."""
        if self.statistics:
            z = self.statistics.normalize(z, tau)
        flat, shape = pack([z], "* c h w")
        x = unpack(self.project(self.cnn(flat)), shape, "* d")[0]
        if self.tau is not None:
            x = x + self.tau(noise_features(tau).to(x.dtype))
        return F.silu(x)


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

    def zero_state(self, batch: int, like: Tensor) -> State:
        """The state before the first frame."""
        zero = like.new_zeros(batch, self.hidden)
        return State(zero, zero)

    def forward(self, x: Hidden, state: State, mask: Flags | None = None) -> States:
        """States after each step; where the mask is False the state stays."""
        gates_x = F.linear(x, self.weight_ih, self.bias_ih + self.bias_hh)
        if self.fused:
            from horizon_imagination.kernels.recurrence import lstm_sequence

            weight = self.weight_hh.to(gates_x.dtype)
            return States(*lstm_sequence(gates_x, weight, state.h, state.c, mask))
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
        return States(torch.stack(outputs, dim=1), torch.stack(cells, dim=1))


class Head(nn.Linear):
    """A linear layer in the precision of its weights: a symlog value of 5 is 147, and in bfloat16
    its neighbours are 143 and 152."""

    def forward(self, input: Float[Tensor, "*rest hidden"]) -> Float[Tensor, "*rest output"]:
        """In full, whatever the precision around it."""
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
        norm_layers: bool,
        use_tau: bool,
        normalize: bool,
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
            normalize=normalize,
        )
        self.lstm = LSTM(hidden, hidden)
        self.head = Head(hidden, outputs)

    def forward(
        self,
        z: Latents,
        tau: Times | None = None,
        state: State | None = None,
        mask: Flags | None = None,
    ) -> tuple[Float[Tensor, "batch time output"], States]:
        """Outputs and states at every frame; `tau` defaults to clean, `state` to the start."""
        if tau is None:
            tau = z.new_ones(z.shape[:2])
        if state is None:
            state = self.lstm.zero_state(len(z), z)
        states = self.lstm(self.encoder(z, tau), state, mask)
        return self.head(states.h), states
