import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from coded_world import (
    ENDS,
    LENGTHS,
    action_at,
    contents,
    create,
    fill,
    frame_at,
    play,
    reward_at,
)

from horizon_imagination.data import Store, validate
from horizon_imagination.data.columns import Column, FrameFile
from horizon_imagination.errors import UsageError


def test_an_episode_of_n_steps_has_n_actions_and_n_plus_one_frames(tmp_path):
    store = create(tmp_path / "x")
    play(store, 3, 2)
    assert (store.num_frames, store.num_steps) == (3, 2)
    assert store.action.tolist() == [action_at(3, 0), action_at(3, 1), 0]
    assert store.reward.tolist() == [reward_at(3, 0), reward_at(3, 1), 0]
    assert store.terminated.tolist() == [0, 1, 0]
    assert np.array_equal(store.frames, np.stack([frame_at(3, t) for t in range(3)]))


def test_what_is_read_back_is_what_was_written(tmp_path):
    fill(create(tmp_path / "x")).close()
    for mode in ("r", "a"):
        store = Store.open(tmp_path / "x", mode)
        assert [x.ended for x in store.episodes] == ENDS
        assert [x.num_steps for x in store.episodes] == LENGTHS
        assert store.num_steps == sum(LENGTHS) and store.is_open
        sums = [sum(reward_at(e, t) for t in range(n)) for e, n in enumerate(LENGTHS)]
        assert store.returns == sums[:-1]
        for episode in range(len(LENGTHS)):
            start = store.starts[episode]
            assert np.array_equal(store.frames[start + 1], frame_at(episode, 1))


def test_an_open_episode_goes_on_after_reopening(tmp_path):
    store = create(tmp_path / "x")
    store.begin(frame_at(0, 0))
    store.close()
    store = Store.open(tmp_path / "x", "a")
    store.add(1, 0.5, True, False, frame_at(0, 1))
    store.close()
    assert [(x.length, x.ended) for x in Store.open(tmp_path / "x").episodes] == [(2, "terminated")]


def test_beginning_anew_truncates_the_open_episode(tmp_path):
    store = create(tmp_path / "x")
    play(store, 0, 3, "open")
    store.end({"failure": "the simulator hung"})
    play(store, 1, 1, "open")
    store.begin(frame_at(2, 0))
    store.close()
    episodes = Store.open(tmp_path / "x").episodes
    assert [x.ended for x in episodes] == ["truncated", "truncated", "open"]
    assert episodes[0].info == {"failure": "the simulator hung"} and episodes[1].info == {}


def test_rewinding_to_any_position_restores_the_files_byte_for_byte(tmp_path):
    """Every pair of an earlier and a later position, through every kind of end."""
    live, kept = tmp_path / "live", []

    def keep():
        position = json.loads(json.dumps(store.position()))
        shutil.copytree(live, tmp_path / f"copy{len(kept)}")
        Store.open(tmp_path / f"copy{len(kept)}", "a").close()
        kept.append((position, contents(tmp_path / f"copy{len(kept)}")))

    store = create(live)
    keep()
    play(store, 0, 3, "terminated", keep)
    play(store, 1, 2, "open", keep)
    store.end({"failure": "crash"})
    keep()
    play(store, 2, 2, "truncated", keep)
    play(store, 3, 1, "open", keep)
    store.close()
    final = kept[-1][1]
    random.Random(0).shuffle(kept)
    for position, expected in kept:
        shutil.rmtree(live)
        live.mkdir()
        for name, data in final.items():
            (live / name).write_bytes(data)
        again = Store.open(live, "a")
        again.rewind(position)
        assert again.num_frames == position["rows"] and again.is_open == position["open"]
        again.close()
        assert contents(live) == expected


def test_writing_goes_on_after_a_rewind_as_if_nothing_had_happened(tmp_path):
    straight, detour = create(tmp_path / "a"), create(tmp_path / "b")
    play(straight, 0, 6)
    play(detour, 0, 2, "open")
    position = detour.position()
    play(detour, 9, 4)
    detour.rewind(position)
    for step in range(2, 6):
        step_of = action_at(0, step), reward_at(0, step)
        detour.add(*step_of, step == 5, False, frame_at(0, step + 1))
    assert np.array_equal(straight.frames, detour.frames)
    straight.seal(), detour.seal()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_a_position_beyond_the_end_is_refused(tmp_path):
    store = create(tmp_path / "x")
    play(store, 0, 3)
    with pytest.raises(UsageError, match="4 rows, the snapshot expects 9"):
        store.rewind({"rows": 9, "open": False, "info": {}})


class PowerCutError(Exception):
    pass


def test_a_crash_between_any_two_writes_leaves_all_earlier_rows(tmp_path, monkeypatch):
    """Stop before the k-th write of a step, for every k, and open what is there."""
    put_column, put_frame = Column.put, FrameFile.put
    left = 0

    def counted(put):
        def write(*args):
            nonlocal left
            if left == 0:
                raise PowerCutError
            left -= 1
            put(*args)

        return write

    monkeypatch.setattr(Column, "put", counted(put_column))
    monkeypatch.setattr(FrameFile, "put", counted(put_frame))
    for writes in range(6):
        for begins in (False, True):
            folder, left = tmp_path / f"{writes}{begins}", -1
            store = create(folder)
            play(store, 0, 3, "terminated" if begins else "open")
            position, left = store.position(), writes
            try:
                store.begin(frame_at(1, 0)) if begins else store.add(
                    4, 7.0, True, False, frame_at(0, 4)
                )
            except PowerCutError:
                assert writes < 5
            left = -1
            assert validate(folder) == []
            for mode in ("r", "a"):
                found = Store.open(folder, mode)
                assert found.num_frames == (5 if writes == 5 else 4)
                assert np.array_equal(found.frames[:4], [frame_at(0, t) for t in range(4)])
                assert found.action[:3].tolist() == [action_at(0, t) for t in range(3)]
                assert found.action[-1] == 0 and found.reward[-1] == 0
            found.rewind(position)
            assert found.num_frames == 4 and found.action[3] == 0 and found.terminated[3] == 0


WRITER = """
import json, sys
sys.path.insert(0, sys.argv[2])
from coded_world import create, play
store = create(sys.argv[1])
episode = 0
while True:
    play(store, episode % 200, 1 + episode % 40, ("terminated", "truncated")[episode % 2])
    episode += 1
    if episode == 5:
        play(store, 7, 4, "open")
        print(json.dumps(store.position()), flush=True)
    if episode == 60:
        print("many", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_killed_writer_leaves_a_good_dataset_and_an_exact_position(tmp_path):
    here = str(Path(__file__).parent)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "x"), here],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert writer.stdout is not None
    position = json.loads(writer.stdout.readline())
    assert writer.stdout.readline() == "many\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()

    assert validate(tmp_path / "x") == []
    store = Store.open(tmp_path / "x", "a")
    assert store.num_frames > position["rows"] + 60
    codes = store.frames[:, :, 0, 0].astype(int)
    for episode in store.episodes:
        rows = codes[episode.start : episode.start + episode.length]
        assert (rows[:, 0] == rows[0, 0]).all()
        assert rows[:, 1].tolist() == list(range(episode.length))
        taken = store.action[episode.start : episode.start + episode.num_steps]
        assert taken.tolist() == (rows[1:, 2] - 1).tolist()

    store.rewind(position)
    store.close()
    reference = create(tmp_path / "y")
    for episode in range(5):
        play(reference, episode, 1 + episode, ("terminated", "truncated")[episode % 2])
    play(reference, 7, 4, "open")
    reference.close()
    assert contents(tmp_path / "x") == contents(tmp_path / "y")


def test_bad_steps_are_refused_and_change_nothing(tmp_path):
    store = create(tmp_path / "x")
    play(store, 0, 2, "open")
    before = store.position()
    with pytest.raises(UsageError, match="action 5 is not one of the 5 actions"):
        store.add(5, 0.0, False, False, frame_at(0, 3))
    with pytest.raises(UsageError, match="uint8"):
        store.add(1, 0.0, False, False, frame_at(0, 3).astype(np.float32))
    with pytest.raises(UsageError, match=r"\(3, 4, 4\)"):
        store.add(1, 0.0, False, False, frame_at(0, 3)[:1])
    assert store.position() == before
    store.end()
    with pytest.raises(ValueError, match="no episode is open"):
        store.add(1, 0.0, False, False, frame_at(0, 3))


def test_a_dataset_opened_to_read_is_not_written(tmp_path):
    fill(create(tmp_path / "x")).close()
    before = contents(tmp_path / "x")
    store = Store.open(tmp_path / "x")
    with pytest.raises(ValueError, match="opened to read"):
        store.begin(frame_at(0, 0))
    store.close()
    assert contents(tmp_path / "x") == before


def test_a_sealed_dataset_loses_its_hashes_when_it_grows(tmp_path):
    store = fill(create(tmp_path / "x"))
    store.seal()
    store.close()
    assert json.loads((tmp_path / "x" / "dataset.json").read_text())["sha256"]
    store = Store.open(tmp_path / "x", "a")
    store.begin(frame_at(0, 0))
    store.close()
    assert not json.loads((tmp_path / "x" / "dataset.json").read_text())["sha256"]
    assert validate(tmp_path / "x") == []


def test_creating_over_something_else_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("dear")
    with pytest.raises(UsageError, match="not empty"):
        create(tmp_path)


@pytest.mark.parametrize("name", ["frames.u8", "action.i32", "reward.f32", "marks.u8"])
def test_missing_and_shortened_files_are_one_clear_error(tmp_path, name):
    fill(create(tmp_path / "x")).close()
    path = tmp_path / "x" / name
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(UsageError, match="67 rows are promised, 66 are there"):
        Store.open(tmp_path / "x")
    path.unlink()
    with pytest.raises(UsageError, match=f"{name} is missing"):
        Store.open(tmp_path / "x")


def test_a_folder_or_description_that_is_none_is_one_clear_error(tmp_path):
    with pytest.raises(UsageError, match=r"no dataset: it has no dataset\.json"):
        Store.open(tmp_path / "nowhere")
    fill(create(tmp_path / "x")).close()
    path = tmp_path / "x" / "dataset.json"
    good = path.read_text()
    for bad in (good[:50], "[]", good.replace('"num_actions": 5', '"num_actions": 0')):
        path.write_text(bad)
        with pytest.raises(UsageError, match=r"x/dataset\.json"):
            Store.open(tmp_path / "x")
    path.write_text(good.replace('"version": 1', '"version": 9'))
    with pytest.raises(UsageError, match="this version reads horizon-dataset 1"):
        Store.open(tmp_path / "x")


def test_the_frame_file_grows_in_steps_and_the_map_follows(tmp_path):
    store = create(tmp_path / "x")
    store.begin(frame_at(0, 0))
    sizes = set()
    for step in range(2500):
        store.add(0, 0.0, False, False, np.full((3, 4, 4), step % 256, np.uint8))
        assert store.frames[-1, 0, 0, 0] == step % 256
        sizes.add((tmp_path / "x" / "frames.u8").stat().st_size)
    assert len(sizes) <= 3
    store.close()
    assert (tmp_path / "x" / "frames.u8").stat().st_size == 2501 * 48


def test_a_reader_sees_what_a_writer_has_flushed_once_it_reloads(tmp_path):
    frame = np.zeros((1, 4, 4), np.uint8)
    writer = Store.create(tmp_path / "store", (1, 4, 4), 2, "dot")
    writer.begin(frame)
    writer.flush()
    reader = Store.open(tmp_path / "store")
    before = reader.version
    for step in range(3):
        writer.add(1, 0.5, False, step == 2, frame + step)
    assert reader.num_frames == 1
    writer.flush()
    reader.reload()
    assert (reader.num_frames, reader.num_steps, reader.is_open) == (4, 3, False)
    assert reader.frames[3].max() == 2 and reader.version > before
    with pytest.raises(ValueError, match="written here"):
        writer.reload()
