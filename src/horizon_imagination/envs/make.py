"""From the `env` section of a config to an environment."""

import re
from dataclasses import replace
from difflib import get_close_matches

import gymnasium

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs.atari import Atari, atari_games
from horizon_imagination.envs.checked import Checked
from horizon_imagination.envs.craftium import ACTIONS, Craftium
from horizon_imagination.envs.frames import ToFrames
from horizon_imagination.envs.given import GIVEN, not_given
from horizon_imagination.envs.gym import env_options, make_gym
from horizon_imagination.envs.known import EMBEDDED, atari_game
from horizon_imagination.envs.packages import is_registered
from horizon_imagination.envs.supervised import Supervised
from horizon_imagination.envs.trust import check_trusted
from horizon_imagination.envs.wrappers import FirstSeed, LimitTime, RepeatAction
from horizon_imagination.errors import UsageError

LARGEST = 4096
"""Height and width of frames."""


def make_env(cfg: EnvConfig, seed: int) -> gymnasium.Env:
    """The environment, showing uint8 frames of height x width x channel, with actions of a kind
    that `spaces.action_space` reads.

    Its first reset uses `seed` unless it is given another. Reset and step are Gymnasium's; nothing
    resets by itself at the end of an episode. With process isolation it is a `Supervised` one.
    What only a file names as code is refused (`trust.check_trusted`).
    """
    check_trusted(cfg)
    _check(cfg)
    return Supervised(cfg, seed) if in_own_process(cfg) else make_inline(cfg, seed)


def in_own_process(cfg: EnvConfig) -> bool:
    """Whether the environment of a config runs in a process of its own."""
    return cfg.isolation == "process" or (cfg.isolation == "auto" and cfg.id in ACTIONS)


def make_inline(cfg: EnvConfig, seed: int) -> gymnasium.Env:
    """The same environment in this process, whatever `cfg.isolation` says."""
    env = _world(cfg, seed)
    if cfg.frame_skip > 1 and cfg.id in EMBEDDED:
        env = RepeatAction(env, cfg.frame_skip)
    if cfg.time_limit:
        env = LimitTime(env, cfg.time_limit)
    return FirstSeed(env, seed)


def _world(cfg: EnvConfig, seed: int) -> gymnasium.Env:
    """The world itself, seen as frames."""
    if cfg.id in EMBEDDED:
        _refuse_reading(cfg, "an embedded world has none")
        return _grey(EMBEDDED[cfg.id][0](cfg.size, seed), cfg)
    if game := atari_game(cfg.id):
        _refuse_frame_skip(cfg, "use env.atari.frame_skip")
        _refuse_reading(cfg, "use the fields of env.atari")
        return _grey(Atari(game, cfg.size, cfg.atari, seed), cfg)
    if cfg.id in ACTIONS:
        _refuse_frame_skip(cfg, "use env.options '{\"frameskip\": N}'")
        return ToFrames(Checked(Craftium(cfg.id, cfg.size, env_options(cfg)), cfg.id), cfg)
    if ":" in cfg.id or is_registered(cfg.id):
        return make_gym(cfg)
    raise UsageError(unknown(cfg.id))


def unknown(name: str) -> str:
    """What to say about an id nobody knows."""
    games = atari_games()
    if name.startswith(GIVEN):
        return not_given(name)
    if name == "imported":
        return "this data was imported and does not say from which world: name it with --env ID"
    if name.startswith("ALE/") and not games:
        return f"env.id {name}: Atari needs ale-py: pip install 'horizon_imagination[atari]'"
    known = [*EMBEDDED, *games, *ACTIONS, *(f"ALE/{game}-v5" for game in games)]
    known += list(gymnasium.registry)
    folded = {entry.lower(): entry for entry in reversed(known)}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.75)
    hint = f"did you mean {folded[close[0]]}?" if close else "horizon envs lists what there is"
    if re.search(r"-v\d+$", name):
        package = f"name the package that registers it, --env PACKAGE:{name}"
        hint = f"{hint} If not, {package}" if close else package
    return f"env.id {name!r} is unknown: {hint}"


def _grey(env: gymnasium.Env, cfg: EnvConfig) -> gymnasium.Env:
    return ToFrames(env, replace(cfg, pixels=False)) if cfg.grey else env


def _refuse_frame_skip(cfg: EnvConfig, instead: str) -> None:
    if cfg.frame_skip != 1:
        raise UsageError(f"env.frame_skip does not apply to {cfg.id}: {instead}")


def _refuse_reading(cfg: EnvConfig, instead: str) -> None:
    """Worlds that draw their frames themselves take no options and leave nothing to read."""
    if cfg.options:
        raise UsageError(f"env.options does not apply to {cfg.id}: {instead}")
    if cfg.channels != "auto" or cfg.range is not None:
        raise UsageError(f"env.channels and env.range do not apply to {cfg.id}: it shows RGB bytes")


def _check(cfg: EnvConfig) -> None:
    for name, least in (("size", 8), ("frame_skip", 1), ("time_limit", 0), ("max_failures", 1)):
        value = getattr(cfg, name)
        if value < least:
            raise UsageError(f"env.{name} is {value}: expected at least {least}")
    if cfg.size > LARGEST:
        raise UsageError(f"env.size is {cfg.size}: expected at most {LARGEST}")
    for name in ("step_timeout", "reset_timeout"):
        if getattr(cfg, name) <= 0:
            raise UsageError(f"env.{name} is {getattr(cfg, name)}: expected seconds above 0")
    if cfg.memory_limit < 0:
        raise UsageError(f"env.memory_limit is {cfg.memory_limit}: expected GiB, or 0 for no limit")
