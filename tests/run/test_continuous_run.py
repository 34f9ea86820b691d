"""A run in worlds of vectors and of several numbers: trained, resumed, evaluated, shown."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.cli import main
from horizon_imagination.collect import Collected, Collector, Unfinished
from horizon_imagination.run.epoch import Epoch, restored_collection, saved

STANDINS = Path(__file__).parent.parent / "envs"
SMALL = ["--preset", "debug", "--env.size", "16", "--runtime.threads", "1"]
SMALL += ["--runtime.device", "cpu"]
SHORT = ["--training.epochs", "3", "--training.initial-steps", "30", "--denoiser.patch-size", "2"]
SHORT += ["--imagination.horizon", "3", "--imagination.budget", "2"]
SHORT += ["--world-model.segment-length", "4", "--training.evaluate-every", "1"]


def train(out, env, *more):
    return main(["train", *SMALL, *SHORT, "--env.id", env, "--out", str(out), *more])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("continuous") / "run"
    assert train(folder, "reach") == 0
    return folder


def test_every_learner_has_finite_losses_and_actions_are_seen_to_move(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = lines[-1]
    for name in ("controller/actor", "controller/entropy", "controller/critic"):
        assert np.isfinite(last[name]), name
    assert last["controller/action_changes"] > 0
    assert last["controller/state_action_information"] >= 0
    assert last["controller/entropy"] <= 2 * np.log(2) + 0.01


def test_the_agent_acts_in_the_units_of_its_world_and_repeats_itself(run):
    agent = Agent.load(run, device="cpu")
    env = agent.make_env(seed=3)
    frame, _ = env.reset(seed=3)
    actions = []
    for _ in range(2):
        agent.reset(seed=5)
        actions.append(agent.act(frame))
    assert actions[0].shape == (2,) and np.array_equal(*actions)
    env.step(actions[0])
    agent.reset()
    batch = agent.act(np.stack([frame, frame]), greedy=True)
    assert batch.shape == (2, 2) and np.abs(batch).max() <= 1


def test_the_run_is_resumed_evaluated_recorded_and_shown(run, tmp_path, capsys):
    assert main(["train", "--out", str(run), "--training.epochs", "4"]) == 0
    assert main(["evaluate", str(run), "--episodes", "3"]) == 0
    assert main(["evaluate", "--random", "--env", "reach", "--episodes", "3"]) == 0
    data = str(tmp_path / "data")
    assert main(["record", "--agent", str(run), "--episodes", "2", "--out", data]) == 0
    assert main(["data", "validate", data]) == 0
    assert main(["data", "info", data]) == 0
    assert "action mean" in capsys.readouterr().out
    picture = tmp_path / "strip.png"
    assert main(["strip", str(run), "--out", str(picture)]) == 0
    assert main(["report", str(run)]) == 0


def test_a_vector_that_was_drawn_and_not_taken_survives_a_snapshot():
    drawn = np.array([0.25, -1.0], np.float32)
    collector = Collector.__new__(Collector)
    collector.unfinished = Unfinished(Collected(steps=2), None, drawn)
    state, tensors = saved(Epoch(stage="collect", steps=2), collector)
    again = restored_collection(state, tensors, torch.device("cpu"))
    assert again is not None and np.array_equal(again.pending, drawn)


def test_coupled_actions_are_refused_in_one_line(tmp_path, capsys):
    assert train(tmp_path / "coupled", "reach", "--imagination.sampler", "coupled") == 2
    assert "stable, which is an optimal coupling" in capsys.readouterr().err


def test_a_world_of_several_numbers_trains(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(STANDINS))
    monkeypatch.delitem(sys.modules, "standin_worlds", raising=False)
    assert train(tmp_path / "several", "standin_worlds:Steered") == 0
    assert train(tmp_path / "plain", "standin_worlds:Steered", "--imagination.sampler", "coupled",
                 "--imagination.engine", "plain") == 0  # fmt: skip
