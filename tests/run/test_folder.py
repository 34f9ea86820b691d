"""The folder of a run: one process at a time, one config, metrics that go back with it."""

import json
import multiprocessing
from dataclasses import replace

import pytest

from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.run.folder import (
    Launch,
    claimed,
    prepare,
    read_config,
    read_launch,
    rewind_metrics,
)

CONFIG = PRESETS["debug"][1]
LAUNCH = Launch("debug")


def begun(folder):
    """A run that has finished an epoch."""
    prepare(folder, CONFIG, LAUNCH)
    (folder / "metrics.jsonl").write_text('{"epoch": 0}\n')


def test_config_and_launch_are_written_and_read_back(tmp_path):
    launch = Launch("debug", init_from="/elsewhere", freeze=("denoiser", "tokenizer"))
    prepare(tmp_path, CONFIG, launch)
    assert read_config(tmp_path) == CONFIG
    assert read_launch(tmp_path) == launch


def test_a_folder_of_another_config_is_refused_with_the_fields_that_differ(tmp_path):
    begun(tmp_path)
    other = replaced(CONFIG, denoiser={"layers": 5}, replay={"recent_share": 0.5})
    with pytest.raises(UsageError) as refused:
        prepare(tmp_path, replace(other, seed=3), LAUNCH)
    said = str(refused.value)
    assert "denoiser.layers: 2 -> 5, replay.recent_share: 0.3 -> 0.5, seed: 0 -> 3" in said
    assert read_config(tmp_path) == CONFIG


def test_a_config_that_could_not_be_read_back_is_refused_at_the_start(tmp_path):
    with pytest.raises(UsageError, match=r"env\.step_timeout"):
        prepare(tmp_path, replaced(CONFIG, env={"step_timeout": float("inf")}), LAUNCH)
    assert not list(tmp_path.iterdir())


def test_a_folder_of_another_origin_is_refused(tmp_path):
    begun(tmp_path)
    with pytest.raises(UsageError, match="offline: None -> /data"):
        prepare(tmp_path, CONFIG, Launch("debug", offline="/data"))


def test_a_start_that_finished_no_epoch_claims_nothing(tmp_path):
    prepare(tmp_path, CONFIG, LAUNCH)
    (tmp_path / "replay").mkdir()
    (tmp_path / "replay" / "dataset.json").write_text("of another shape")
    other, launch = replaced(CONFIG, env={"size": 16}), Launch("debug", offline="/data")
    prepare(tmp_path, other, launch)
    assert read_config(tmp_path) == other and read_launch(tmp_path) == launch
    assert not (tmp_path / "replay").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_claim_on_a_folder_that_holds_no_run_leaves_it_as_it_was(there, tmp_path):
    folder = tmp_path / "thesis"
    if there:
        folder.mkdir()
        (folder / "thesis.tex").write_text("important")
    with pytest.raises(UsageError, match="no such"), claimed(folder):
        raise UsageError("no such thing")
    assert [x.name for x in folder.rglob("*")] == (["thesis.tex"] if there else [])
    assert folder.exists() == there


def test_how_long_and_where_to_train_may_change(tmp_path):
    prepare(tmp_path, CONFIG, LAUNCH)
    longer = replaced(CONFIG, training={"epochs": 99, "evaluate_every": 7}, runtime={"threads": 2})
    prepare(tmp_path, longer, LAUNCH)
    assert read_config(tmp_path) == longer


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(UsageError, match=r"holds no run \(thesis.tex\)"):
        prepare(tmp_path, CONFIG, LAUNCH)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_damaged_config_is_one_line(tmp_path):
    prepare(tmp_path, CONFIG, LAUNCH)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UsageError, match=r"config.json is damaged"):
        prepare(tmp_path, CONFIG, LAUNCH)


def _claim(folder, answer):
    try:
        with claimed(folder):
            answer.put("claimed")
    except UsageError as error:
        answer.put(str(error))


def test_a_second_process_is_refused_and_may_come_after_the_first(tmp_path):
    context = multiprocessing.get_context("fork")
    answer = context.Queue()

    def other():
        process = context.Process(target=_claim, args=(tmp_path, answer))
        process.start()
        said = answer.get(timeout=20)
        process.join()
        return said

    with claimed(tmp_path):
        assert "is training in" in other()
    assert other() == "claimed"


def test_metrics_of_epochs_that_come_again_are_forgotten_and_half_a_line_too(tmp_path):
    lines = [json.dumps({"epoch": n, "env/return": n / 2}) for n in range(5)]
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join(lines) + '\n{"epoch": 5, "env/')
    rewind_metrics(tmp_path, 3)
    assert path.read_text().splitlines() == lines[:3]
