"""The page of a run says what the run's files say, at any stage, and needs nothing else."""

import base64
import dataclasses
import json
import re
import shutil
import sys
from datetime import date

import numpy as np
import pytest

from horizon_imagination.cli import report as report_command
from horizon_imagination.config import Config, TrainingConfig
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import CATCH, replaced
from horizon_imagination.provenance import commit, machine
from horizon_imagination.report import page
from horizon_imagination.report.charts import compare_charts, evaluated, learning_charts
from horizon_imagination.report.curves import Chart, Line, as_svg, figure
from horizon_imagination.report.run_page import key_numbers, run_report
from horizon_imagination.run.read import Run, load_run
from horizon_imagination.snapshots import find_agent


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
    page = run_report(load_run(run), device="cpu")
    assert "holds no snapshot yet" in page
    assert "0 of 3" in page and "Not at its last epoch" in page


def test_a_run_that_came_without_its_weights_shows_the_strips_of_its_training(run):
    shutil.rmtree(run / "checkpoints")
    videos = run / "videos"
    shutil.rmtree(videos, ignore_errors=True)
    videos.mkdir()
    assert "data:image/png" not in run_report(load_run(run), device="cpu")
    for epoch in (2, 3):
        (videos / f"epoch-{epoch:06d}.png").write_bytes(b"strip %d" % epoch)
    page = run_report(load_run(run), device="cpu")
    shown = {n: page.index(base64.b64encode(b"strip %d" % n).decode()) for n in (2, 3)}
    folded = page.index("Film strips written during training")
    assert "holds no snapshot yet" in page
    assert shown[3] < folded < shown[2], "the newest one is open, the others are folded below it"


def test_a_line_that_is_being_written_does_not_count(run):
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 3, "env/ret')
    assert load_run(run).epochs == 3


def test_a_repeated_epoch_replaces_the_one_before(run):
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"epoch": 2, "env/steps": 7, "env/return": 0.5}) + "\n")
    record = load_run(run)
    assert record.epochs == 3 and record.latest("env/return") == 0.5


def test_the_evaluation_stands_between_random_and_best(run, evaluation):
    folder = run / "evaluations"
    folder.mkdir()
    (folder / "latest.json").write_text(evaluation)
    found = dict((label.split(",")[0], value) for value, label in key_numbers(load_run(run)))
    assert found["random return"] == "-0.75" and found["best return"] == "1"
    assert found["agent"] == "0.5"
    interval, episodes = evaluated(load_run(run)) or pytest.fail("no evaluation was read")
    assert episodes == 4 and -1 <= interval.low < 0.5 < interval.high <= 1
    (folder / "broken.json").write_text("{")
    with pytest.raises(UsageError, match=r"broken\.json is damaged"):
        load_run(run)


def test_series_leave_out_what_is_not_finite(run):
    (run / "metrics.jsonl").write_text(
        '{"epoch": 0, "env/steps": 10, "env/return": 1.0}\n'
        '{"epoch": 1, "env/steps": 20, "env/return": NaN}\n'
        '{"epoch": 2, "env/steps": 30, "time/collect": 2.0}\n'
        '{"epoch": 3, "env/steps": 40, "env/return": 3.0, "time/collect": 1.5}\n'
    )
    record = load_run(run)
    steps, returns = record.series("env/return")
    assert steps.tolist() == [10, 40] and returns.tolist() == [1, 3]
    assert record.stage_seconds() == {"collect": 3.5}


def test_several_runs_are_drawn_over_one_another(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    arguments = [str(run), str(other), "--out", str(tmp_path / "both.html"), "--device", "cpu"]
    assert report_command.main(arguments) == 0
    page = (tmp_path / "both.html").read_text()
    assert outside(page) == [] and "2 runs" in page
    chart = compare_charts([load_run(run), load_run(other)])[0]
    assert [line.label for line in chart.lines] == ["tiny", "other"]
    assert chart.levels == {"random": -0.75, "best": 1.0}


def test_real_and_imagined_rewards_share_a_chart_and_a_scale(run):
    def chart():
        charts = learning_charts(load_run(run))
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
    x = np.arange(5.0)
    chart = Chart("a title", [Line("a", x, x**2), Line("b", x, x)], levels={"best": 4.0})
    svg = as_svg(figure(chart))
    assert svg.startswith("<svg") and "currentColor" in svg and "#123457" not in svg
    assert svg == as_svg(figure(chart))


@pytest.mark.parametrize(
    "command,missing",
    [
        (report_command.main, "is no run; expected a folder"),
        (report_command.strip_main, "holds no snapshot yet; train first"),
    ],
)
def test_what_is_no_run_is_said_in_one_line(command, missing, tmp_path, run):
    with pytest.raises(UsageError, match=missing):
        command([str(tmp_path)])
    with pytest.raises(UsageError, match="does not exist"):
        command([str(tmp_path / "nowhere")])
    with pytest.raises(UsageError, match="expected at least 1"):
        command([str(run), "--examples", "0"])


def test_strips_of_schedules_and_of_samplers_by_command(run, capsys):
    assert report_command.strip_main([str(run), "--device", "cpu"]) == 0
    assert (run / "videos" / "strips.png").is_file()
    out = run / "schedules.png"
    options = ["--budgets", "3", "5", "--decay-horizons", "1", "2", "--out", str(out)]
    assert (
        report_command.strip_main([str(run), "--device", "cpu", "--examples", "1", *options]) == 0
    )
    assert out.is_file() and str(out) in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"ends in \.png"):
        report_command.strip_main([str(run), "--out", "strip.jpg"])
    with pytest.raises(UsageError, match="decay_horizon must lie in"):
        report_command.strip_main([str(run), "--decay-horizons", "50"])


def test_every_page_says_when_where_and_by_what_it_was_made_and_the_run_was_trained(run):
    session = {"epoch": 0, "version": "9.9", "commit": "a" * 40, "date": "2020-02-20"}
    (run / "sessions.jsonl").write_text(json.dumps(session | {"machine": "a slide rule"}) + "\n")
    text = run_report(load_run(run), device="cpu", examples=1)
    footer = text[text.index("<footer>") :]
    assert date.today().isoformat() in footer and machine() in footer
    assert (commit() or "")[:10] in footer
    trained = "Trained by horizon_imagination 9.9, commit aaaaaaaaaa, 2020-02-20, a slide rule."
    assert trained in text


def test_random_play_is_the_baseline_of_a_world_that_nothing_is_known_of(tmp_path):
    config = replaced(CATCH, env={"id": "Own/World-v0"})
    first = config.controller.learner.first_epoch
    metrics = [
        {"epoch": 0, "env/steps": 10, "env/return": 1.0, "env/episodes": 30.0},
        {"epoch": first, "env/steps": 20, "env/return": 5.0, "env/episodes": 10.0},
        {"epoch": first + 1, "env/steps": 30, "env/return": 90.0, "env/episodes": 10.0},
    ]
    own = Run(tmp_path, config, history=metrics)
    assert own.random_play() == (2.0, 40)
    assert learning_charts(own)[0].levels == {"random": 2.0}
    value, label = key_numbers(own)[0]
    assert value == "2" and label == "random return\n40 episodes at the start"


def test_bars_grow_rightwards():
    text = page.table(["stage", "share", ""], [["collect", "50%", page.bar(0.5)]])
    assert '<td class="n">50%</td><td><span class="bar"' in text


def test_the_buttons_of_a_film_are_below_it():
    text = page.page("a film", [page.film("data:video/mp4;base64,")])
    video, rest = text.split("</video>")
    assert " controls" not in video[video.index("<video") :]
    assert rest.index('class="controls"') < rest.index("<script>")


def test_the_text_of_charts_has_twelve_pixels_in_the_narrowest_column():
    x = np.arange(1.0, 50.0)
    lines = [Line("a", x, 10 ** (x / 10)), Line("b", x, x)]
    for logarithmic in (False, True):
        svg = as_svg(figure(Chart("title", lines, logarithmic=logarithmic, levels={"best": 4.0})))
        width = float(re.findall(r'viewBox="0 0 ([\d.]+) ', svg)[0])
        sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg)]
        assert sizes and min(sizes) * 314 / width >= 12, "330 pixels, less the border of a chart"


def test_out_is_a_folder_or_a_page_for_runs(run, tmp_path):
    before = sorted(x.name for x in run.rglob("*"))
    options = ["--device", "cpu", "--examples", "1", "--out"]
    assert report_command.main([str(run), *options, str(tmp_path / "there")]) == 0
    assert (tmp_path / "there/report.html").is_file()
    assert (tmp_path / "there/videos/imagined.png").is_file()
    assert sorted(x.name for x in run.rglob("*")) == before, "nothing is written into the run"
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write to the folder .* --out"):
        report_command.main([str(run), *options, str(tmp_path / "file/there")])


def test_without_pillow_the_page_is_made_without_pictures(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    page = run_report(load_run(run), device="cpu", examples=1)
    assert "pictures need pillow" in page and "<svg" in page


def test_a_run_that_reached_its_target_is_finished_before_its_last_epoch(tmp_path):
    config = dataclasses.replace(Config(), training=TrainingConfig(epochs=9, target_return=0.5))
    for score, finished in ((0.4, False), (0.5, True)):
        metrics = [{"epoch": 0, "evaluation/return": score}]
        record = Run(tmp_path, config, None, None, metrics, [])
        assert record.finished is finished


def test_strips_of_an_agent_without_its_run_need_a_dataset(trained, dataset, tmp_path):
    copied = tmp_path / "agent"
    shutil.copytree(find_agent(trained), copied)
    words = [str(copied), "--device", "cpu", "--examples", "1", "--out", str(tmp_path / "s.png")]
    assert report_command.strip_main([*words, "--data", str(dataset)]) == 0
    assert (tmp_path / "s.png").exists()
    with pytest.raises(UsageError, match=r"is an agent without a run.*--data"):
        report_command.strip_main(words)


def test_a_name_without_an_agent_leaves_no_folder(dataset, tmp_path):
    odd, words = tmp_path / "odd.safetensors", ["--data", str(dataset)]
    odd.write_bytes(b"")
    for path, expected in ((odd, "holds no agent"), (tmp_path / "nowhere", "does not exist")):
        with pytest.raises(UsageError, match=expected):
            report_command.strip_main([str(path), *words])
    assert list(tmp_path.iterdir()) == [odd]
