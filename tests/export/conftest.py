"""The agent of catch that comes along, exported once."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from horizon_imagination.agent import Agent
from horizon_imagination.export.policy import export_policy
from horizon_imagination.play.library import FOLDER


class Exported(NamedTuple):
    """An agent and what was exported of it."""

    agent: Agent
    folder: Path
    card: dict[str, Any]


@pytest.fixture(scope="session")
def agent() -> Agent:
    """The agent of catch that comes with the package."""
    return Agent.load(FOLDER / "catch", "cpu")


@pytest.fixture(scope="session")
def exported(agent, tmp_path_factory) -> Exported:
    """Its policy, exported."""
    folder = tmp_path_factory.mktemp("export") / "policy"
    return Exported(agent, folder, export_policy(agent, folder, episodes=16))
