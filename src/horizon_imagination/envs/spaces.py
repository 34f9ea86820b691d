"""Between a world's action space and the agent's: spaces read, actions translated."""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from jaxtyping import Shaped
from torch import Tensor

from horizon_imagination.action_json import MOST_ENTRIES
from horizon_imagination.actions import ActionSpace, Box, Discrete, MultiDiscrete
from horizon_imagination.errors import UsageError


def action_space(env: gymnasium.Env) -> ActionSpace:
    """The action space of an environment, or an error that says what to do."""
    space: Any = env.action_space
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        _check_entries(space, len(space.nvec))
        return MultiDiscrete(tuple(int(n) for n in space.nvec))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        _check_entries(space, int(np.prod(space.shape)))
        low, high = (np.asarray(x, np.float32).reshape(-1) for x in (space.low, space.high))
        try:
            return Box(tuple(low.tolist()), tuple(high.tolist()))
        except ValueError as error:
            raise UsageError(
                f"the environment has {error}: wrap it in gymnasium.wrappers.RescaleAction and "
                "name that as module:Name"
            ) from None
    raise UsageError(
        f"the environment has composite actions ({space}); expected Discrete, MultiDiscrete or a "
        "Box of floats: wrap it in one that offers those and name that as module:Name"
    )


def _check_entries(space: spaces.Space, entries: int) -> None:
    if not 1 <= entries <= MOST_ENTRIES:
        raise UsageError(
            f"the environment has actions of {entries} numbers ({space}): expected 1 to "
            f"{MOST_ENTRIES}"
        )


def to_world(space: ActionSpace, action: Shaped[Tensor, "..."]) -> Shaped[np.ndarray, "..."]:
    """The agent's actions as the world takes them: vectors in its units."""
    if isinstance(space, Box):
        return space.unscaled(action.float()).numpy()
    return action.numpy()


def from_world(space: ActionSpace, action: Shaped[np.ndarray, "..."]) -> Shaped[Tensor, "..."]:
    """The world's actions as the agent has them: vectors scaled to [-1, 1]."""
    if isinstance(space, Box):
        return space.scaled(torch.from_numpy(np.asarray(action, np.float32)))
    return torch.from_numpy(np.asarray(action, np.int64))


def single(actions: Shaped[np.ndarray, "..."]) -> Any:
    """The one action of a batch of one: a plain whole number, or a vector."""
    return int(actions[0]) if actions.ndim == 1 else actions[0]


def random_action(space: ActionSpace, rng: np.random.Generator) -> Any:
    """An action of the world, uniformly."""
    if isinstance(space, Discrete):
        return int(rng.integers(space.n))
    if isinstance(space, MultiDiscrete):
        return rng.integers(space.factors)
    return rng.uniform(space.low, space.high).astype(np.float32)
