"""Worlds to act in: embedded ones, Atari, Craftium, and any Gymnasium environment."""

from horizon_imagination.envs.action_names import action_names
from horizon_imagination.envs.atari import atari_games
from horizon_imagination.envs.craftium import actor_bias
from horizon_imagination.envs.known import EnvInfo, env_names
from horizon_imagination.envs.make import make_env
from horizon_imagination.envs.state import restore, snapshot
from horizon_imagination.errors import EnvFailure

__all__ = [
    "EnvFailure",
    "EnvInfo",
    "action_names",
    "actor_bias",
    "atari_games",
    "env_names",
    "make_env",
    "restore",
    "snapshot",
]
