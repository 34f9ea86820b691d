"""A game in the world model, the real world, or both from the same start."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from horizon_imagination.envs import make_env
from horizon_imagination.play.game import Game
from horizon_imagination.play.library import BUNDLED, FOLDER, load, players
from horizon_imagination.play.worlds import RealWorld
from horizon_imagination.types import NO_ACTION


def choose(game, **chosen):
    game.choices = replace(game.choices, **chosen)


def play(game, action=None):
    while game.step(action):
        pass


def difference(game):
    pictures = [game.moments[world].picture.astype(int) for world in ("model", "real")]
    return float(np.abs(pictures[0] - pictures[1]).mean())


@pytest.mark.parametrize("name", BUNDLED)
def test_an_agent_that_comes_along_is_small(name):
    size = sum(file.stat().st_size for file in (FOLDER / name).iterdir())
    assert 1e6 < size < 5e6


@pytest.mark.parametrize("name", BUNDLED)
def test_an_agent_that_comes_along_plays_well(name):
    from horizon_imagination.evaluate import Protocol, evaluate

    agent, _ = load(players(None)[name], "best", "cpu")
    protocol = Protocol(agent.config.env, episodes=64, seed=1, greedy=False)
    returns = [episode.total_reward for episode in evaluate(agent, protocol)]
    assert np.mean(returns) > 0.8


def test_both_worlds_begin_alike_and_show_the_same_actions(game):
    game.show("both")
    assert game.worlds == ("model", "real") and difference(game) == 0
    for action in (0, 2, 2, 1, 0):
        game.step(action)
        assert difference(game) < 3, "the model of catch is nearly exact"
    assert game.steps == 5 and game.last_action == 0 and game.last_by == "person"


def test_the_policy_catches_in_the_real_world_and_in_the_model(game):
    choose(game, player="policy")
    game.show("both")
    totals = []
    for _ in range(6):
        game.reset()
        play(game)
        totals.append((game.totals["model"], game.totals["real"]))
    model, real = np.mean(totals, axis=0)
    assert real >= 0.6 and abs(model - real) < 0.4
    assert game.moments["real"].ended and game.moments["model"].reading.end > 0.5


def test_what_is_shown_alone_is_followed_by_the_other_world(game):
    """The real world takes the same actions unseen, so that one can switch to it."""
    for action in (0, 0, 2):
        game.step(action)
    game.show("both")
    assert difference(game) < 3
    assert game.moments["real"].reading.policy == pytest.approx(
        game.moments["model"].reading.policy, abs=0.2
    )


def test_the_model_goes_on_from_the_real_frame(game):
    game.show("real")
    for action in (2, 2, 2):
        game.step(action)
    before = game.moments["real"]
    game.show("both")
    assert difference(game) == 0 and game.totals["model"] == game.totals["real"]
    assert game.moments["model"].reading == before.reading
    game.step(0)
    assert difference(game) < 3


def test_an_episode_that_is_over_takes_no_step(game):
    game.show("real")
    play(game, 1)
    assert game.ended and game.steps == 7
    assert not game.step(1) and game.steps == 7
    game.show("model")  # nothing to go on from: another episode begins
    assert game.steps == 0 and not game.ended


def test_without_a_player_the_idle_action_is_taken(game):
    game.step(None)
    assert game.last_action == game.idle == 1


def test_the_real_world_is_only_looked_at_when_it_is_shown(game, monkeypatch):
    seen = []
    monkeypatch.setattr(game.networks, "encode", lambda picture: seen.append(picture))
    game.step(0)
    assert not seen and game.real.last == (0.0, False, False)


def test_the_first_frame_has_no_reward_and_no_end(game):
    reading = game.moments["model"].reading
    assert reading.reward == 0 and reading.end == 0 and sum(reading.policy) == pytest.approx(1)


def test_frames_seen_one_by_one_and_at_a_time_leave_the_same_memory(networks):
    world = RealWorld(make_env(networks.agent.config.env, seed=5), networks)
    world.reset()
    for action in (0, 1, 2):
        world.step(action, seen=True)
    one_by_one = world.track
    world._track = None
    again = world.track
    torch.testing.assert_close(again.z, one_by_one.z, atol=1e-5, rtol=1e-4)
    for mine, others in zip(again.memory, one_by_one.memory, strict=True):
        torch.testing.assert_close(mine.h, others.h, atol=1e-4, rtol=1e-3)
    assert again.prev_actions.tolist() == [[NO_ACTION, 0, 1, 2]]
    assert torch.equal(again.prev_actions, one_by_one.prev_actions)


def test_a_long_episode_keeps_only_what_the_networks_look_back_on(networks):
    world = RealWorld(make_env(networks.agent.config.env, seed=5), networks)
    world.reset()
    track = world.track
    for _ in range(2 * networks.kept):
        track = networks.follow(track, track.z[:, -1:], 1)
    assert track.z.shape[1] == track.prev_actions.shape[1] == networks.kept
    context = track.context(networks.context)
    assert context.prev_actions[0, 0] == NO_ACTION and (context.prev_actions[0, 1:] == 1).all()
    assert track.start(3).actions.tolist() == [[1, 1, 0]]


def test_a_game_without_a_world_begins_from_a_recorded_frame(networks):
    with_env = RealWorld(make_env(networks.agent.config.env, seed=5), networks)
    with_env.reset()
    game = Game(networks, None, ("0", "1", "2"), seed=0)
    game.reset_from(with_env.track, with_env.look().picture)
    assert game.step(2) and game.worlds == ("model",) and game.idle == 0
