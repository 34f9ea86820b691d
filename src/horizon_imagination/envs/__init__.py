"""Worlds to act in: embedded ones, Atari, Craftium, and any Gymnasium environment."""

from horizon_imagination.envs.atari import atari_games
from horizon_imagination.envs.craftium import actor_bias
from horizon_imagination.envs.make import EnvInfo, env_names, make_env
from horizon_imagination.envs.state import restore, snapshot
from horizon_imagination.envs.supervised import EnvFailure

__all__ = [
    "EnvFailure",
    "EnvInfo",
    "actor_bias",
    "atari_games",
    "env_names",
    "make_env",
    "restore",
    "snapshot",
]
