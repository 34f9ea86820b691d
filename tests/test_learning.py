"""The whole agent learns: all three learners from scratch, sub-frame budget, stable actions."""

import json
import os
import subprocess
import sys

import pytest

from horizon_imagination.agent import Agent
from horizon_imagination.evaluate import Protocol, evaluate
from horizon_imagination.presets import SMALL_CATCH


@pytest.mark.slow
def test_the_agent_learns_small_catch_in_imagination(tmp_path):
    """Random -0.5, best 1. Chosen on other episodes than those counted here."""
    assert SMALL_CATCH.imagination.budget < SMALL_CATCH.imagination.horizon
    assert SMALL_CATCH.imagination.decay_horizon >= 2
    run = tmp_path / "run"
    # One thread: sums in another order make another run of the same seed. A process of its own: the
    # run-time checks of shapes, which every other test has on, would take half of the time.
    words = ["train", "--preset", "small-catch", "--runtime.threads", "1", "--out", str(run)]
    program = [sys.executable, "-m", "horizon_imagination", *words]
    subprocess.run(program, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)
    played = evaluate(Agent.load(run), Protocol(SMALL_CATCH.env, 100, 7, greedy=False))
    assert sum(episode.total_reward for episode in played) / 100 >= 0.9
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    first = next(line for line in lines if "controller/untrained_return" in line)
    real = [line["env/return"] for line in lines[: first["epoch"]]]
    # A warning sign of bad dynamics: an untrained policy that dreams of better returns than it has.
    assert abs(first["controller/untrained_return"] - sum(real) / len(real)) < 0.3
