"""Worlds to act in: embedded ones, Atari, Craftium, and any Gymnasium environment."""

from horizon_imagination.envs.make import EnvInfo, env_names, make_env
from horizon_imagination.envs.state import restore, snapshot

__all__ = ["EnvInfo", "env_names", "make_env", "restore", "snapshot"]
