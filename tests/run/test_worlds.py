"""The whole pipeline in the worlds of the paper and in others', at toy size."""

import json
import sys
from pathlib import Path

import gymnasium
import pytest

from horizon_imagination.cli import main
from horizon_imagination.run.folder import read_config
from horizon_imagination.snapshots import snapshots

TOY = ["train", "--preset", "debug", "--training.epochs", "2", "--training.initial-steps", "20"]
LEARNERS = ["--world-model.learner.first-epoch", "0", "--controller.learner.first-epoch", "0"]


def complete(folder, *words):
    """Train two epochs of every learner and evaluate; the counters of the last snapshot."""
    assert main([*TOY, *LEARNERS, "--out", str(folder), *words]) == 0
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and "controller/actor" in lines[1]
    return json.loads((snapshots(folder)[-1] / "state.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("game", ["Boxing", "CrazyClimber", "Gopher", "KungFuMaster"])
def test_the_atari_games_of_the_paper_train(game, tmp_path):
    pytest.importorskip("ale_py")
    limits = ["--env.time-limit", "30", "--env.atari.max-noops", "3"]
    state = complete(tmp_path / "run", "--env", f"ALE/{game}-v5", *limits)
    assert state["env_steps"] == 60 and "$array" in json.dumps(state["env"])


@pytest.mark.slow
def test_a_stopped_atari_run_goes_on_in_the_middle_of_its_episode(tmp_path):
    pytest.importorskip("ale_py")
    words = ["--env", "ALE/Boxing-v5", "--training.evaluate-every", "0"]
    for epochs, folder in (("1", "parts"), ("2", "parts"), ("2", "whole")):
        line = [*TOY, *LEARNERS, *words, "--training.epochs", epochs]
        assert main([*line, "--out", str(tmp_path / folder)]) == 0
    for name in ("weights.safetensors", "training.safetensors"):
        parts, whole = (snapshots(tmp_path / x)[-1] / name for x in ("parts", "whole"))
        assert parts.read_bytes() == whole.read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SmallRoom", "Room", "Speleo", "ChopTree"])
def test_the_craftium_worlds_of_the_paper_train_against_the_stand_in(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "envs" / "standin"))
    monkeypatch.delitem(sys.modules, "craftium", raising=False)
    registered = set(gymnasium.registry)
    try:
        words = ["--env.isolation", "inline", "--env.time-limit", "15"]
        state = complete(tmp_path / "run", "--env", f"Craftium/{name}-v0", *words)
    finally:
        for entry in set(gymnasium.registry) - registered:
            del gymnasium.registry[entry]
        sys.modules.pop("craftium", None)
    assert state["env_steps"] == 60
    bias = read_config(tmp_path / "run").controller.actor_bias
    assert (sum(bias) == 1.0) == (name in ("Speleo", "ChopTree"))
