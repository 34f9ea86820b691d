"""Which snapshots stay, and what is said before the disk is full."""

import json
import shutil
from collections import namedtuple
from dataclasses import asdict

import pytest

from horizon_imagination.agent import Agent
from horizon_imagination.costs import costs
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.run.disk import DiskWatch, folder_bytes, free_bytes
from horizon_imagination.run.needs import snapshot_bytes
from horizon_imagination.snapshots import Progress, publish, snapshots, superseded

HOUR = 3600.0
Usage = namedtuple("Usage", "total used free")


def written(folder, epoch, hours):
    """A snapshot that was taken after so many hours."""
    folder.mkdir(parents=True)
    state = Progress(epoch=epoch, seconds=hours * HOUR)
    (folder / "state.json").write_text(json.dumps(asdict(state)))
    return folder


@pytest.fixture
def kept(tmp_path):
    """Snapshots at 0.5, 1, 1.5, ... hours."""
    places = (tmp_path / f"epoch-{i:06d}" for i in range(1, 9))
    return [written(place, i, 0.5 * i) for i, place in enumerate(places, 1)]


def epochs(paths):
    return [int(path.name[-6:]) for path in paths]


def test_without_hours_all_but_the_last_go(kept):
    assert epochs(superseded(kept, 2, 0.0)) == [1, 2, 3, 4, 5, 6]
    assert superseded(kept[:2], 2, 0.0) == [] and superseded([], 1, 1.0) == []


def test_the_first_snapshot_of_every_so_many_hours_stays(kept):
    assert epochs(superseded(kept, 2, 1.0)) == [1, 3, 5]
    assert epochs(superseded(kept, 1, 2.0)) == [1, 2, 3, 5, 6, 7]


def test_what_stays_does_not_depend_on_when_others_went(kept):
    """Dropping after every snapshot leaves what dropping once at the end leaves."""
    alive = []
    for path in kept:
        alive.append(path)
        gone = superseded(alive, 2, 1.0)
        alive = [x for x in alive if x not in gone]
    at_once = superseded(kept, 2, 1.0)
    assert alive == [x for x in kept if x not in at_once]


def test_a_published_snapshot_keeps_the_hourly_ones(tmp_path):
    for epoch in range(1, 7):
        temporary = written(tmp_path / "checkpoints" / f"epoch-{epoch:06d}.tmp", epoch, 0.5 * epoch)
        publish(temporary, 1, hours=1.0)
    assert epochs(snapshots(tmp_path)) == [2, 4, 6]


def test_the_prediction_counts_hourly_snapshots(trained):
    counted = costs(DEBUG, Agent.load(trained, "cpu").action_space)

    def needed(**training):
        return snapshot_bytes(replaced(DEBUG, training=training), counted, 10 * HOUR)

    one = needed(keep_snapshots=2) - needed(keep_snapshots=1)
    assert one > 0 and needed(keep_every_hours=2.0) - needed() == 5 * one


def test_a_warning_comes_once_before_the_disk_is_full(run_start, monkeypatch):
    from dataclasses import replace

    said = []
    watch = DiskWatch()
    watch.on_start(replace(run_start, note=said.append))
    watch.on_metrics(0, {})
    assert said == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10, 10, 1000))
    watch.on_metrics(1, {})
    watch.on_metrics(2, {})
    assert len(said) == 1 and "nearly full: 1" in said[0]


def test_a_folder_that_is_not_there_yet_has_the_room_of_its_parents(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1000))
    assert free_bytes(tmp_path / "new" / "run") > 0 and folder_bytes(tmp_path) == 1000


def test_a_run_that_needs_more_disk_than_there_is_says_so_before_it_begins(
    tmp_path, command, monkeypatch
):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10, 10, 1000))
    _, said, _ = command(f"train --preset debug --dry-run --out {tmp_path / 'run'}")
    assert "warning: the disk has 1" in said and "free and the run needs about" in said
