"""Imagination's time against horizon, budget, decay horizon and batch."""

from dataclasses import dataclass

from horizon_imagination.config import Config
from horizon_imagination.presets import replaced

SWEEPS = ("horizon", "budget", "decay_horizon", "batch")


@dataclass(frozen=True)
class Point:
    """One imagination to time."""

    horizon: int
    budget: int
    decay_horizon: float
    batch: int

    def config(self, base: Config) -> Config:
        """The base with this imagination."""
        return replaced(
            base,
            imagination={
                "horizon": self.horizon,
                "budget": self.budget,
                "decay_horizon": self.decay_horizon,
            },
        )


def sweeps(config: Config, *, quick: bool) -> dict[Point, list[str]]:
    """The points, each once, with the sweeps that they belong to.

    Around the config's own imagination: horizons from a half to eight times (budget in
    proportion, decay horizon kept), budgets from a half to four times, decay horizons from 1 to
    half the horizon, batches from a quarter to eight times.
    """
    cfg, batch = config.imagination, config.controller.learner.batch_size
    h, b, nu = cfg.horizon, cfg.budget, cfg.decay_horizon
    count = 3 if quick else 5
    found: dict[Point, list[str]] = {}

    def add(sweep: str, horizon: int, budget: int, decay: float, batch: int) -> None:
        if horizon >= decay and budget >= 1 and batch >= 1:
            names = found.setdefault(Point(horizon, budget, decay, batch), [])
            if sweep not in names:
                names.append(sweep)

    for times in (0.5, 1, 2, 4, 8)[:count]:
        add("horizon", round(h * times), max(1, round(b * times)), nu, batch)
    for times in (0.5, 1, 2, 4)[:count]:
        add("budget", h, round(b * times), nu, batch)
    decays = sorted({nu, *(float(2**i) for i in range(h.bit_length() - 1) if 2**i <= h / 2)})
    for decay in decays[:count]:
        add("decay_horizon", h, b, decay, batch)
    for times in (0.25, 1, 2, 4, 8)[:count]:
        add("batch", h, b, nu, round(batch * times))
    return found
