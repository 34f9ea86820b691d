"""A toy agent with its data, and features that need no download."""

from pathlib import Path

import torch
from einops import rearrange, reduce

from horizon_imagination.agent import Agent
from horizon_imagination.cli import main
from horizon_imagination.config import Config
from horizon_imagination.data import Store
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.studies.quality.grid import Grid
from horizon_imagination.studies.quality.laboratory import Extractor, Laboratory, QualityStudy

CPU = torch.device("cpu")
SMALL = Grid(horizon=6, budgets=(3, 6, 12), decay_horizons=(1, 2, 32))


def random_network(videos):
    """Features of a small random 3D convolution: mean activations over the video."""
    rng = torch.Generator().manual_seed(0)
    kernel = torch.randn(24, videos.shape[2], 3, 5, 5, generator=rng) / 5
    frames = rearrange(videos.float() / 127.5 - 1, "n t c h w -> n c t h w")
    out = torch.nn.functional.conv3d(frames, kernel, stride=(1, 2, 2)).relu()
    return reduce(out, "n c t h w -> n c", "mean")


class Counted:
    """The random network, counting the sets of videos it has seen."""

    def __init__(self) -> None:
        self.calls = 0
        self.extractor = Extractor("random", self)

    def __call__(self, videos):
        self.calls += 1
        return random_network(videos)


def record(folder: Path, episodes: int = 24, size: int = 32) -> Path:
    """Random episodes of catch, of eight frames each."""
    line = f"record --env catch --env.size {size} --episodes {episodes} --out {folder}"
    assert main(line.split()) == 0
    return folder


def untrained(**runtime) -> Agent:
    """A toy agent whose denoiser says something else for every input."""
    config: Config = replaced(DEBUG, runtime=runtime) if runtime else DEBUG
    agent = Agent(config, 3, CPU)
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for network in (agent.denoiser, agent.imagination_denoiser):
            for weight in network.parameters():
                weight.add_(torch.randn(weight.shape, generator=rng) * 0.05)
            rng.manual_seed(1)
    return agent


def laboratory(data: Path, extractor: Extractor | None = None, **study) -> Laboratory:
    """A study of 16 videos on the toy agent."""
    sizes = {"grid": SMALL, "segments": 16, "batch": 6} | study
    return Laboratory(QualityStudy(**sizes), untrained(), Store.open(data), extractor)
