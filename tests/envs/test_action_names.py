"""What the actions of a world are called."""

import gymnasium
import pytest

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import action_names, make_env


class Silent(gymnasium.Env):
    def __init__(self, actions):
        self.action_space = gymnasium.spaces.Discrete(actions)


class Talkative(Silent):
    def get_action_meanings(self):
        return ["left", "right"]


def names_of(env_id, **settings):
    env = make_env(EnvConfig(id=env_id, **settings), seed=0)
    try:
        return action_names(env, env_id)
    finally:
        env.close()


@pytest.mark.parametrize("world", ["catch", "small-catch", "fog", "small-fog"])
def test_embedded_worlds_name_their_actions(world):
    assert names_of(world) == ("left", "stay", "right")


def test_atari_names_its_minimal_actions():
    pytest.importorskip("ale_py")
    names = names_of("ALE/Gopher-v5")
    assert len(names) == 8 and names[:3] == ("NOOP", "FIRE", "UP")


def test_an_enumeration_of_actions_gives_their_names():
    pytest.importorskip("minigrid")
    names = names_of("MiniGrid-Empty-5x5-v0", pixels=True)
    assert names[:3] == ("left", "right", "forward") and len(names) == 7


def test_a_world_that_tells_nothing_has_numbers():
    assert names_of("CartPole-v1", pixels=True) == ("0", "1")


def test_names_that_do_not_fit_the_number_of_actions_are_not_used():
    env = Talkative(3)
    assert action_names(env, "made-up") == ("0", "1", "2")


def test_craftium_is_known_by_its_table_even_in_its_own_process():
    names = action_names(Silent(4), "Craftium/Room-v0")
    assert names[:2] == ("nop", "forward")
