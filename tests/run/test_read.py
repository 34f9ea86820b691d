"""The one reader of run folders."""

import numpy as np
import pytest

import horizon_imagination as hi
from horizon_imagination.config import TrainingConfig
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.run.read import is_complete, read_metrics, standing


def run_with(folder, metrics):
    """A folder with these metrics and nothing else."""
    (folder / "metrics.jsonl").write_text(metrics)
    return folder


def test_a_run_has_its_config_its_metrics_and_its_agent(trained):
    run = hi.load_run(str(trained), device="cpu")
    assert run.config == replaced(DEBUG, training={"epochs": 4}) and run.folder == trained
    assert [entry["epoch"] for entry in run.history] == [0, 1, 2, 3]
    assert run.finished and run.preset == "debug"
    assert "agent" not in vars(run), "weights are loaded when they are asked for"
    env = hi.make_env(run.config.env, seed=0)
    assert run.agent is run.agent and run.agent.act(np.asarray(env.reset()[0])) in range(3)


def test_metrics_are_read_while_a_run_writes_them(trained, tmp_path):
    (tmp_path / "config.json").write_bytes((trained / "config.json").read_bytes())
    assert hi.load_run(tmp_path).history == []
    run_with(tmp_path, '{"epoch": 0}\n{"epoch": 1}\n{"epo')
    assert [entry["epoch"] for entry in hi.load_run(tmp_path).history] == [0, 1]


@pytest.mark.parametrize("value", ["null", "NaN", "Infinity", "-Infinity"])
def test_values_that_are_not_finite_are_left_out_in_old_and_new_files(tmp_path, value):
    run_with(tmp_path, f'{{"epoch": 0, "a": 1.5}}\n{{"epoch": 1, "a": {value}, "b": 2}}\n')
    assert read_metrics(tmp_path) == [{"epoch": 0, "a": 1.5}, {"epoch": 1, "b": 2}]


def test_an_epoch_that_was_trained_again_counts_once(tmp_path):
    run_with(tmp_path, '{"epoch": 1, "a": 1}\n{"epoch": 0}\n{"epoch": 1, "a": 2}\n')
    assert read_metrics(tmp_path) == [{"epoch": 0}, {"epoch": 1, "a": 2}]


def test_metrics_of_earlier_versions_are_found_under_their_names_of_today(tmp_path):
    run_with(tmp_path, '{"epoch": 0, "controller/sight": 0.25}\n')
    assert read_metrics(tmp_path) == [{"epoch": 0, "controller/state_action_information": 0.25}]


def test_the_end_of_long_metrics_is_read_without_the_beginning(tmp_path):
    lines = "".join(f'{{"epoch": {i}, "time/seconds": {2.0 * i}}}\n' for i in range(5000))
    run_with(tmp_path, lines)
    tail = read_metrics(tmp_path, 1000)
    assert tail == read_metrics(tmp_path)[-len(tail) :] and 10 < len(tail) < 40
    found = standing(tmp_path, replaced(DEBUG, training={"epochs": 5010}))
    assert (found.epochs, found.pace, found.left) == (5000, 2.0, 20.0)


@pytest.mark.parametrize(
    ("epochs", "reached", "target", "over"),
    [(4, None, None, True), (3, None, None, False), (1, 0.9, 0.8, True), (1, 0.7, 0.8, False)],
)
def test_a_run_ends_at_its_last_epoch_or_at_its_target(epochs, reached, target, over):
    training = TrainingConfig(epochs=4, target_return=target)
    assert is_complete(training, epochs, reached) == over
