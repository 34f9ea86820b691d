"""The page of a run says what the run's files say, at any stage, and needs nothing else."""

import base64
import dataclasses
import json
import re
import shutil
import sys

import pytest

from horizon_imagination.cli import report as report_command
from horizon_imagination.cli import strip as strip_command
from horizon_imagination.config import Config, TrainingConfig
from horizon_imagination.errors import UsageError
from horizon_imagination.report.charts import compare_charts, learning_charts
from horizon_imagination.report.curves import Chart, Line, as_svg, figure
from horizon_imagination.report.html import duration, key_numbers, run_report
from horizon_imagination.report.records import RunRecord, read_record


@pytest.fixture
def run(run_folder, tmp_path):
    """A copy to change."""
    return shutil.copytree(run_folder, tmp_path / "tiny")


def outside(page: str) -> list[str]:
    """Addresses a page would fetch; what it carries in itself begins with data: or #."""
    found = re.findall(r'(?:src|href)="([^"]*)"', page) + re.findall(r"url\(([^)]*)\)", page)
    return [address for address in found if not address.startswith(("data:", "#"))]


def test_the_page_of_a_run_carries_everything_in_itself(run):
    assert report_command.main([str(run), "--device", "cpu", "--examples", "1"]) == 0
    page = (run / "report.html").read_text()
    assert outside(page) == []
    assert page.count("<svg") >= 8
    assert page.count("data:image/png;base64,") >= 2
    for section in ("Learning", "Reconstructions", "Imagined futures", "Losses", "Time per stage"):
        assert f">{section}</h" in page
    assert "3 of 3" in page and "random return" in page and "best return" in page
    assert "Not at its last epoch" not in page
    assert (run / "videos" / "imagined.png").is_file()
    assert not list(run.rglob("*.tmp*"))


def test_a_run_that_has_just_begun_has_a_page_too(run):
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").unlink()
    page = run_report(read_record(run), device="cpu")
    assert "holds no snapshot yet" in page
    assert "0 of 3" in page and "Not at its last epoch" in page


def test_a_run_that_came_without_its_weights_shows_the_strips_of_its_training(run):
    shutil.rmtree(run / "checkpoints")
    videos = run / "videos"
    shutil.rmtree(videos, ignore_errors=True)
    videos.mkdir()
    assert "data:image/png" not in run_report(read_record(run), device="cpu")
    for epoch in (2, 3):
        (videos / f"epoch-{epoch:06d}.png").write_bytes(b"strip %d" % epoch)
    page = run_report(read_record(run), device="cpu")
    shown = {n: page.index(base64.b64encode(b"strip %d" % n).decode()) for n in (2, 3)}
    folded = page.index("Film strips written during training")
    assert "holds no snapshot yet" in page
    assert shown[3] < folded < shown[2], "the newest one is open, the others are folded below it"


def test_a_line_that_is_being_written_does_not_count(run):
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 3, "env/ret')
    assert read_record(run).epochs == 3


def test_a_repeated_epoch_replaces_the_one_before(run):
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"epoch": 2, "env/steps": 7, "env/return": 0.5}) + "\n")
    record = read_record(run)
    assert record.epochs == 3 and record.latest("env/return") == 0.5


def test_the_evaluation_stands_between_random_and_best(run, evaluation):
    folder = run / "evaluations"
    folder.mkdir()
    (folder / "latest.json").write_text(evaluation)
    (folder / "broken.json").write_text("{")
    found = dict((label.split(",")[0], value) for value, label in key_numbers(read_record(run)))
    assert found["random return"] == "-0.75" and found["best return"] == "1"
    assert found["agent"] == "0.5"
    interval, episodes = read_record(run).evaluated() or pytest.fail("no evaluation was read")
    assert episodes == 4 and -1 <= interval.low < 0.5 < interval.high <= 1


def test_series_leave_out_what_is_not_finite(run):
    (run / "metrics.jsonl").write_text(
        '{"epoch": 0, "env/steps": 10, "env/return": 1.0}\n'
        '{"epoch": 1, "env/steps": 20, "env/return": NaN}\n'
        '{"epoch": 2, "env/steps": 30, "time/collect": 2.0}\n'
        '{"epoch": 3, "env/steps": 40, "env/return": 3.0, "time/collect": 1.5}\n'
    )
    record = read_record(run)
    steps, returns = record.series("env/return")
    assert steps.tolist() == [10, 40] and returns.tolist() == [1, 3]
    assert record.stage_seconds() == {"collect": 3.5}


def test_several_runs_are_drawn_over_one_another(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    arguments = [str(run), str(other), "--out", str(tmp_path / "both.html"), "--device", "cpu"]
    assert report_command.main(arguments) == 0
    page = (tmp_path / "both.html").read_text()
    assert outside(page) == [] and "2 runs" in page
    chart = compare_charts([read_record(run), read_record(other)])[0]
    assert [line.label for line in chart.lines] == ["tiny", "other"]
    assert chart.levels == {"random": -0.75, "best": 1.0}


def test_real_and_imagined_rewards_share_a_chart_and_a_scale(run):
    def chart():
        charts = learning_charts(read_record(run))
        return next(c for c in charts if c.title.startswith("Reward per step"))

    assert [len(line.x) for line in chart().lines] == [3, 3]
    epoch = {
        "epoch": 0, "env/steps": 10, "env/return": 30.0, "env/length": 60.0,
        "controller/imagined_return": 16.0, "controller/imagined_length": 32.0,
    }  # fmt: skip
    unfinished = {"epoch": 1, "env/steps": 20, "env/return": 1.0, "env/length": 0.0}
    (run / "metrics.jsonl").write_text(f"{json.dumps(epoch)}\n{json.dumps(unfinished)}\n")
    assert [line.y.tolist() for line in chart().lines] == [[0.5], [0.5]]


def test_charts_take_the_ink_of_the_page_and_are_the_same_every_time():
    import numpy as np

    x = np.arange(5.0)
    chart = Chart("a title", [Line("a", x, x**2), Line("b", x, x)], levels={"best": 4.0})
    svg = as_svg(figure(chart))
    assert svg.startswith("<svg") and "currentColor" in svg and "#123457" not in svg
    assert svg == as_svg(figure(chart))


@pytest.mark.parametrize("command", [report_command, strip_command])
def test_what_is_no_run_is_said_in_one_line(command, tmp_path, run):
    with pytest.raises(UsageError, match="is no run: it has no config"):
        command.main([str(tmp_path)])
    with pytest.raises(UsageError, match="is no folder"):
        command.main([str(tmp_path / "nowhere")])
    with pytest.raises(UsageError, match="expected at least 1"):
        command.main([str(run), "--examples", "0"])


def test_strips_of_schedules_and_of_samplers_by_command(run, capsys):
    assert strip_command.main([str(run), "--device", "cpu"]) == 0
    assert (run / "videos" / "strips.png").is_file()
    out = run / "schedules.png"
    options = ["--budget", "3", "5", "--decay-horizon", "1", "2", "--out", str(out)]
    assert strip_command.main([str(run), "--device", "cpu", "--examples", "1", *options]) == 0
    assert out.is_file() and str(out) in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"ends in \.png"):
        strip_command.main([str(run), "--out", "strip.jpg"])
    with pytest.raises(UsageError, match="decay_horizon must lie in"):
        strip_command.main([str(run), "--decay-horizon", "50"])


def test_without_pillow_the_page_is_made_without_pictures(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    page = run_report(read_record(run), device="cpu", examples=1)
    assert "pictures need pillow" in page and "<svg" in page


def test_durations_are_said_as_people_do():
    assert [duration(x) for x in (0, 59.6, 3599, 3600, 100_000)] == [
        "0 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
        "27 h 46 min",
    ]


def test_a_run_that_reached_its_target_is_finished_before_its_last_epoch(tmp_path):
    config = dataclasses.replace(Config(), training=TrainingConfig(epochs=9, target_return=0.5))
    for score, finished in ((0.4, False), (0.5, True)):
        metrics = [{"epoch": 0, "evaluation/return": score}]
        record = RunRecord(tmp_path, config, None, None, metrics, [])
        assert record.finished is finished
