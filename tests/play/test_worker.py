"""The thread that owns the model: what it is asked for, and what it answers."""

import time

import pytest

from horizon_imagination.play import messages as m
from horizon_imagination.play.worker import Jobs, Settings, Worker

WISH = m.Imagine("horizon", 4, 2.0, ("stable",), 0, None)


def test_jobs_come_in_order_and_of_sliders_only_the_newest():
    jobs = Jobs()
    first, newest = m.Imagine("full", 4, 2.0, ("stable",), 0, None), WISH
    for message in (m.Act(0), first, m.Act(1), newest):
        assert jobs.put(1, message)
    assert jobs.put(2, first), "another client's is another job"
    got = [jobs.get(0.0) for _ in range(5)]
    assert got == [(1, m.Act(0)), (1, newest), (1, m.Act(1)), (2, first), None]


def test_choices_of_different_things_are_all_kept():
    jobs = Jobs()
    jobs.put(1, m.Choose(speed=1.0))
    jobs.put(1, m.Choose(speed=2.0))
    jobs.put(1, m.Choose(world="both"))
    assert [jobs.get(0.0)[1] for _ in range(2)] == [m.Choose(speed=2.0), m.Choose(world="both")]


def test_too_many_jobs_are_refused():
    jobs = Jobs(most=3)
    assert [jobs.put(1, m.Act(0)) for _ in range(4)] == [True, True, True, False]
    jobs.get(0.0)
    assert jobs.put(1, m.Act(0))


@pytest.fixture
def said():
    return []


@pytest.fixture
def worker(tmp_path, said):
    made = Worker(Settings(None, tmp_path), lambda answer, to: said.append((answer, to)))
    yield made
    made.stop_recording()


def ask(worker, message):
    """Have it done, as the thread would."""
    with worker._reported((7, message)):
        worker._do(7, message)


def last(said, kind):
    return next(answer for answer, _ in reversed(said) if answer.kind == kind)


def test_an_agent_is_introduced_before_it_is_seen(worker, said):
    assert [answer.kind for answer, _ in said[:3]] == ["hello", "state", "frame"]
    hello = said[0][0].head
    assert hello["actions"] == ["left", "stay", "right"] and hello["idle"] == 1
    assert hello["agents"] == ["catch", "fog"] and hello["real"] is True
    assert hello["left_out"] == ""


def test_an_action_is_a_step_while_the_world_waits(worker, said):
    ask(worker, m.Act(2))
    frame = last(said, "frame")
    assert frame.head["step"] == 1 and frame.head["action"] == 2 and len(frame.blobs) == 1
    assert frame.blobs[0].startswith(b"\x89PNG")


def test_a_tap_is_taken_with_the_next_step_while_the_world_runs(worker, said):
    ask(worker, m.Run(True))
    ask(worker, m.Act(2))
    assert worker.game.steps == 0
    worker._tick()
    assert worker.game.last_action == 2
    worker._tick()
    assert worker.game.last_action == worker.game.idle


def test_what_is_held_is_taken_at_every_step(worker):
    ask(worker, m.Run(True))
    ask(worker, m.Hold(0))
    worker._tick()
    worker._tick()
    assert worker.game.last_action == 0
    ask(worker, m.Hold(None))
    worker._tick()
    assert worker.game.last_action == worker.game.idle


def test_what_is_held_before_the_world_runs_is_taken_from_the_first_step_on(worker):
    ask(worker, m.Hold(0))
    ask(worker, m.Run(True))
    worker._tick()
    assert worker.game.last_action == 0
    ask(worker, m.Choose(speed=20.0))
    worker._tick()
    assert worker.game.last_action == 0
    ask(worker, m.Reset(None))
    worker._tick()
    assert worker.game.last_action == 0 and worker.game.steps == 1


def test_nothing_stays_held_when_the_world_stops_or_another_acts(worker):
    for change in (m.Run(False), m.Choose(player="policy")):
        ask(worker, m.Run(True))
        ask(worker, m.Hold(0))
        ask(worker, change)
        assert worker.held is None


def test_the_policy_begins_another_episode_and_a_person_is_waited_for(worker):
    ask(worker, m.Choose(player="policy"))
    ask(worker, m.Run(True))
    for _ in range(9):
        worker._tick()
    assert worker.game.steps < 7 and worker.game.choices.running
    ask(worker, m.Choose(player="person"))
    for _ in range(9):
        worker._tick()
    assert worker.game.ended and not worker.game.choices.running


def test_an_action_there_is_not_is_answered_with_a_notice(worker, said):
    ask(worker, m.Act(3))
    answer, to = said[-1]
    assert answer.kind == "notice" and "action 3 is unknown" in answer.head["text"] and to == 7
    ask(worker, m.Hold(1000))
    assert said[-1][0].kind == "notice" and worker.held is None


def test_what_breaks_is_told_and_the_game_goes_on(worker, said, monkeypatch, capsys):
    monkeypatch.setattr(worker.game, "step", lambda action: 1 / 0)
    ask(worker, m.Act(1))
    assert said[-1][0].kind == "notice" and "log" in said[-1][0].head["text"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_strip_is_shown_to_everyone(worker, said):
    ask(worker, m.Imagine("horizon", 6, 3.0, ("stable", "naive"), 1, None))
    answer, to = said[-1]
    assert answer.kind == "strip" and to is None
    head = answer.head
    assert len(head["schedule"]) == 7 and [s["sampler"] for s in head["strips"]] == [
        "stable",
        "naive",
    ]
    assert len(answer.blobs) == 5 and len(answer.blobs[2]) == 7 * 7 * 3


def test_a_schedule_that_cannot_be_is_answered_with_the_reason(worker, said):
    ask(worker, m.Imagine("pyramidal", 3, 2.0, ("stable",), 0, None))
    assert said[-1][0].kind == "notice" and "budget" in said[-1][0].head["text"]


def test_a_budget_beyond_all_measure_is_cut(worker, said):
    ask(worker, m.Imagine("horizon", 1024, 1000.0, ("stable",), 0, None))
    assert said[-1][0].head["budget"] == 64 and said[-1][0].head["decay_horizon"] == 7


def test_browsing_answers_the_one_who_asks(worker, said):
    for message in (m.Sources(), m.Episodes(0, 0), m.Look(m.Place(0, 0, 0)), m.Curves()):
        ask(worker, message)
        assert said[-1][1] == 7 and said[-1][0].kind == type(message).__name__.lower()


def test_another_agent_takes_over_in_its_own_world(worker, said):
    ask(worker, m.Load("fog", "best"))
    assert worker.networks.agent.config.env.id == "fog"
    assert last(said, "hello").head["agent"] == "fog"
    ask(worker, m.Load("../../etc", "best"))
    assert said[-1][0].kind == "notice" and worker.player.name == "fog"


def test_a_recording_ends_with_its_dataset_and_film(worker, said, tmp_path):
    ask(worker, m.Record(True))
    for action in (0, 2, 1):
        ask(worker, m.Act(action))
    assert last(said, "frame").head["recorded"] == 3
    ask(worker, m.Record(False))
    until = time.monotonic() + 60
    while said[-1][0].kind != "recorded" and time.monotonic() < until:
        time.sleep(0.05)
    head = said[-1][0].head
    assert head["steps"] == 3 and worker.films[head["name"]].is_file()
    ask(worker, m.Sources())
    assert said[-1][0].head["sources"][-1] == {
        "name": f"{head['name']}, model",
        "episodes": 1,
        "steps": 3,
    }


def test_a_recording_that_cannot_be_written_stops_and_the_game_goes_on(worker, said, tmp_path):
    ask(worker, m.Record(True))
    ask(worker, m.Act(0))
    worker.recorder.stores["model"].close()  # as a full disk would: writing fails
    ask(worker, m.Act(0))
    assert worker.recorder is None and "recording stopped" in last(said, "notice").head["text"]
    ask(worker, m.Act(0))
    assert last(said, "frame").head["step"] == 3 and not last(said, "state").head["recording"]


def test_playing_on_from_a_recorded_frame_is_playing_in_the_model(worker, said):
    ask(worker, m.Choose(world="both"))
    ask(worker, m.Sources())
    ask(worker, m.Reset(m.Place(0, 0, 3)))
    assert worker.game.worlds == ("model",) and last(said, "state").head["world"] == "model"
    ask(worker, m.Act(1))
    assert last(said, "frame").head["step"] == 1
    ask(worker, m.Choose(world="real"))  # which cannot follow: another episode begins
    assert worker.game.steps == 0 and worker.game.worlds == ("real",)
