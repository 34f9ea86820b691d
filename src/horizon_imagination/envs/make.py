"""From the `env` section of a config to an environment."""

import re
from dataclasses import dataclass
from difflib import get_close_matches

import gymnasium

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.atari import PAPER_GAMES, Atari, atari_games
from horizon_imagination.envs.catch import Catch, SmallCatch
from horizon_imagination.envs.craftium import ACTIONS, SUMMARIES, Craftium
from horizon_imagination.envs.fog import Fog, SmallFog
from horizon_imagination.envs.frames import ToFrames
from horizon_imagination.envs.gym import env_options, is_registered, make_gym
from horizon_imagination.envs.supervised import Supervised
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
    "small-catch": (SmallCatch, "catch on a board of 4 x 4 cells; 3 steps"),
    "small-fog": (SmallFog, "fog on a board of 6 x 6 cells; 5 steps"),
    "fog": (Fog, "the ball is seen for two frames and must be remembered; 7 steps, stochastic"),
}

ATARI_RANDOM = {"Boxing": 0.1, "CrazyClimber": 10780.5, "Gopher": 257.6, "KungFuMaster": 258.5}
"""Published returns of the random policy (DQN's table)."""


def make_env(cfg: EnvConfig, seed: int) -> gymnasium.Env:
    """The environment, showing uint8 frames of height x width x channel, with discrete actions.

    Its first reset uses `seed` unless it is given another. Reset and step are Gymnasium's; nothing
    resets by itself at the end of an episode. With process isolation it is a `Supervised` one.
    """
    _check(cfg)
    apart = cfg.isolation == "process" or (cfg.isolation == "auto" and cfg.id in ACTIONS)
    return Supervised(cfg, seed) if apart else make_inline(cfg, seed)


def make_inline(cfg: EnvConfig, seed: int) -> gymnasium.Env:
    """The same environment in this process, whatever `cfg.isolation` says."""
    env = _world(cfg, seed)
    if cfg.frame_skip > 1:
        env = RepeatAction(env, cfg.frame_skip)
    if cfg.time_limit:
        env = LimitTime(env, cfg.time_limit)
    return FirstSeed(env, seed)


def env_names() -> list[EnvInfo]:
    """The worlds that are known by name: the embedded ones and the paper's."""
    embedded = [
        EnvInfo(name, summary, 3, world.RANDOM_RETURN, world.BEST_RETURN)
        for name, (world, summary) in EMBEDDED.items()
    ]
    atari = [
        EnvInfo(f"ALE/{game}-v5", "Atari, as in the paper", actions, ATARI_RANDOM[game])
        for game, actions in PAPER_GAMES.items()
    ]
    craftium = [EnvInfo(name, SUMMARIES[name], len(acts)) for name, acts in ACTIONS.items()]
    return embedded + atari + craftium


def atari_game(name: str) -> str | None:
    """`KungFuMaster` for `ALE/KungFuMaster-v5` and `KungFuMaster`; none for what is no game."""
    match = re.fullmatch(r"(?:ALE/)?(\w+?)(?:-v5)?", name)
    bare = match is not None and (name.startswith("ALE/") == name.endswith("-v5"))
    return match[1] if match and bare and match[1] in (atari_games() or PAPER_GAMES) else None


def _world(cfg: EnvConfig, seed: int) -> gymnasium.Env:
    """The world itself, seen as frames."""
    if cfg.id in EMBEDDED:
        return _grey(EMBEDDED[cfg.id][0](cfg.size, seed), cfg)
    if game := atari_game(cfg.id):
        _refuse_frame_skip(cfg, "use env.atari.frame_skip")
        return _grey(Atari(game, cfg.size, cfg.atari, seed), cfg)
    if cfg.id in ACTIONS:
        _refuse_frame_skip(cfg, "use env.options '{\"frameskip\": N}'")
        return ToFrames(Craftium(cfg.id, cfg.size, env_options(cfg)), cfg.size, cfg.grey)
    if ":" in cfg.id or is_registered(cfg.id):
        return make_gym(cfg)
    raise UsageError(unknown(cfg.id))


def unknown(name: str) -> str:
    """What to say about an id nobody knows."""
    games = atari_games()
    if name.startswith("ALE/") and not games:
        return f"env.id {name}: Atari needs ale-py: pip install 'horizon_imagination[atari]'"
    known = [*EMBEDDED, *games, *ACTIONS, *(f"ALE/{game}-v5" for game in games)]
    known += list(gymnasium.registry)
    folded = {entry.lower(): entry for entry in reversed(known)}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    hint = f"did you mean {folded[close[0]]}?" if close else "horizon envs lists what there is"
    return f"env.id {name!r} is unknown: {hint}"


def _grey(env: gymnasium.Env, cfg: EnvConfig) -> gymnasium.Env:
    return ToFrames(env, cfg.size, grey=True) if cfg.grey else env


def _refuse_frame_skip(cfg: EnvConfig, instead: str) -> None:
    if cfg.frame_skip != 1:
        raise UsageError(f"env.frame_skip does not apply to {cfg.id}: {instead}")


def _check(cfg: EnvConfig) -> None:
    for name, least in (("size", 8), ("frame_skip", 1), ("time_limit", 0), ("max_failures", 1)):
        value = getattr(cfg, name)
        if value < least:
            raise UsageError(f"env.{name} is {value}: expected at least {least}")
    for name in ("step_timeout", "reset_timeout"):
        if getattr(cfg, name) <= 0:
            raise UsageError(f"env.{name} is {getattr(cfg, name)}: expected seconds above 0")
