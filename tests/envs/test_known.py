"""What is known of environments by name."""

import pytest

from horizon_imagination.actions import Discrete
from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import make_env
from horizon_imagination.envs.known import (
    ATARI_SCORES,
    env_names,
    frame_shape,
    known_actions,
    reference_scores,
)
from horizon_imagination.envs.spaces import action_space


@pytest.mark.parametrize("name", ["catch", "small-catch", "fog", "small-fog"])
def test_what_is_known_of_embedded_worlds_is_true(name):
    env = make_env(EnvConfig(id=name, size=24, grey=True), 0)
    assert known_actions(name) == action_space(env) == Discrete(3)
    assert frame_shape(env) == (1, 24, 24)
    scores = reference_scores(name)
    assert set(scores) == {"random", "best"} and scores["random"] < scores["best"] == 1


def test_scores_of_atari_games_do_not_depend_on_how_they_are_named():
    expected = {"random": 257.6, "human": 2412.5}
    assert reference_scores("ALE/Gopher-v5") == expected == reference_scores("Gopher")
    assert reference_scores("ALE/Gopher-v4") == {} == reference_scores("my_package:Gopher")


def test_the_list_and_the_scores_agree():
    for info in env_names():
        scores = reference_scores(info.name)
        assert scores.get("random") == info.random_return
        assert scores.get("best") == info.best_return


def test_games_are_known_where_the_emulator_is_not_installed(monkeypatch):
    monkeypatch.setattr("horizon_imagination.envs.known.atari_games", list)
    assert all(reference_scores(f"ALE/{game}-v5") for game in ATARI_SCORES)
    assert known_actions("ALE/Gopher-v5") == Discrete(8) and known_actions("ALE/Pong-v5") is None
