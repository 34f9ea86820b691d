"""Archives that claim more than they hold, and links that lead elsewhere: one line each."""

import os
import zipfile

import numpy as np
import pytest

from horizon_imagination.cli import main
from horizon_imagination.data import Store
from horizon_imagination.data.importers import import_npz
from horizon_imagination.errors import UsageError
from horizon_imagination.files import append_jsonl, write_text
from horizon_imagination.run.folder import claimed
from horizon_imagination.run.read import is_claimed

FRAMES = np.zeros((4, 8, 8, 3), np.uint8)


def archive(path, **arrays):
    path.mkdir()
    np.savez(path / "a.npz", actions=np.array([0, 1, 2]), rewards=np.zeros(3), **arrays)
    return path


def header(shape):
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("shape", "said"),
    [((2**34,), "expected at most 4294967296"), ((2**20, 64), "claims 67108864 bytes and has")],
)
def test_an_array_that_claims_more_than_it_has_is_refused(tmp_path, shape, said):
    folder = archive(tmp_path / "in")
    with zipfile.ZipFile(folder / "a.npz", "a") as file:
        file.writestr("frames.npy", header(shape))
    with pytest.raises(UsageError, match=said):
        import_npz(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_frames_without_pixels_are_refused(tmp_path):
    folder = archive(tmp_path / "in", frames=FRAMES[:, :0])
    with pytest.raises(UsageError, match="have no pixel"):
        import_npz(folder, tmp_path / "out")


def test_good_archives_are_imported_as_before(tmp_path):
    import_npz(archive(tmp_path / "in", frames=FRAMES), tmp_path / "out")
    assert Store.open(tmp_path / "out").num_steps == 3


def test_links_are_not_followed_when_something_is_written(tmp_path):
    precious, folder = tmp_path / "precious", tmp_path / "run"
    precious.write_text("mine")
    folder.mkdir()
    store = Store.create(tmp_path / "data", (3, 8, 8), 3, "catch")
    for link in (".lock", "metrics.jsonl", f".x.{os.getpid()}.tmp.json"):
        (folder / link).symlink_to(precious)
    (tmp_path / "data" / "dataset.json.tmp").symlink_to(precious)
    with pytest.raises(UsageError, match="cannot write to the folder"), claimed(folder):
        pass
    with pytest.raises(OSError, match="symbolic links"):
        append_jsonl(folder / "metrics.jsonl", {"epoch": 0})
    write_text(folder / "x.json", "new")
    store.close()
    assert precious.read_text() == "mine" and (folder / "x.json").read_text() == "new"


def test_a_fifo_in_the_place_of_the_lock_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    assert not is_claimed(tmp_path)
    with pytest.raises(UsageError, match="it is no regular file"), claimed(tmp_path):
        pass


def test_names_that_are_not_utf_8_or_too_long_are_one_line(capsys):
    for name in ("run-\udcff", "x" * 300):
        assert main(["evaluate", name]) == 2
        assert capsys.readouterr().err.count("\n") == 1
