"""Metrics on disk: lines of JSON, TensorBoard events, and what a missing package costs."""

import json
import sys

import pytest

from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.logs import MetricsFile, TensorBoard, make_logs

CONFIG = PRESETS["debug"][1]


def test_metrics_are_one_object_per_epoch_and_a_resumed_run_replaces_its_epochs(tmp_path):
    log = MetricsFile(tmp_path)
    log.start({"first_epoch": 0})
    for epoch in range(3):
        log.epoch(epoch, {"env/return": float(epoch)})
    log.start({"first_epoch": 1})
    log.epoch(1, {"env/return": 7.0})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"epoch": 0, "env/return": 0.0}, {"epoch": 1, "env/return": 7.0}]


def test_tensorboard_holds_the_metrics(tmp_path):
    log = TensorBoard(tmp_path)
    log.start({"first_epoch": 0})
    log.epoch(4, {"env/return": 0.5})
    log.finish(tmp_path)
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(x.step, x.value) for x in events.Scalars("env/return")] == [(4, 0.5)]


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
