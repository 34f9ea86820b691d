"""Which snapshots stay, and where results of an agent go."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from horizon_imagination.snapshots import Progress, home, publish, snapshots, superseded

HOUR = 3600.0


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


@pytest.mark.parametrize(
    ("here", "path"),
    [
        (".", "run"),
        (".", "run/checkpoints/epoch-000001"),
        ("run", "."),
        ("run", "checkpoints/epoch-000001"),
        ("run/checkpoints", "epoch-000001"),
        ("run/checkpoints/epoch-000001", "."),
    ],
)
def test_the_results_of_a_snapshot_go_into_its_run(here, path, tmp_path, monkeypatch):
    """Wherever it is named from: what is in a snapshot goes when the snapshot does."""
    (tmp_path / "run/checkpoints/epoch-000001").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / here)
    assert home(Path(path)).resolve() == tmp_path / "run"
