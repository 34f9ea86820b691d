import builtins

import numpy as np
import pytest
from coded_world import LENGTHS, action_at, frame_at, reward_at

from horizon_imagination.actions import Box, Discrete, MultiDiscrete
from horizon_imagination.data import Store, import_npz, import_videos, validate
from horizon_imagination.errors import UsageError

av = pytest.importorskip("av")


def arrays(episode, steps):
    """An episode of the coded world, frames as (time, height, width, channel)."""
    frames = np.stack([frame_at(episode, t) for t in range(steps + 1)])
    return {
        "frames": np.moveaxis(frames, 1, -1),
        "actions": np.array([action_at(episode, t) for t in range(steps)]),
        "rewards": np.array([reward_at(episode, t) for t in range(steps)]),
        "terminated": np.arange(steps) == steps - 1,
    }


def save(folder, name="a", **changes):
    """Write `name.npz`: the usual arrays, some replaced or (None) left out."""
    folder.mkdir(exist_ok=True)
    content = {key: value for key, value in (arrays(0, 5) | changes).items() if value is not None}
    np.savez(folder / f"{name}.npz", **content)
    return folder


def film(path, levels, size=(32, 48)):
    """A video whose frame t is grey of level `levels[t]`."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"crf": "1"})
        stream.height, stream.width, stream.pix_fmt = *size, "yuv420p"
        for level in levels:
            image = np.full((*size, 3), level, np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def filmed(folder, table="action,reward,terminated\n2,0,0\n0,0.5,0\n3,1,1\n", name="a"):
    folder.mkdir(exist_ok=True)
    film(folder / f"{name}.mp4", [20, 90, 160, 230])
    (folder / f"{name}.csv").write_text(table)
    return folder


@pytest.mark.parametrize("action", [2**31 - 1, 2**31, 2**32, 2**32 + 1])
def test_actions_that_would_wrap_around_are_refused(tmp_path, action):
    source = save(tmp_path / "in", actions=np.array([0, 1, action, 0, 1], np.int64))
    with pytest.raises(UsageError, match=rf"a.npz has the action {action}; expected numbers below"):
        import_npz(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_action_of_23_digits_in_a_table_is_refused(tmp_path):
    source = filmed(tmp_path / "in", "action\n0\n12345678901234567890123\n1\n")
    with pytest.raises(UsageError, match="line 3: 12345678901234567890123 is not a whole action"):
        import_videos(source, tmp_path / "out")


def test_arrays_become_the_same_episodes(tmp_path):
    source = tmp_path / "in"
    for episode, steps in enumerate(LENGTHS):
        save(source, f"{episode}", **arrays(episode, steps))
    import_npz(source, tmp_path / "out", env_id="coded")
    store = Store.open(tmp_path / "out")
    assert validate(tmp_path / "out") == []
    assert (store.frame_shape, store.action_space, store.env_id) == (
        (3, 4, 4),
        Discrete(5),
        "coded",
    )
    assert [x.num_steps for x in store.episodes] == LENGTHS
    assert {x.ended for x in store.episodes} == {"terminated"}
    for episode, (start, steps) in enumerate(zip(store.starts, LENGTHS, strict=True)):
        for t in range(steps):
            assert np.array_equal(store.frames[start + t], frame_at(episode, t))
            assert store.action[start + t] == action_at(episode, t)
            assert store.reward[start + t] == reward_at(episode, t)
        assert np.array_equal(store.frames[start + steps], frame_at(episode, steps))


def test_other_names_orders_and_missing_rewards_are_understood(tmp_path):
    usual = arrays(0, 5)
    changes = {"frames": None, "actions": None, "rewards": None, "terminated": None}
    given = {"observations": np.moveaxis(usual["frames"], -1, 1), "action": usual["actions"]}
    save(tmp_path / "in", "a", **changes, **given, dones=usual["terminated"])
    save(tmp_path / "in", "b", terminated=None)
    save(tmp_path / "in", "c", truncated=usual["terminated"])
    import_npz(tmp_path / "in", tmp_path / "out", num_actions=9)
    store = Store.open(tmp_path / "out")
    assert [x.ended for x in store.episodes] == ["terminated", "truncated", "truncated"]
    assert store.action_space == Discrete(9) and store.returns[0] == 0
    assert np.array_equal(store.frames[3], frame_at(0, 3))
    assert store.episodes[1].info == {"source": "b.npz"}


def test_grey_frames_are_resized(tmp_path):
    frames = np.zeros((6, 8, 12), np.uint8)
    frames[:, :, 6:] = 200
    save(tmp_path / "in", frames=frames)
    import_npz(tmp_path / "in", tmp_path / "out", size=4)
    store = Store.open(tmp_path / "out")
    assert store.frame_shape == (1, 4, 4)
    row = store.frames[0, 0, 0].astype(int)
    assert row[0] == 0 and row[-1] == 200 and (np.diff(row) >= 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": None}, "has no action .looked for actions, action; it has frames"),
        ({"frames": None}, "has no frames"),
        ({"rewards": np.zeros(4)}, "5 actions and 4 rewards"),
        ({"actions": np.zeros(5)}, "float64 .*expected whole numbers"),
        ({"actions": -np.ones(5, int)}, "negative action"),
        ({"actions": np.full(5, 7)}, "action 7 is not one of 5 actions"),
        ({"rewards": np.full(5, np.inf)}, "not finite"),
        ({"rewards": np.array(["x"] * 5)}, "expected numbers"),
        ({"frames": np.zeros((5, 4, 4, 3), np.uint8)}, "5 frames for 5 actions; expected 6"),
        ({"frames": np.zeros((7, 4, 4, 3), np.uint8)}, "7 frames for 5 actions; expected 6"),
        ({"frames": np.zeros((6, 4, 4, 3), np.float32)}, "float32; expected uint8"),
        ({"frames": np.zeros((6, 4, 4, 5), np.uint8)}, "1 or 3 channels"),
        ({"terminated": np.array([0, 1, 0, 0, 0])}, "at step 1 of 5; expected one episode"),
        ({"terminated": np.array([0, 1])}, "2 flags 'terminated' for 5 actions"),
        ({"rewards": np.array([{}] * 5, dtype=object)}, "without pickle"),
    ],
)
def test_bad_arrays_are_one_clear_error_and_leave_nothing(tmp_path, changes, message):
    save(tmp_path / "in", "a")
    save(tmp_path / "in", "b", **changes)
    with pytest.raises(UsageError, match=message):
        import_npz(tmp_path / "in", tmp_path / "out", num_actions=5)
    assert [x.name for x in tmp_path.iterdir()] == ["in"]


def test_damaged_files_other_shapes_and_wrong_folders_are_clear_errors(tmp_path):
    save(tmp_path / "in", "a")
    save(tmp_path / "in", "b", frames=np.zeros((6, 5, 5, 3), np.uint8))
    with pytest.raises(UsageError, match=r"b\.npz has frames of shape \(3, 5, 5\)"):
        import_npz(tmp_path / "in", tmp_path / "out")
    with pytest.raises(UsageError, match="exists already"):
        import_npz(tmp_path / "in", tmp_path / "in")
    data = (tmp_path / "in" / "a.npz").read_bytes()
    (tmp_path / "in" / "a.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(UsageError, match="cannot be read"):
        import_npz(tmp_path / "in", tmp_path / "out")
    with pytest.raises(UsageError, match="is no folder"):
        import_npz(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(UsageError, match=r"no \.avi or .* file to import"):
        import_videos(tmp_path / "in", tmp_path / "out")
    assert [x.name for x in tmp_path.iterdir()] == ["in"]


def test_a_video_and_its_table_become_an_episode(tmp_path):
    filmed(tmp_path / "in")
    filmed(tmp_path / "in", "action\n1\n1\n2\n", "b")
    import_videos(tmp_path / "in", tmp_path / "out", size=16)
    store = Store.open(tmp_path / "out")
    assert validate(tmp_path / "out") == []
    assert store.frame_shape == (3, 16, 16) and store.action_space == Discrete(4)
    assert [x.ended for x in store.episodes] == ["terminated", "truncated"]
    assert store.action.tolist() == [2, 0, 3, 0, 1, 1, 2, 0]
    assert store.reward.tolist()[:4] == [0, 0.5, 1, 0]
    levels = store.frames.mean((1, 2, 3))
    assert np.abs(levels - np.tile([20, 90, 160, 230], 2)).max() < 4


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("action\n1\n1\n", "4 frames for 2 actions; expected 3"),
        ("action\n1\n1\n1\n1\n", "4 frames for 4 actions; expected 5"),
        ("move\n1\n1\n1\n", "has the columns move; expected a first line 'action'"),
        ("", "has the columns none"),
        ("action,reward\n1,0\n1,high\n1,0\n", "line 3: 1, high is not"),
        ("action\n1\nx\n1\n", "line 3: x is not"),
        ("action,reward,terminated\n1,0,1\n1,0,0\n1,0,0\n", "terminated at line 2, before"),
        ("action\n", "has no action"),
    ],
)
def test_bad_tables_are_one_clear_error_and_leave_nothing(tmp_path, table, message):
    filmed(tmp_path / "in", table)
    with pytest.raises(UsageError, match=message):
        import_videos(tmp_path / "in", tmp_path / "out", size=16)
    assert [x.name for x in tmp_path.iterdir()] == ["in"]


def test_bad_and_missing_videos_are_one_clear_error(tmp_path, monkeypatch):
    source = filmed(tmp_path / "in")
    (source / "lonely.csv").write_text("action\n1\n")
    with pytest.raises(UsageError, match="has no video of the same name"):
        import_videos(source, tmp_path / "out")
    (source / "lonely.csv").unlink()
    good = (source / "a.mp4").read_bytes()
    (source / "a.mp4").write_bytes(b"no film at all" * 9)
    with pytest.raises(UsageError, match="cannot be decoded"):
        import_videos(source, tmp_path / "out")
    (source / "a.mp4").write_bytes(good)
    (source / "a.csv").unlink()
    with pytest.raises(UsageError, match=r"a\.csv is missing"):
        import_videos(source, tmp_path / "out")
    filmed(source)
    real = builtins.__import__

    def without_av(name, *args):
        if name == "av":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_av)
    with pytest.raises(UsageError, match="pip install av"):
        import_videos(source, tmp_path / "out")


@pytest.mark.parametrize("kind", ["vectors", "several"])
def test_actions_of_several_numbers_are_imported(tmp_path, kind):
    (tmp_path / "in").mkdir()
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (4, 8, 8, 3), dtype=np.uint8)
    actions = (
        rng.uniform(-2, 2, (3, 2)) if kind == "vectors" else np.array([[0, 4], [1, 0], [1, 2]])
    )
    np.savez(tmp_path / "in" / "a.npz", frames=frames, actions=actions, rewards=np.ones(3))
    if kind == "vectors":
        with pytest.raises(UsageError, match="--bounds LOW HIGH"):
            import_npz(tmp_path / "in", tmp_path / "out")
        with pytest.raises(UsageError, match="is not 2 numbers from -1 to 1"):
            import_npz(tmp_path / "in", tmp_path / "out", bounds=(-1, 1))
    bounds = (-2.0, 2.0) if kind == "vectors" else None
    import_npz(tmp_path / "in", tmp_path / "out", bounds=bounds)
    assert validate(tmp_path / "out") == []
    store = Store.open(tmp_path / "out")
    box = Box((-2.0, -2.0), (2.0, 2.0))
    assert store.action_space == (box if kind == "vectors" else MultiDiscrete((2, 5)))
    np.testing.assert_allclose(store.action[:3], actions, rtol=1e-6)
