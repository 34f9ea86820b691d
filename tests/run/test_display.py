"""What a person sees: the pace, the time left, plain lines and a live panel."""

import io

import pytest
from rich.console import Console

from horizon_imagination.run.display import Display
from horizon_imagination.run.pace import Pace, Stage


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


PLAN = [
    Stage("collect", 10),
    Stage("tokenizer", 5, last_epoch=1),
    Stage("controller", 4, first_epoch=3),
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


def narrate(display):
    display.start(
        {
            "epochs": 6,
            "first_epoch": 0,
            "folder": "runs/x",
            "env": "catch",
            "device": "cpu",
            "seconds": 0.0,
            "plan": PLAN,
        }
    )
    display.stage(0, "tokenizer", 5)
    for _ in range(3):
        display.step()
    panel = None
    if display.live is not None:
        panel = Console(width=120, file=io.StringIO(), record=True)
        panel.print(display.live.get_renderable())
    display.epoch(0, {"env/return": -0.75, "tokenizer/reconstruction": 0.125, "time/seconds": 61})
    display.note("a note")
    display.close()
    return panel.export_text() if panel else ""


def test_without_a_terminal_there_is_one_plain_line_per_epoch():
    out = io.StringIO()
    narrate(Display(Console(file=out, force_terminal=False, width=60)))
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0] == "catch on cpu, in runs/x"
    assert lines[1].startswith("epoch 1/6  1:01, left about ")
    assert lines[1].endswith("return -0.75  reconstruction 0.125")
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_panel_shows_stage_rate_and_time_left():
    display = Display(Console(file=io.StringIO(), force_terminal=True, width=120))
    said = narrate(display)
    assert "epoch 1/6" in said and "tokenizer" in said and "3/5" in said and "/s" in said
    assert display.live is None


def test_a_world_model_that_ignores_actions_is_told_of_once_and_when_it_matters():
    out = io.StringIO()
    display = Display(Console(file=out, force_terminal=False, width=60))
    deaf = {"world_model/action_gap": 0.001, "time/seconds": 1}
    display.description = {"epochs": 6}
    display.epoch(0, deaf)
    assert "ignores actions" not in out.getvalue()  # nobody learns in it yet
    display.epoch(1, deaf | {"controller/actor": 0.1, "world_model/action_gap": 0.2})
    assert "ignores actions" not in out.getvalue()
    for epoch in (2, 3):
        display.epoch(epoch, deaf | {"controller/actor": 0.1})
    assert out.getvalue().count("ignores actions so far (action gap 0.001)") == 1


@pytest.mark.parametrize("sight, told", [(1e-5, 1), (0.3, 0)])
def test_a_policy_that_stays_blind_is_told_of_once(sight, told):
    out = io.StringIO()
    display = Display(Console(file=out, force_terminal=False, width=60))
    display.description = {"epochs": 30}
    figures = {"controller/sight": sight, "time/seconds": 1}
    for epoch in range(9):
        display.epoch(epoch, figures)
    assert "whatever it sees" not in out.getvalue()  # it may yet open its eyes
    for epoch in range(9, 20):
        display.epoch(epoch, figures)
    assert out.getvalue().count("does the same whatever it sees (sight 1e-05 nats") == told
