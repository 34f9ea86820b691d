"""Play with actions that are vectors: sliders, refusals, strips, recordings."""

import json

import numpy as np
import pytest
import torch

from horizon_imagination.actions import Box, MultiDiscrete
from horizon_imagination.agent import Agent
from horizon_imagination.data import Store, validate
from horizon_imagination.envs.reach import SmallReach
from horizon_imagination.play import answers
from horizon_imagination.play import messages as m
from horizon_imagination.play.strip import shares, told_actions
from horizon_imagination.play.worker import Settings, Worker
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.types import NO_VECTOR


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors") / "agent"
    folder.mkdir()
    config = replaced(DEBUG, env={"id": "small-reach"}, imagination={"horizon": 3, "budget": 2})
    Agent(config, SmallReach.ACTIONS, torch.device("cpu")).save(folder)
    return folder


@pytest.fixture
def said():
    return []


@pytest.fixture
def worker(run, tmp_path, said):
    made = Worker(Settings(run, tmp_path), lambda answer, to: said.append((answer, to)))
    yield made
    made.stop_recording()


def ask(worker, text):
    message = m.parse(text)
    with worker._reported((7, message)):
        worker._do(7, message)


def last(said, kind):
    return next(answer for answer, _ in reversed(said) if answer.kind == kind)


def test_the_page_is_told_of_a_slider_for_every_number(worker, said):
    hello = last(said, "hello").head
    assert hello["entries"] == [{"low": -1.0, "high": 1.0, "whole": False}]
    assert hello["actions"] == ["right"] and hello["idle"] == [0.0]
    policy = last(said, "frame").head["policy"]
    assert len(policy) == 1 and 0 <= policy[0] <= 1
    json.dumps(hello)


def test_a_vector_is_taken_in_both_worlds_and_by_the_policy(worker, said):
    ask(worker, '{"type": "choose", "world": "both"}')
    ask(worker, '{"type": "act", "action": [0.5]}')
    frame = last(said, "frame").head
    assert frame["action"] == [0.5] and frame["step"] == 1
    assert worker.game.track.prev_actions[0, -1].tolist() == [0.5]
    ask(worker, '{"type": "choose", "player": "policy"}')
    ask(worker, '{"type": "step"}')
    assert last(said, "frame").head["by"] == "policy"
    assert -1 <= last(said, "frame").head["action"][0] <= 1
    for answer, _ in said:
        answer.packed()


@pytest.mark.parametrize("action", ["[1.5]", "[0.1, 0.2]", "1", "[-7]", "[1e9]"])
def test_an_action_that_the_world_has_not_is_refused_and_nothing_happens(worker, said, action):
    ask(worker, f'{{"type": "act", "action": {action}}}')
    notice = last(said, "notice").head
    assert notice["bad"] and "is not 1 number from -1 to 1" in notice["text"]
    assert worker.game.steps == 0
    ask(worker, f'{{"type": "hold", "action": {action}}}')
    assert worker.held is None


@pytest.mark.parametrize(
    "action", ["[NaN]", "[Infinity]", "[1e999]", "[]", "[[0]]", '["0"]', "[true]", f"{[0.0] * 65}"]
)
def test_a_vector_that_is_none_is_malformed(action):
    with pytest.raises(m.Malformed):
        m.parse(f'{{"type": "act", "action": {action}}}')


def test_strips_and_stored_episodes_have_vectors(worker, said):
    ask(
        worker,
        '{"type": "imagine", "kind": "horizon", "budget": 2, "decay_horizon": 2, '
        '"samplers": ["stable", "naive"], "seed": 1, "place": null}',
    )
    strip = last(said, "strip").head
    assert strip["num_actions"] == 1 and len(strip["strips"]) == 2
    row = strip["strips"][0]["actions"][-1]
    assert len(row) == 3 and all(-1 <= x[0] <= 1 for x in row)
    ask(worker, '{"type": "sources"}')
    ask(worker, '{"type": "look", "place": {"source": 0, "episode": 0, "frame": 0}}')
    look = last(said, "look").head
    assert look["actions"][0] is None and len(look["actions"][1]) == 1
    ask(worker, '{"type": "reset", "place": {"source": 0, "episode": 0, "frame": 2}}')
    led = worker.game.track.prev_actions[0, :, 0].tolist()
    assert led[0] == NO_VECTOR and led[1:] == pytest.approx(
        [look["actions"][1][0], look["actions"][2][0]], abs=1e-5
    )


def test_an_agent_without_its_run_has_no_curves_and_nobody_complains(worker, said):
    ask(worker, '{"type": "curves"}')
    assert last(said, "curves").head["curves"] == []
    assert not any(answer.kind == "notice" for answer, _ in said)


def test_what_was_steered_is_recorded(worker, tmp_path):
    worker.start_recording()
    for action in ("[0.25]", "[-1]", "[1]"):
        ask(worker, f'{{"type": "act", "action": {action}}}')
    recorded = worker.recorder.stop()
    worker.recorder = None
    folder = next(iter(recorded.datasets.values()))
    assert validate(folder) == []
    assert Store.open(folder).action[:3, 0].tolist() == [0.25, -1.0, 1.0]


def test_several_numbers_are_sliders_of_whole_numbers(worker):
    space = MultiDiscrete((3, 2))
    worker.game.space = space
    assert [x["whole"] for x in answers.entries(worker.game)] == [True, True]
    assert shares(space, torch.tensor([0.1, 0.1, 0.8, 0.4, 0.6])).tolist() == [1.0, 1.0]
    told = told_actions(space, torch.tensor([[[2, 1], [-1, -1]]]))
    assert told == [[[2.0, 1.0], None]]


def test_the_middle_of_a_squashed_policy_lies_in_its_range():
    space = Box((0.0, -1.0), (1.0, 1.0))
    assert shares(space, torch.tensor([0.0, 9.0, 1.0, 1.0])).tolist() == pytest.approx([0.5, 1.0])
    assert told_actions(space, torch.tensor([[[0.0, 1.0]]])) == [[[0.5, 1.0]]]
    assert np.isfinite(told_actions(space, torch.zeros(1, 2, 2))).all()
