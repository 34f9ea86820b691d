"""What the actions below the frames of a strip are called."""

from horizon_imagination.actions import Discrete
from horizon_imagination.agent import Agent
from horizon_imagination.envs.action_names import action_names
from horizon_imagination.envs.craftium import ACTIONS
from horizon_imagination.envs.known import EMBEDDED, atari_game
from horizon_imagination.envs.make import make_inline
from horizon_imagination.errors import UsageError


def names_of_actions(agent: Agent) -> tuple[str, ...]:
    """The names that a world which comes along gives its actions; none of other worlds.

    A picture, which may be drawn during training, starts nobody's own world.
    """
    space, cfg = agent.action_space, agent.config.env
    if not isinstance(space, Discrete):
        return ()
    names = ACTIONS.get(cfg.id, ())
    if cfg.id in EMBEDDED or atari_game(cfg.id):
        try:
            env = make_inline(cfg, 0)
        except (UsageError, ImportError):
            return ()
        names = action_names(env, cfg.id)
        env.close()
    return names if len(names) == space.n else ()
