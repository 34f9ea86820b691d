"""What was played, as a dataset and as a film."""

import numpy as np
import pytest

from horizon_imagination.data import Store, validate
from horizon_imagination.play.recording import Film, Recorder, write_film


@pytest.fixture
def recorder(game, tmp_path):
    made = Recorder(tmp_path, (3, 64, 64), 3, "catch")
    game.on_moment = made.see
    return made


def test_both_worlds_are_recorded_beside_one_another(game, recorder, tmp_path):
    game.show("both")
    game.reset()
    for action in (0, 2, 2, 1, 1, 0, 0):
        game.step(action)
    game.reset()
    game.step(2)
    recorded = recorder.stop()
    assert set(recorded.datasets) == {"model", "real"} and recorded.steps == 16
    for world, folder in recorded.datasets.items():
        assert validate(folder) == []
        store = Store.open(folder)
        assert store.action[:8].tolist() == [0, 2, 2, 1, 1, 0, 0, 0]
        ended = [e.ended for e in store.episodes]
        assert ended[0] == "terminated" and ended[-1] == "truncated"
        assert store.episodes[0].info == {"world": world, "player": "person"}
    real = Store.open(recorded.datasets["real"])
    assert set(np.abs(real.reward).tolist()) == {0.0, 1.0}
    model = Store.open(recorded.datasets["model"])
    np.testing.assert_allclose(model.reward, real.reward, atol=0.3)


def test_a_film_shows_every_frame_side_by_side(game, recorder, tmp_path):
    import av

    game.show("both")
    game.reset()
    for action in (0, 2, 2):
        game.step(action)
    recorded = recorder.stop()
    film = Film(recorded.datasets, recorder.cuts)
    assert len(film) == 4 and film[0].shape == (256, 512, 3)
    last = {w: Store.open(p).frames[-1] for w, p in recorded.datasets.items()}
    assert (film[-1][2::4, 2:256:4] == last["model"].transpose(1, 2, 0)).all()
    assert (film[-1][2::4, 258::4] == last["real"].transpose(1, 2, 0)).all()
    write_film(recorded, recorder.cuts, fps=8.0)
    with av.open(str(tmp_path / f"{recorder.name}.mp4")) as container:
        frames = list(container.decode(video=0))
    assert len(frames) == len(film) and (frames[0].width, frames[0].height) == (512, 256)


def test_a_world_that_has_ended_stands_still_in_the_film(game, recorder):
    moments = game.moments
    for world in ("model", "real"):
        recorder.see(world, moments[world], None, "policy")
    recorder.see("model", moments["model"], 1, "policy")
    for _ in range(3):
        recorder.see("real", moments["real"], 1, "policy")
    shown = [(cut["model"], cut["real"]) for cut in recorder.cuts]
    assert shown == [(0, 0), (1, 1), (1, 2), (1, 3)]


def test_one_world_alone_is_recorded_alone(game, recorder):
    game.reset()
    game.step(1)
    recorded = recorder.stop()
    assert set(recorded.datasets) == {"model"} and recorded.steps == 1
    assert len(Film(recorded.datasets, recorder.cuts)) == 2


def test_a_switch_of_worlds_begins_another_episode(game, recorder):
    game.reset()
    game.step(1)
    game.show("real")
    game.step(1)
    game.show("model")
    game.step(1)
    recorded = recorder.stop()
    assert [len(Store.open(p).episodes) for p in recorded.datasets.values()] == [2, 1]
    for folder in recorded.datasets.values():
        assert validate(folder) == []


def test_an_episode_without_a_step_is_not_kept(game, recorder, tmp_path):
    for _ in range(3):
        game.reset()
    recorded = recorder.stop()
    assert recorded.datasets == {} and recorded.steps == 0 and list(tmp_path.iterdir()) == []


def test_names_of_recordings_are_never_used_twice(game, tmp_path):
    names = set()
    for _ in range(3):
        recorder = Recorder(tmp_path, (3, 64, 64), 3, "catch")
        recorder.see("model", game.moments["model"], None, "person")
        recorder.see("model", game.moments["model"], 1, "person")
        recorder.stop()
        names.add(recorder.name)
    assert len(names) == 3
