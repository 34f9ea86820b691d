"""An agent that comes along, and a server to talk to."""

import pytest
from serving import Served

from horizon_imagination.envs import make_env
from horizon_imagination.play.game import Game
from horizon_imagination.play.library import load, players
from horizon_imagination.play.worlds import PlayedAgent


@pytest.fixture(scope="session")
def networks():
    """The agent of catch that comes with the package."""
    return PlayedAgent(load(players(None)["catch"], "best", "cpu")[0])


@pytest.fixture
def game(networks):
    """A game of catch, begun."""
    env = make_env(networks.agent.config.env, seed=3)
    made = Game(networks, env, ("left", "stay", "right"), seed=3)
    made.reset()
    return made


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server of the agents that come along."""
    server = Served(cwd=tmp_path_factory.mktemp("served"))
    yield server
    server.stop()
