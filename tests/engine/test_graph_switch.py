"""Where steps are captured: on CUDA in one process, unless switched off; elsewhere launched."""

import contextlib
import json
import warnings

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.cli import main
from horizon_imagination.config import Config
from horizon_imagination.config_json import from_json, to_json
from horizon_imagination.engine import graph
from horizon_imagination.engine.graph import WARM_UP, StepGraph
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS, replaced

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def _warnings_not_yet_given():
    graph._warn.cache_clear()


def test_on_cuda_in_one_process_steps_are_captured_unless_switched_off():
    assert Config().runtime.graphs == "auto"
    assert [graph.wanted(x, CUDA) for x in ("auto", "on", "off")] == [True, True, False]


def test_without_cuda_auto_is_silent_and_on_warns_once():
    debug = PRESETS["debug"][1]

    def captured(graphs):
        return Agent(replaced(debug, runtime={"graphs": graphs}), 3, CPU).captured

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not captured("auto") and not captured("off")
    with pytest.warns(UserWarning, match="no CUDA device here; steps are launched") as said:
        assert not captured("on") and not captured("on")
    assert len(said) == 1 and "\n" not in str(said[0].message)


def test_with_several_processes_steps_are_launched(monkeypatch):
    monkeypatch.setattr(graph.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(graph.dist, "get_world_size", lambda: 2)
    assert not graph.wanted("auto", CUDA)
    with pytest.warns(UserWarning, match="several processes train together"):
        assert not graph.wanted("on", CUDA)
    monkeypatch.setattr(graph.dist, "get_world_size", lambda: 1)
    assert graph.wanted("auto", CUDA)


@pytest.mark.parametrize("before,now", [(True, "on"), (False, "off"), ("auto", "auto")])
def test_configs_of_earlier_runs_are_read(before, now):
    data = to_json(Config())
    data["runtime"]["graphs"] = before
    assert from_json(json.loads(json.dumps(data))).runtime.graphs == now


def test_the_flag_takes_auto_on_and_off(capsys):
    line = "train --preset debug --dry-run --runtime.graphs"
    assert main([*line.split(), "off"]) == 0
    assert main([*line.split(), "sometimes"]) == 2
    assert "sometimes" in capsys.readouterr().err


def fake_capture(monkeypatch, fails):
    """CUDA's parts of a capture, where there is no CUDA; `fails` is raised inside."""

    class FakeGraph:
        def register_generator_state(self, generator):
            pass

        def replay(self):
            pass

    class FakeStream:
        def wait_stream(self, other):
            pass

    used, main_stream = [], FakeStream()

    @contextlib.contextmanager
    def on(stream):
        used.append(stream)
        yield

    @contextlib.contextmanager
    def capture(graph, stream):
        used.append(stream)
        yield
        if fails:
            raise fails

    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: main_stream)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return used


def test_a_step_is_launched_three_times_then_captured_and_replayed(monkeypatch):
    fake_capture(monkeypatch, None)
    calls = []
    step = StepGraph(lambda batch: calls.append(1) or batch * 2, [])
    results = [step(torch.tensor(float(i))) for i in range(6)]
    assert len(calls) == WARM_UP + 1
    assert [float(x) for x in results[:3]] == [0, 2, 4]
    # The replay does nothing here: the result is that of the capture, in a copy of its own.
    assert [float(x) for x in results[3:]] == [6, 6, 6] and results[4] is not results[5]


def test_graphs_that_may_run_concurrently_are_made_on_streams_of_their_own(monkeypatch):
    used = fake_capture(monkeypatch, None)
    for _ in range(2):
        step = StepGraph(lambda batch: batch, [])
        for _ in range(WARM_UP + 2):
            step(torch.zeros(1))
    first, second = used[: WARM_UP + 1], used[WARM_UP + 1 :]
    assert len(set(first)) == len(set(second)) == 1 and len(first) == len(second)
    assert first[0] is not second[0]


def test_a_step_that_cannot_be_captured_says_how_to_go_on(monkeypatch):
    fake_capture(monkeypatch, RuntimeError("operation not permitted\nwhen capturing"))
    step = StepGraph(lambda batch: batch, [])
    with pytest.raises(UsageError, match=r"not permitted\).*--runtime.graphs off"):
        for _ in range(WARM_UP + 1):
            step(torch.zeros(1))


def test_a_capture_without_enough_memory_is_reported_as_such(monkeypatch):
    fake_capture(monkeypatch, torch.OutOfMemoryError("full"))
    step = StepGraph(lambda batch: batch, [])
    with pytest.raises(torch.OutOfMemoryError):
        for _ in range(WARM_UP + 1):
            step(torch.zeros(1))
