"""Strips during training: written on time, and without a trace in what is learned."""

import sys

import pytest
import torch
from safetensors.torch import load_file

from horizon_imagination.snapshots import snapshots


def weights(folder):
    return load_file(snapshots(folder)[-1] / "weights.safetensors")


def test_strips_come_every_few_epochs_and_at_the_end(run_folder):
    names = sorted(path.name for path in (run_folder / "videos").glob("epoch-*.png"))
    assert names == ["epoch-000002.png", "epoch-000003.png"]


def test_a_run_learns_the_same_bits_with_and_without_strips(run_folder, tmp_path, tiny_run):
    tiny_run(tmp_path / "plain", strips=False)
    with_strips, without = weights(run_folder), weights(tmp_path / "plain")
    assert not (tmp_path / "plain" / "videos").exists()
    assert all(torch.equal(with_strips[name], without[name]) for name in without)


@pytest.mark.parametrize("missing", ["PIL", "av"])
def test_a_missing_package_costs_its_feature_and_one_note(missing, tmp_path, tiny_run, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    notes = tiny_run(tmp_path / "bare")
    assert len(notes) == 1 and "is not installed" in notes[0]
    pictures = list((tmp_path / "bare").glob("videos/*.png"))
    assert bool(pictures) == (missing == "av")
    assert not list((tmp_path / "bare").glob("videos/*.mp4"))


def test_a_full_disk_costs_a_note_and_no_training(tmp_path, tiny_run):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "videos").write_text("no folder can be made here")
    notes = tiny_run(tmp_path / "full")
    assert len(notes) == 1 and notes[0].startswith("no film strip: ")
    assert snapshots(tmp_path / "full")
