"""What others' code takes for the same work, to stand beside a measurement.

Only for the paper's sizes: 12 layers of width 512, 16 tokens a frame, horizon 32, one context
frame, imagination batch 30, world-model batch 8 x 32, tokenizer batch 32.
"""

from horizon_imagination.config import Config

PAPER_SOURCE = "the paper's runtime tables (appendix), RTX 4090"
RELEASE_SOURCE = "authors' release, measured on an H200 (torch 2.11, TF32, medians of 5 to 8)"

Key = tuple[str, float, int]
"""Stage, decay horizon, budget."""

SHARED = {"tokenizer": (72.5, 48.0), "world_model": (133.2, 88.0)}
"""Milliseconds of stages that no schedule changes: paper, release."""

PAPER: dict[tuple[str, int], float] = {
    ("controller", 16): 1071.0,
    ("controller", 32): 1871.0,
    ("imagination", 16): 673.0,
    ("imagination", 32): 1326.5,
    ("denoiser", 16): 16 * 34.3,
    ("denoiser", 32): 32 * 34.3,
    ("actions", 16): 16 * 6.5,
    ("actions", 32): 32 * 6.5,
    ("rewards", 16): 5.18,
    ("rewards", 32): 5.18,
    ("update", 16): 1071.0 - 673.0,
    ("update", 32): 1871.0 - 1326.5,
    ("epoch", 16): 1e3 * (21.75 + 39.96 + 53.55),
    ("epoch", 32): 1e3 * (21.75 + 39.96 + 93.55),
}
"""Milliseconds by stage and budget: it evaluates every frame at every step, whatever the decay
horizon. Its imagination includes the reward prediction."""

RELEASE: dict[Key, float] = {
    ("imagination", 4.0, 16): 497.0,
    ("imagination", 4.0, 32): 997.0,
    ("imagination", 1.0, 32): 999.0,
    ("controller", 4.0, 16): 790.0,
    ("controller", 4.0, 32): 1534.0,
    ("epoch", 4.0, 16): 300 * 48.0 + 300 * 88.0 + 50 * 790.0,
    ("epoch", 4.0, 32): 300 * 48.0 + 300 * 88.0 + 50 * 1534.0,
}
"""Milliseconds; an epoch has 300, 300 and 50 steps, and encoding is part of the world model's."""

RELEASE_GIB: dict[Key, float] = {
    ("imagination", 4.0, 16): 9.6,
    ("imagination", 4.0, 32): 17.7,
    ("imagination", 1.0, 32): 17.7,
    ("controller", 4.0, 16): 10.7,
    ("controller", 4.0, 32): 18.8,
}
SHARED_GIB = {"tokenizer": 3.6, "world_model": 3.6}

PAPER_THROUGHPUT = {16: (23529.4, 1470.6, 46.0), 32: (23529.4, 735.3, 23.0)}
"""Frame denoisings, frames and 32-frame segments per second, by budget."""


def comparable(config: Config, paper: Config) -> bool:
    """Whether a config does the work that was published: networks, batches, lengths, losses."""
    mine, theirs = config.imagination, paper.imagination
    same = ("tokenizer", "denoiser", "reward", "world_model", "controller")
    return (
        all(getattr(config, name) == getattr(paper, name) for name in same)
        and (config.env.size, config.env.grey) == (paper.env.size, paper.env.grey)
        and (mine.horizon, mine.context) == (theirs.horizon, theirs.context)
    )


def paper_ms(stage: str, budget: int | None) -> float | None:
    """The paper's figure for a stage, if it has one."""
    if budget is None:
        return SHARED[stage][0] if stage in SHARED else None
    return PAPER.get((stage, budget))


def release_ms(stage: str, decay_horizon: float | None, budget: int | None) -> float | None:
    """The release's figure for a stage, if it was measured."""
    if decay_horizon is None or budget is None:
        return SHARED[stage][1] if stage in SHARED else None
    return RELEASE.get((stage, decay_horizon, budget))


def release_gib(stage: str, decay_horizon: float | None, budget: int | None) -> float | None:
    """The release's peak memory in a stage, if it was measured."""
    if decay_horizon is None or budget is None:
        return SHARED_GIB.get(stage)
    return RELEASE_GIB.get((stage, decay_horizon, budget))
