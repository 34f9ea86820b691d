"""What there is to play with and to look at."""

import numpy as np
import pytest

from horizon_imagination.data import Store
from horizon_imagination.envs import make_env
from horizon_imagination.errors import UsageError
from horizon_imagination.play.library import (
    BUNDLED,
    FRESH,
    Library,
    curves,
    fresh_episodes,
    load,
    players,
)
from horizon_imagination.play.messages import Place
from horizon_imagination.types import NO_ACTION


@pytest.fixture(scope="module")
def dataset(networks, tmp_path_factory):
    env = make_env(networks.agent.config.env, seed=0)
    return fresh_episodes(networks.agent, env, tmp_path_factory.mktemp("data"))


@pytest.fixture
def library(networks, dataset):
    made = Library(networks)
    made.add("fresh", dataset)
    return made


def test_fresh_episodes_are_won_and_lost(dataset):
    store = Store.open(dataset)
    returns = np.array(store.returns)
    assert len(returns) == FRESH and store.num_steps == 7 * FRESH
    assert returns[::2].mean() > 0.6 > returns[1::2].mean()


def test_episodes_are_listed_newest_first(library):
    assert library.listing() == [{"name": "fresh", "episodes": FRESH, "steps": 7 * FRESH}]
    listed = library.episodes(0, 0)
    assert [e["episode"] for e in listed] == list(range(FRESH))[::-1]
    assert listed[0]["ended"] == "terminated" and listed[0]["steps"] == 7
    assert library.episodes(0, FRESH - 1) == listed[-1:]


def test_a_look_shows_what_was_stored_and_what_is_kept_of_it(library, dataset):
    store = Store.open(dataset)
    look = library.look(Place(0, 2, 0))
    first = int(store.starts[2])
    stored = store.frames[first : first + 8].transpose(0, 2, 3, 1)
    assert (look.frames == stored).all()
    assert np.abs(look.reconstruction.astype(int) - stored).mean() < 3
    assert look.actions == [NO_ACTION, *store.action[first : first + 7].tolist()]
    assert look.rewards == [0, *store.reward[first : first + 7].tolist()]
    assert look.predicted[-1] == pytest.approx(look.rewards[-1], abs=0.3)
    assert look.ends[-1] > 0.5 > max(look.ends[:-1]) and look.predicted[0] == 0


def test_a_look_may_begin_in_the_middle(library, dataset):
    look = library.look(Place(0, 1, 5))
    assert len(look.frames) == 3
    store = Store.open(dataset)
    assert look.actions[0] == store.action[int(store.starts[1]) + 4]


def test_an_episode_goes_on_from_a_recorded_frame(library, networks, dataset):
    store = Store.open(dataset)
    first = int(store.starts[4])
    track, picture = library.start(Place(0, 4, 3))
    assert (picture.transpose(2, 0, 1) == store.frames[first + 3]).all()
    assert track.prev_actions.tolist() == [[NO_ACTION, *store.action[first : first + 3].tolist()]]
    assert track.z.shape[1] == 4


@pytest.mark.parametrize("place", [Place(1, 0, 0), Place(0, FRESH, 0), Place(0, 0, 8)])
def test_what_is_not_there_is_said_not_to_be_there(library, place):
    with pytest.raises(UsageError):
        library.look(place)
    with pytest.raises(UsageError):
        library.start(place)


def test_data_of_another_world_is_left_out(networks, tmp_path):
    store = Store.create(tmp_path / "other", (3, 32, 32), 3, "other")
    store.close()
    library = Library(networks)
    library.add("other", tmp_path / "other")
    assert library.sources == []


def test_the_agents_that_come_along_have_curves():
    for player in players(None).values():
        said = curves(player)
        assert said["finished"] and said["landmarks"] == {"random": -0.75, "best": 1.0}
        labels = {curve["label"] for curve in said["curves"]}
        assert {"return", "return in evaluation", "loss of the denoiser"} <= labels
        assert all(len(point) == 2 for curve in said["curves"] for point in curve["points"])


def test_without_a_run_the_agents_that_come_along_play():
    assert tuple(players(None)) == BUNDLED


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        players(tmp_path / "missing")
    with pytest.raises(UsageError, match="no snapshot"):
        players(tmp_path)


def test_a_run_is_played_with_its_best_snapshot_and_with_its_newest(networks, tmp_path):
    run = tmp_path / "my-run"
    networks.agent.save(run / "checkpoints" / "best-000040")
    networks.agent.save(run / "checkpoints" / "epoch-000060")
    (player,) = players(run).values()
    assert player.name == "my-run" and not player.bundled and player.replay is None
    assert load(player, "best", "cpu")[1] == "epoch 40, best"
    assert load(player, "newest", "cpu")[1] == "epoch 60"
