"""Which world a run is in and how it is seen: the part of the config that environments read."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class AtariConfig:
    """The Atari protocol; the defaults are those of the published runs."""

    frame_skip: int = 4
    """Emulated frames per action."""
    max_noops: int = 30
    """A reset is followed by 1 to this many no-ops; 0 switches them off."""
    noop_unit: Literal["steps", "frames"] = "steps"
    """Whether a no-op lasts one agent step (the published runs) or one emulated frame."""
    max_pool: bool = False
    """Take the maximum over the last two emulated frames, against sprite flicker."""
    full_actions: bool = False
    """All 18 actions instead of the game's minimal set."""
    sticky: float = 0.0
    """Probability that the emulator repeats the previous action."""
    end_on_life_loss: bool = False
    """Report the loss of a life as the end of the episode."""
    sign_rewards: bool = False
    """Replace each reward by its sign."""
    max_frames: int = 108_000
    """Emulated frames after which an episode is truncated."""


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Which world, and how it is seen."""

    id: str = "catch"
    """An embedded world, `ALE/Game-v5`, `Craftium/Name-v0`, any Gymnasium id, or `module:Name`."""
    size: int = 64
    """Height and width of the frames the agent sees."""
    grey: bool = False
    """One channel instead of three."""
    pixels: bool = False
    """Use the environment's `rgb_array` render as the observation."""
    frame_skip: int = 1
    """Repeat each action (Atari and Craftium have their own)."""
    time_limit: int = 0
    """Truncate episodes after this many agent steps; 0 leaves them to the environment."""
    old_api: bool = False
    """The environment speaks the old interface: `reset() -> obs`, `step() -> 4 values`."""
    options: str = ""
    """Keyword arguments of the environment, as a JSON object."""
    isolation: Literal["auto", "process", "inline"] = "auto"
    """Run it in its own supervised process, or in this one (auto: process for Craftium only)."""
    step_timeout: float = 60.0
    """Seconds after which a supervised step counts as hung."""
    reset_timeout: float = 300.0
    """Seconds after which a supervised reset counts as hung."""
    max_failures: int = 5
    """Failures in a row after which a supervised environment gives up and the run stops, saved."""
    atari: AtariConfig = field(default_factory=AtariConfig)
