"""From the `env` section of a config to an environment."""

from dataclasses import dataclass
from difflib import get_close_matches

import gymnasium

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.catch import Catch
from horizon_imagination.envs.fog import Fog
from horizon_imagination.envs.frames import ToFrames
from horizon_imagination.envs.wrappers import FirstSeed, LimitTime, RepeatAction
from horizon_imagination.errors import UsageError


@dataclass(frozen=True)
class EnvInfo:
    """One line of `horizon envs`."""

    name: str
    summary: str
    num_actions: int
    random_return: float | None = None
    best_return: float | None = None


EMBEDDED: dict[str, tuple[type[Catch], str]] = {
    "catch": (Catch, "a ball falls, a paddle catches it; 7 steps"),
    "fog": (Fog, "the ball is seen for two frames and must be remembered; 7 steps, stochastic"),
}


def make_env(cfg: EnvConfig, seed: int) -> gymnasium.Env:
    """The environment, showing uint8 frames of height x width x channel, with discrete actions.

    Its first reset uses `seed` unless it is given another. Reset and step are Gymnasium's; nothing
    resets by itself at the end of an episode.
    """
    _check(cfg)
    return _inline(cfg, seed)


def env_names() -> list[EnvInfo]:
    """The worlds that are known by name."""
    return [
        EnvInfo(name, summary, 3, world.RANDOM_RETURN, world.BEST_RETURN)
        for name, (world, summary) in EMBEDDED.items()
    ]


def _inline(cfg: EnvConfig, seed: int) -> gymnasium.Env:
    """The environment in this process."""
    if cfg.id in EMBEDDED:
        env: gymnasium.Env = EMBEDDED[cfg.id][0](cfg.size, seed)
    else:
        close = get_close_matches(cfg.id, list(EMBEDDED), n=1)
        raise UsageError(f"env.id {cfg.id!r} is unknown" + (f": {close[0]}?" if close else ""))
    if cfg.frame_skip > 1:
        env = RepeatAction(env, cfg.frame_skip)
    if cfg.grey:
        env = ToFrames(env, cfg.size, grey=True)
    if cfg.time_limit:
        env = LimitTime(env, cfg.time_limit)
    return FirstSeed(env, seed)


def _check(cfg: EnvConfig) -> None:
    for name, least in (("size", 8), ("frame_skip", 1), ("time_limit", 0), ("max_failures", 1)):
        value = getattr(cfg, name)
        if value < least:
            raise UsageError(f"env.{name} is {value}: expected at least {least}")
