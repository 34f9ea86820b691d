"""What is said while episodes are played: how many, how fast, how long still."""

import pytest

from horizon_imagination.config import EnvConfig
from horizon_imagination.evaluate import Protocol, evaluate
from horizon_imagination.run.progress import Tally, counted


@pytest.fixture
def now(monkeypatch):
    """A clock to be set."""
    time = [100.0]
    monkeypatch.setattr("horizon_imagination.run.progress.monotonic", lambda: time[0])
    return time


def test_rate_and_time_left_by_hand(now):
    tally = Tally("episodes", 8)
    assert str(tally) == "0/8 episodes"
    now[0] += 10
    tally.add(0, steps=500)
    assert str(tally) == "0/8 episodes, 500 steps, 50/s", "nothing to tell the rest from yet"
    now[0] += 30
    tally.add(2, steps=1500)
    # Two of eight in 40 seconds: six more take 120.
    assert str(tally) == "2/8 episodes, 2,000 steps, 50/s, left about 2:00"


def test_steps_that_are_the_goal_are_said_once(now):
    tally = Tally("steps", 4000)
    now[0] += 2
    tally.add(1000, steps=1000)
    assert str(tally) == "1,000/4,000 steps, 500/s, left about 0:06"


def test_slow_things_have_a_rate_too(now):
    tally = Tally("steps", 10)
    now[0] += 4
    tally.add(1, steps=1)
    assert "0.25/s" in str(tally)


def test_without_a_terminal_there_is_a_line_now_and_then(now, capsys):
    with counted("episodes", 4, seconds=5) as done:
        for _ in range(8):
            now[0] += 2
            done(0, 10)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["0/4 episodes, 30 steps, 5/s", "0/4 episodes, 60 steps, 5/s"]


def test_episodes_are_reported_as_they_end_and_steps_as_they_are_taken():
    protocol = Protocol(EnvConfig(id="fog", size=32), episodes=5, seed=0, greedy=False, envs=3)
    reports = []
    played = evaluate(None, protocol, on_steps=lambda ended, steps: reports.append((ended, steps)))
    assert sum(ended for ended, _ in reports) == 5
    assert sum(steps for _, steps in reports) == sum(episode.length for episode in played)
    assert [steps for _, steps in reports] == sorted((s for _, s in reports), reverse=True)
    assert reports[0] == (0, 3), "three worlds at once"
