"""What the actions of a world are called."""

import enum

import gymnasium

from horizon_imagination.actions import Discrete
from horizon_imagination.envs.craftium import ACTIONS
from horizon_imagination.envs.spaces import action_space


def action_names(env: gymnasium.Env, env_id: str) -> tuple[str, ...]:
    """A name for every action: the world's own, if it has any, else their numbers.

    Of vectors and of several numbers it is a name for every entry.

    A world tells by `get_action_meanings()`, as Atari's do, or by an `actions` enumeration, as
    MiniGrid's do.
    """
    space = action_space(env)
    count = space.n if isinstance(space, Discrete) else space.shape[0]
    world = env.unwrapped
    names: list[str] = []
    if env_id in ACTIONS:
        names = list(ACTIONS[env_id])
    elif callable(told := getattr(world, "get_action_meanings", None)):
        names = [str(name) for name in told()]  # type: ignore[union-attr]
    elif isinstance(listed := getattr(world, "actions", None), enum.EnumMeta):
        names = [str(member.name) for member in listed]  # type: ignore[var-annotated]
    if len(names) != count:
        return tuple(str(action) for action in range(count))
    return tuple(names)
