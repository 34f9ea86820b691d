"""Metrics on disk: lines of JSON, TensorBoard events, and what a missing package costs."""

import errno
import json
import math
import os
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.provenance import provenance
from horizon_imagination.report.draw import write_png
from horizon_imagination.run.folder import strips_of
from horizon_imagination.run.logs import MetricsFile, TensorBoard, make_logs
from horizon_imagination.run.read import read_metrics
from horizon_imagination.schema import read_lines

CONFIG = PRESETS["debug"][1]


def test_metrics_are_one_object_per_epoch_and_a_resumed_run_replaces_them(tmp_path, run_start):
    log = MetricsFile(tmp_path)
    log.on_start(run_start)
    for epoch in range(3):
        log.on_metrics(epoch, {"env/return": float(epoch)})
    log.on_start(replace(run_start, first_epoch=1))
    log.on_metrics(1, {"env/return": 7.0})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"epoch": 0, "env/return": 0.0}, {"epoch": 1, "env/return": 7.0}]


def test_metrics_are_strict_json_and_what_is_not_finite_is_null(tmp_path, run_start):
    log = MetricsFile(tmp_path)
    log.on_start(run_start)
    log.on_metrics(0, {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1.5})
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    strict = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert strict == {"epoch": 0, "a": None, "b": None, "c": None, "d": 1.5}
    assert read_metrics(tmp_path) == [{"epoch": 0, "d": 1.5}]


def test_every_session_says_when_where_and_by_what_it_was_trained(tmp_path, run_start):
    log = MetricsFile(tmp_path)
    log.on_start(run_start)
    log.on_start(replace(run_start, first_epoch=7))
    sessions = read_lines(tmp_path / "sessions.jsonl", dict)
    assert [session["epoch"] for session in sessions] == [0, 7]
    assert sessions[1] == {"epoch": 7} | provenance("cpu")


def events(folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    return accumulator.EventAccumulator(str(folder / "tensorboard")).Reload()


def train(folder, run_start, epochs, first=0):
    """Some epochs of forty steps each, with strips after the second and the last one."""
    metrics, log = MetricsFile(folder), TensorBoard(folder)
    for callback in (metrics, log):
        callback.on_start(replace(run_start, first_epoch=first))
    for epoch in range(first, epochs):
        seen = {"env/return": float(epoch), "env/steps": 40 * (epoch + 1)}
        if epoch == 1:
            write_png(strips_of(folder, epoch), np.full((8, 6, 3), 200, np.uint8))
        for callback in (metrics, log):
            callback.on_metrics(epoch, seen)
    return log


def test_tensorboard_counts_environment_steps(tmp_path, run_start):
    train(tmp_path, run_start, 3).on_end()
    found = events(tmp_path)
    assert [(x.step, x.value) for x in found.Scalars("env/return")] == [(40, 0), (80, 1), (120, 2)]
    assert [x.value for x in found.Scalars("epoch")] == [0, 1, 2]


def test_tensorboard_counts_epochs_where_they_take_no_steps(tmp_path, run_start):
    offline = replaced(run_start.agent.config, training={"collect_steps": 0, "initial_steps": 0})
    agent = Agent(offline, 3, torch.device("cpu"))
    log = TensorBoard(tmp_path)
    log.on_start(replace(run_start, agent=agent))
    log.on_metrics(4, {"controller/actor": 0.5, "env/steps": 0})
    log.on_end()
    assert [x.step for x in events(tmp_path).Scalars("controller/actor")] == [4]


def test_a_resumed_run_replaces_its_events_from_where_it_goes_on(tmp_path, run_start):
    train(tmp_path, run_start, 3).on_end()
    time.sleep(1.1)  # event files are told apart by the second
    train(tmp_path, run_start, 4, first=2).on_end()
    assert [x.step for x in events(tmp_path).Scalars("env/return")] == [40, 80, 120, 160]


def test_tensorboard_has_the_strips_as_images(tmp_path, run_start):
    log = train(tmp_path, run_start, 3)
    write_png(strips_of(tmp_path, 2), np.full((9, 6, 3), 10, np.uint8))  # at the end of the run
    log.on_end()
    found = events(tmp_path).Images("strips")
    assert [(x.step, x.height, x.width) for x in found] == [(80, 8, 6), (120, 9, 6)]


def test_events_that_cannot_be_written_are_told_once_and_without_a_traceback(
    tmp_path, run_start, monkeypatch
):
    said, stray = [], threading.ExceptHookArgs((ValueError, ValueError("other"), None, None))
    monkeypatch.setattr(threading, "excepthook", said.append)
    log = TensorBoard(tmp_path)
    log.on_start(run_start)

    def fail(writer, data):
        raise OSError(errno.EIO, os.strerror(errno.EIO), b"events")

    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter.write", fail)
    with pytest.raises(OSError, match="Input/output error"):
        for epoch in range(100):
            log.on_metrics(epoch, {"env/return": 0.0, "env/steps": epoch})
    assert said == [], "the thread of the writer prints a traceback of the same error"
    threading.excepthook(stray)
    assert said == [stray], "failures of other threads are told as before"


def test_a_missing_tensorboard_costs_one_warning(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    logs, warnings = make_logs(tmp_path, CONFIG, wandb=None)
    assert [type(log) for log in logs] == [MetricsFile]
    assert len(warnings) == 1 and "tensorboard" in warnings[0]


def test_wandb_is_needed_only_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    make_logs(tmp_path, CONFIG, wandb=None)
    with pytest.raises(UsageError, match=r"pip install 'horizon_imagination\[wandb\]'"):
        make_logs(tmp_path, CONFIG, wandb="project")
