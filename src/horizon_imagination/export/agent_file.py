"""Write an agent as one file to hand around: what it acts and imagines with, in half precision."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.config_json import to_json
from horizon_imagination.errors import Failure
from horizon_imagination.files import write_bytes
from horizon_imagination.snapshots import HEADER
from horizon_imagination.version import __version__

TRAINED, AVERAGE = "denoiser.", "denoiser_average."


def export_agent(agent: Agent, path: Path, trained: dict[str, int]) -> None:
    """Write the file, whole or not at all; `Agent.load` and every command read it."""
    about, weights = slimmed(agent)
    header = {"agent": about, "version": __version__, "trained": trained}
    # One entry alone: several would come in any order, and the bytes would differ.
    write_bytes(path, save(weights, {HEADER: json.dumps(header)}))


def slimmed(agent: Agent) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Description and weights of an agent whose denoiser is the average, if it has one.

    Imagination uses the average, so the weights that were being trained are left out. Weights are
    in half precision; statistics, which hold counts of steps, as they are.
    """
    weights, about, config = agent.weights(), agent.description(), agent.config
    networks = agent.networks().items()
    statistics = {f"{name}.{key}" for name, one in networks for key, _ in one.named_buffers()}
    if any(name.startswith(AVERAGE) for name in weights):
        weights = {k: v for k, v in weights.items() if not k.startswith(TRAINED)}
        weights = {k.replace(AVERAGE, TRAINED, 1): v for k, v in weights.items()}
        config = replace(config, denoiser=replace(config.denoiser, ema=0.0))
    kept = {k: v if k in statistics else _half(k, v) for k, v in weights.items()}
    return about | {"config": to_json(config)}, {k: v.contiguous() for k, v in kept.items()}


def _half(name: str, value: Tensor) -> Tensor:
    half = value.to(torch.float16)
    if not half.isfinite().all():
        raise Failure(f"{name} is too large for half precision: not exported")
    return half
