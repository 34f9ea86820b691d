"""`horizon train` in worlds of one's own: what is seen is said, what goes wrong is one line."""

import json
from pathlib import Path

import pytest

from horizon_imagination.cli import main
from horizon_imagination.data import Store, validate
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.run.folder import read_config
from horizon_imagination.run.start import Request, _warnings
from horizon_imagination.snapshots import snapshots

TOY = ["train", "--preset", "debug", "--training.epochs", "2", "--training.initial-steps", "20"]
LEARNERS = ["--world-model.learner.first-epoch", "0", "--controller.learner.first-epoch", "0"]


def train(folder, name, options=None, *words):
    told = ["--env.options", json.dumps(options)] if options else []
    return main([*TOY, "--env", f"standin_worlds:{name}", *told, "--out", str(folder), *words])


@pytest.mark.slow
def test_a_stack_of_four_frames_trains_is_evaluated_and_shown(tmp_path, capsys):
    folder, film = tmp_path / "run", tmp_path / "film.mp4"
    limits = ["--env.time-limit", "15", "--training.strips-every", "1"]
    stack = ["--env.channels", "stack"]
    assert train(folder, "Shown", {"shape": [4, 40, 40]}, *stack, *limits, *LEARNERS) == 0
    assert "4 x 40 x 40 uint8, values 0 to 255, every channel kept" in capsys.readouterr().out
    assert read_config(folder).env.stack_channels == 4
    assert Store.open(folder / "replay").frame_shape == (4, 32, 32)
    assert list((folder / "videos").glob("*.png"))
    # The same command again is the same run, although it does not say how many channels.
    assert train(folder, "Shown", {"shape": [4, 40, 40]}, *stack, *limits, *LEARNERS) == 0
    words = ["--episodes", "1", "--trust", "--video", str(film)]
    assert main(["evaluate", str(folder), *words]) == 0 and film.stat().st_size > 0


@pytest.mark.parametrize(
    "name,options,words",
    [
        ("Rude", {"how": "reset"}, "reset() of standin_worlds:Rude failed: RuntimeError"),
        ("Rude", {"how": "build"}, "could not be built: KeyError"),
        ("Rude", {"how": "bare reset"}, "--env.old-api"),
        ("Fragile", {"how": "raise", "at": 1}, "step() of standin_worlds:Fragile failed"),
        ("Shown", {"shape": [4, 40, 40]}, "--env.channels rgba or --env.channels stack"),
        ("Shown", {"shape": [16, 16, 3], "values": [0, 9], "dtype": "float32", "bounds": [0, 1]},
         "--env.range"),
    ],
)  # fmt: skip
def test_a_start_that_fails_leaves_nothing(name, options, words, tmp_path, capsys):
    assert train(tmp_path / "run", name, options) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists()
    if "failed" in words or "built" in words:
        trace = Path(said.rpartition("the traceback is in ")[2].strip())
        assert "standin_worlds.py" in trace.read_text()
        trace.unlink()


@pytest.mark.parametrize("how,words", [("raise", "the engine is gone"), ("reward", "reward nan")])
def test_a_world_that_fails_at_run_time_leaves_a_good_run_and_says_how_to_go_on(
    how, words, tmp_path, capsys
):
    folder, fragile = tmp_path / "run", {"how": how, "at": 60, "length": 9}
    assert train(folder, "Fragile", fragile, "--training.epochs", "9") == 1
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1 and "Traceback" not in said
    good = f"the snapshot {snapshots(folder)[-1].name} (in the middle of epoch 2) is good"
    good += "; resume with: horizon train"
    assert f"{good} --out {folder} --env standin_worlds:Fragile" in said
    assert folder.glob("traceback-*.txt").__next__().read_text() if how == "raise" else True
    assert validate(folder / "replay") == []
    again = ["train", "--out", str(folder), "--env", "standin_worlds:Fragile"]
    assert main([*again, "--training.epochs", "3"]) == 0


def test_the_corrected_command_of_a_start_that_failed_is_taken(tmp_path, capsys):
    """The world fails in the first epoch, after the run has its folder."""
    folder = tmp_path / "run"
    assert train(folder, "Rude", {"how": "raise"}) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"nothing is kept in {folder}" in said
    trace = Path(said.rpartition("the traceback is in ")[2].strip())
    assert "standin_worlds.py" in trace.read_text() and not folder.exists()
    trace.unlink()
    assert train(folder, "Rude", {"how": ""}) == 0 and snapshots(folder)


def test_an_evaluation_that_fails_is_one_line(tmp_path, capsys):
    folder = tmp_path / "run"
    assert train(folder, "Fragile", {"how": "", "length": 9}) == 0
    broken = json.dumps({"how": "raise", "at": 2})
    words = ["--episodes", "1", "--trust", "--env.options", broken]
    capsys.readouterr()
    assert main(["evaluate", str(folder), *words]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and "the engine is gone; the traceback is in" in said[0]


def test_segments_shorter_than_an_imagination_are_told():
    short = replaced(DEBUG, world_model={"segment_length": 3})
    request = Request(preset="debug", config=short, folder=Path("nowhere"))
    assert any("segment_length 3 is shorter than" in line for line in _warnings(request, short))
    assert _warnings(request, DEBUG) == []


@pytest.mark.parametrize("context,fused", [(1, True), (2, True), (2, False)])
def test_contexts_that_keep_the_fused_denoiser_away_are_told(context, fused, monkeypatch):
    monkeypatch.setattr("horizon_imagination.run.start.wanted", lambda asked, device: fused)
    config = replaced(DEBUG, imagination={"context": context})
    config = replaced(config, world_model={"segment_length": 99})
    request = Request(preset="debug", config=config, folder=Path("nowhere"))
    told = any("without the fused denoiser" in line for line in _warnings(request, config))
    assert told == (context > 1 and fused)
