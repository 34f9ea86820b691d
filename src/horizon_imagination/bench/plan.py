"""What `horizon bench` measures: a config, its schedules, and modes of running it."""

from dataclasses import dataclass

import torch

from horizon_imagination.bench.ceilings import Ceilings
from horizon_imagination.bench.counts import Counts, Work
from horizon_imagination.bench.growth import sweeps
from horizon_imagination.config import Config
from horizon_imagination.presets import replaced

ROW_SECONDS = 0.02
"""What launching a row of imagination from Python takes on a GPU, to tell the time left."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure."""

    config: Config
    schedules: tuple[tuple[float, int], ...]
    """Decay horizon and budget; the first is the one around which growth is measured."""
    modes: tuple[str, ...]
    """In the order in which they are measured; growth is measured in the first."""
    num_actions: int = 18
    replay_frames: int = 50_000
    repeats: int = 8
    growth: bool = True
    quick: bool = False

    def at(self, schedule: tuple[float, int], mode: str) -> Config:
        """The config with a schedule, in a mode."""
        decay, budget = schedule
        imagination = {"decay_horizon": decay, "budget": budget}
        return in_mode(replaced(self.config, imagination=imagination), mode)


def in_mode(config: Config, mode: str) -> Config:
    """plain: nothing fused, nothing captured; fast: captured, other switches as they are given."""
    if mode == "given":
        return config
    if mode == "plain":
        return replaced(config, runtime={"graphs": False, "fused": "off"})
    return replaced(config, runtime={"graphs": True})


def weight(ceilings: Ceilings, device: torch.device, work: Work, rows: int) -> float:
    """A guess of the seconds of a call; only its proportions matter."""
    launches = ROW_SECONDS * rows if device.type == "cuda" else 0.0
    return 2 * work.flops / ceilings.flops + launches


def weight_of_mode(
    plan: Plan, mode: str, counts: Counts, ceilings: Ceilings, device: torch.device
) -> float:
    """The sum of the weights of all that is measured in a mode."""
    total = 0.0
    for schedule in plan.schedules:
        config, rows = plan.at(schedule, mode), schedule[1]
        batch = config.controller.learner.batch_size
        works = (counts.imagination(config, batch), counts.denoiser(config, batch))
        total += 2 * weight(ceilings, device, counts.controller(config), rows)
        total += sum(weight(ceilings, device, work, rows) for work in works)
    if plan.growth and mode == plan.modes[0]:
        config = plan.at(plan.schedules[0], mode)
        for point in sweeps(config, quick=plan.quick):
            work = counts.imagination(point.config(config), point.batch)
            total += weight(ceilings, device, work, point.budget)
    return total
