"""Whatever goes wrong is one line, and the exit status says what it was."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import SafetensorError

from horizon_imagination import checkpoint
from horizon_imagination.cli import train
from horizon_imagination.data import Store
from horizon_imagination.errors import Failure
from horizon_imagination.snapshots import snapshots


def full(path="/runs/x/report.html"):
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


@pytest.mark.parametrize(
    "error,status,said",
    [
        (full(), 2, "/runs/x/report.html: No space left on device; files that were complete"),
        (full(), 2, "make room, then repeat the command"),
        (full(b"/runs/x/events"), 2, "horizon: /runs/x/events: No space left"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 2, "another place with --out"),
        (OSError("odd"), 2, "odd; files that were complete are unchanged"),
        (SafetensorError("I/O error:\nNo space left"), 2, "I/O error: No space left"),
        (ModuleNotFoundError("no", name="av.codec"), 2, "needs the package av, which is not"),
        (MemoryError(), 1, "out of memory; use smaller batches"),
        (Failure("the world failed 5 times in a row"), 1, "the world failed 5 times in a row"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_an_error_is_one_line_and_a_status(error, status, said, command, monkeypatch):
    def fail(argv):
        raise error

    monkeypatch.setattr(train, "presets_main", fail)
    found, out, err = command("presets")
    assert (found, out, err.count("\n")) == (status, "", 1)
    assert err.startswith("horizon: ") and said in err and "Traceback" not in err


def test_an_unexpected_error_names_a_file_with_its_traceback(command, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(train, "presets_main", lambda argv: 1 / 0)
    status, _, err = command("presets --show demo")
    assert status == 1 and err.count("\n") == 1
    assert "unexpected ZeroDivisionError: division by zero; please report it" in err
    (file,) = tmp_path.iterdir()
    assert str(file) in err
    about = file.read_text()
    assert about.startswith("horizon presets --show demo\n")
    assert "Traceback (most recent call last)" in about and "ZeroDivisionError" in about


@pytest.fixture
def disk_full_at_epoch_2(monkeypatch):
    """The third snapshot cannot be written, and closing the replay fails for the same reason."""
    write, whole, state = checkpoint.save_file, Store.close, {"left": 2}

    def save_file(tensors, path):
        if not state["left"]:
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        state["left"] -= 1
        write(tensors, path)

    def close(store):
        if not state["left"]:
            raise full("replay/frames.u8")
        whole(store)

    monkeypatch.setattr(checkpoint, "save_file", save_file)
    monkeypatch.setattr(Store, "close", close)


def test_a_full_disk_ends_training_in_one_line_and_the_run_goes_on(
    disk_full_at_epoch_2, command, tmp_path, monkeypatch
):
    line = f"train --preset debug --training.epochs 4 --out {tmp_path / 'run'}"
    status, _, err = command(line)
    assert status == 1 and err.count("\n") == 1, err
    assert "No space left on device" in err
    assert "the snapshot epoch-000002 is good; resume with: horizon train" in err
    monkeypatch.undo()
    assert command(line)[0] == 0
    names = [path.name for path in snapshots(tmp_path / "run")]
    assert names == ["epoch-000003", "epoch-000004"]


def test_a_traceback_is_never_printed(tmp_path):
    """As a program, with a module that fails in a way nobody foresaw."""
    code = (
        "import sys; from horizon_imagination import cli; from horizon_imagination.cli import data;"
        "data.info_main = lambda argv: {}['x']; sys.exit(cli.main(['data', 'info', 'y']))"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    words = [sys.executable, "-c", code]
    run = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert run.returncode == 1 and run.stdout == ""
    named = re.fullmatch(r"horizon: unexpected KeyError: .* traceback in (\S+)\n", run.stderr)
    assert named and "KeyError" in Path(named[1]).read_text()


def test_a_picture_that_cannot_be_written_is_one_line(command, trained, tmp_path):
    (tmp_path / "file").touch()
    status, _, err = command(f"strip {trained} --device cpu --out {tmp_path / 'file' / 'x.png'}")
    assert status == 2 and err.count("\n") == 1 and "give a writable one with --out" in err
