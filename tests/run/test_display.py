"""What a person sees: the pace, the time left, plain lines, a live panel, a count of episodes."""

import contextlib
import fcntl
import io
import math
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from horizon_imagination.agent import Agent
from horizon_imagination.config import EnvConfig
from horizon_imagination.evaluate import Protocol, evaluate
from horizon_imagination.presets import replaced
from horizon_imagination.run.callbacks import Stage
from horizon_imagination.run.display import Display, Pace, Tally, counted


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


PLAN = [
    Stage("collect", lambda epoch: 10),
    Stage("tokenizer", lambda epoch: 5 * (epoch <= 1)),
    Stage("controller", lambda epoch: 4 * (epoch >= 3)),
]


def play(pace, clock, name, steps, seconds):
    pace.stage(name)
    clock.now += seconds
    pace.step(steps)


def test_the_time_left_is_the_steps_to_come_at_the_pace_of_those_done():
    clock = Clock()
    pace = Pace(PLAN, epochs=6, clock=clock)
    play(pace, clock, "collect", 10, 1.0)
    play(pace, clock, "tokenizer", 5, 10.0)
    pace.epoch_over()
    left, unknown = pace.left(1)
    # five epochs of collection at 0.1 s a step, one of the tokenizer at 2 s a step
    assert left == pytest.approx(5 * 10 * 0.1 + 5 * 2.0)
    assert unknown == ["controller"]


def test_the_pace_follows_a_change():
    clock = Clock()
    pace = Pace(PLAN, epochs=6, clock=clock)
    for seconds in (1.0, 2.0):
        play(pace, clock, "collect", 10, seconds)
    pace.epoch_over()
    assert pace.seconds["collect"] == pytest.approx(0.7 * 0.1 + 0.3 * 0.2)


def test_time_between_stages_counts_for_none():
    clock = Clock()
    pace = Pace(PLAN, epochs=6, clock=clock)
    play(pace, clock, "collect", 10, 1.0)
    pace.epoch_over()
    clock.now += 100
    play(pace, clock, "collect", 10, 1.0)
    pace.epoch_over()
    assert pace.seconds["collect"] == pytest.approx(0.1)


@pytest.fixture
def run(run_start):
    config = replaced(run_start.agent.config, training={"epochs": 6})
    agent = Agent(config, 3, torch.device("cpu"))
    return replace(run_start, agent=agent, folder=Path("runs/x"), plan=tuple(PLAN))


def narrate(display, run):
    display.on_start(run)
    display.on_stage(0, "tokenizer", 5)
    for _ in range(3):
        display.on_step()
    panel = None
    if display.live is not None:
        panel = Console(width=120, file=io.StringIO(), record=True)
        panel.print(display.live.get_renderable())
    display.on_metrics(
        0, {"env/return": -0.75, "tokenizer/reconstruction": 0.125, "time/seconds": 61}
    )
    display.on_note("a note")
    display.close()
    return panel.export_text() if panel else ""


def test_without_a_terminal_there_is_one_plain_line_per_epoch(run):
    out = io.StringIO()
    narrate(Display(Console(file=out, force_terminal=False, width=60)), run)
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0] == "catch on cpu, in runs/x"
    assert lines[1].startswith("epoch 1/6  1:01, left about ")
    assert lines[1].endswith("return -0.75  reconstruction 0.125")
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_panel_shows_stage_rate_and_time_left(run):
    display = Display(Console(file=io.StringIO(), force_terminal=True, width=120))
    said = narrate(display, run)
    assert "epoch 1/6" in said and "tokenizer" in said and "3/5" in said and "/s" in said
    assert display.live is None


def test_a_world_model_that_ignores_actions_is_told_of_once_and_when_it_matters():
    out = io.StringIO()
    display = Display(Console(file=out, force_terminal=False, width=60))
    ignoring = {"world_model/action_gap": 0.001, "time/seconds": 1}
    display.epochs = 6
    display.on_metrics(0, ignoring)
    assert "ignores actions" not in out.getvalue()  # nobody learns in it yet
    both = {"controller/actor": 0.1, "world_model/denoiser": 0.1}
    display.on_metrics(1, ignoring | both | {"world_model/action_gap": 0.2})
    display.on_metrics(1, ignoring | {"controller/actor": 0.1})  # the denoiser is frozen
    assert "ignores actions" not in out.getvalue()
    for epoch in (2, 3):
        display.on_metrics(epoch, ignoring | both)
    assert out.getvalue().count("ignores actions so far (action gap 0.001)") == 1


@pytest.mark.parametrize("information, told", [(1e-5, 1), (0.3, 0)])
def test_a_policy_that_ignores_the_state_is_told_of_once(information, told):
    out = io.StringIO()
    display = Display(Console(file=out, force_terminal=False, width=60))
    display.epochs = 30
    figures = {"controller/state_action_information": information, "time/seconds": 1}
    for epoch in range(9):
        display.on_metrics(epoch, figures)
    assert "acts alike" not in out.getvalue()  # it may yet learn to look
    for epoch in range(9, 20):
        display.on_metrics(epoch, figures)
    said = "acts alike in every state (mutual information 1e-05 nats after 10 epochs)"
    assert out.getvalue().count(said) == told


def test_a_metric_that_is_not_finite_is_told_of_once():
    out = io.StringIO()
    display = Display(Console(file=out, force_terminal=False, width=60))
    display.epochs = 6
    for epoch in range(3):
        display.on_metrics(epoch, {"controller/critic": math.nan, "time/seconds": 1.0})
    said = "epoch 1: controller/critic is not finite; it is null in metrics.jsonl"
    assert out.getvalue().count(said) == 1 and out.getvalue().count("not finite") == 1


PROGRAM = """
from pathlib import Path
from types import SimpleNamespace as N
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.callbacks import Stage
from horizon_imagination.run.display import OTHERS, RETURNS, Display

late = Stage("controller", lambda epoch: 4 * (epoch >= 3))
plan = [Stage("collect", lambda epoch: 10), Stage("world_model", lambda epoch: 5), late]
agent = N(config=PRESETS["debug"][1], device="cpu")
start = N(agent=agent, folder=Path("runs/" + 12 * "long-"), plan=plan, first_epoch=0, seconds=7e4)
display = Display()
display.on_start(start)
display.on_stage(0, "world_model", 5)
display.on_step(3)
metrics = {key: -0.123456 for key in [*RETURNS.values(), *OTHERS.values()]}
display.on_metrics(0, metrics | {"world_model/action_gap": 0.001, "time/seconds": 7e4})
display.live.refresh()
display.on_note("a note of words " * 12)
display.on_end()
"""


def said_in_terminal(columns: int, **environment: str) -> str:
    """All that the program writes to a terminal so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    hidden = {"COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM"}
    env = {k: v for k, v in os.environ.items() if k not in hidden} | environment
    ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, **ends)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error on Linux
        while piece := os.read(ours, 2**16):
            said += piece
    os.close(ours)
    assert child.wait() == 0, said.decode()
    return said.decode()


@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_is_wider_than_the_terminal_and_no_figure_is_broken(columns):
    said = said_in_terminal(columns, TERM="xterm-256color", NO_COLOR="1")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    lines = re.split(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n", plain)
    assert max(map(len, lines)) <= columns
    for figure in ("return -0.1235", "action gap 0.001", "mutual information -0.1235"):
        assert any(figure in line for line in lines), figure
    assert "not timed yet: collect, controller" in plain


def test_colours_are_left_out_where_they_are_not_wanted():
    colour = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7])(?:;[0-9;]*)?m")
    assert colour.search(said_in_terminal(80, TERM="xterm-256color"))
    assert not colour.search(said_in_terminal(80, TERM="xterm-256color", NO_COLOR="1"))


@pytest.fixture
def now(monkeypatch):
    """A clock to be set."""
    time = [100.0]
    monkeypatch.setattr("horizon_imagination.run.display.monotonic", lambda: time[0])
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
