"""What is known of environments without playing them: names, actions, reference scores."""

import re
from dataclasses import dataclass
from typing import Any

import gymnasium

from horizon_imagination.actions import ActionSpace, Discrete
from horizon_imagination.envs.atari import PAPER_GAMES, atari_games
from horizon_imagination.envs.catch import Catch, SmallCatch
from horizon_imagination.envs.craftium import ACTIONS, SUMMARIES
from horizon_imagination.envs.fog import Fog, SmallFog
from horizon_imagination.envs.reach import Reach, SmallReach

EMBEDDED: dict[str, tuple[type[Catch] | type[Reach], str]] = {
    "catch": (Catch, "a ball falls, a paddle catches it; 7 steps"),
    "small-catch": (SmallCatch, "catch on a board of 4 x 4 cells; 3 steps"),
    "small-fog": (SmallFog, "fog on a board of 6 x 6 cells; 5 steps"),
    "reach": (Reach, "a point is moved onto a target in the plane, by a vector; 4 steps"),
    "small-reach": (SmallReach, "the same on a line, by a number; 3 steps"),
    "fog": (Fog, "the ball is seen for two frames and must be remembered; 7 steps, stochastic"),
}

ATARI_SCORES: dict[str, tuple[float, float]] = {
    "Alien": (227.8, 7127.7),
    "Amidar": (5.8, 1719.5),
    "Assault": (222.4, 742.0),
    "Asterix": (210.0, 8503.3),
    "BankHeist": (14.2, 753.1),
    "BattleZone": (2360.0, 37187.5),
    "Boxing": (0.1, 12.1),
    "Breakout": (1.7, 30.5),
    "ChopperCommand": (811.0, 7387.8),
    "CrazyClimber": (10780.5, 35829.4),
    "DemonAttack": (152.1, 1971.0),
    "Freeway": (0.0, 29.6),
    "Frostbite": (65.2, 4334.7),
    "Gopher": (257.6, 2412.5),
    "Hero": (1027.0, 30826.4),
    "Jamesbond": (29.0, 302.8),
    "Kangaroo": (52.0, 3035.0),
    "Krull": (1598.0, 2665.5),
    "KungFuMaster": (258.5, 22736.3),
    "MsPacman": (307.3, 6951.6),
    "Pong": (-20.7, 14.6),
    "PrivateEye": (24.9, 69571.3),
    "Qbert": (163.9, 13455.0),
    "RoadRunner": (11.5, 7845.0),
    "Seaquest": (68.4, 42054.7),
    "UpNDown": (533.4, 11693.2),
}
"""Game: (random policy, human)."""
"""Returns of random play and of humans in the 26 games of Atari 100K, used since 2015."""


@dataclass(frozen=True)
class EnvInfo:
    """One line of `horizon envs`."""

    name: str
    summary: str
    action_space: ActionSpace
    random_return: float | None = None
    best_return: float | None = None


def env_names() -> list[EnvInfo]:
    """The environments that are known by name: the embedded ones and the paper's."""
    embedded = [
        EnvInfo(name, summary, world.ACTIONS, world.RANDOM_RETURN, world.BEST_RETURN)
        for name, (world, summary) in EMBEDDED.items()
    ]
    atari = [
        EnvInfo(f"ALE/{game}-v5", "Atari, as in the paper", Discrete(n), ATARI_SCORES[game][0])
        for game, n in PAPER_GAMES.items()
    ]
    craftium = [EnvInfo(name, SUMMARIES[name], Discrete(len(x))) for name, x in ACTIONS.items()]
    return embedded + atari + craftium


def atari_game(name: str) -> str | None:
    """The game of an id; none for what is no game.

    >>> atari_game("ALE/KungFuMaster-v5"), atari_game("KungFuMaster"), atari_game("catch")
    ('KungFuMaster', 'KungFuMaster', None)
    """
    match = re.fullmatch(r"(?:ALE/)?(\w+?)(?:-v5)?", name)
    bare = match is not None and (name.startswith("ALE/") == name.endswith("-v5"))
    return match[1] if match and bare and match[1] in (atari_games() or ATARI_SCORES) else None


def reference_scores(name: str) -> dict[str, float]:
    """Known returns of an environment: `random`, and `best` or `human`.

    >>> reference_scores("ALE/Boxing-v5"), reference_scores("CartPole-v1")
    ({'random': 0.1, 'human': 12.1}, {})
    """
    if name in EMBEDDED:
        world = EMBEDDED[name][0]
        return {"random": world.RANDOM_RETURN, "best": world.BEST_RETURN}
    scores = ATARI_SCORES.get(atari_game(name) or "")
    return {} if scores is None else {"random": scores[0], "human": scores[1]}


def known_actions(name: str) -> ActionSpace | None:
    """The action space of an environment that need not be installed; none if unknown."""
    return {info.name: info.action_space for info in env_names()}.get(name)


def frame_shape(env: gymnasium.Env) -> tuple[int, int, int]:
    """Channels, height and width of the frames of an environment."""
    space: Any = env.observation_space
    height, width, channels = space.shape
    return channels, height, width
