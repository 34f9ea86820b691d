"""Suites: scores, comparisons and verdicts by hand; pages of unfinished and published ones."""

import dataclasses
import html
import json
import shutil

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from horizon_imagination.cli import report as report_command
from horizon_imagination.errors import UsageError
from horizon_imagination.metrics.published import Curve
from horizon_imagination.report import page
from horizon_imagination.report.claims import BOXING, CHOP, GOPHER, claims, compare, told
from horizon_imagination.report.curves import mean_line
from horizon_imagination.report.suite import (
    SuiteResults,
    SuiteRun,
    published_suite,
    read_suite,
    scores_csv,
)
from horizon_imagination.report.suite_page import (
    repeats_paper,
    suite_charts,
    suite_figure,
    write_suite_report,
)


def flat_run(env, setting, seed, level, steps=1000, seconds=None) -> SuiteRun:
    """A run whose return never changes."""
    points = np.arange(100, steps + 1, 100)
    return SuiteRun(
        env, setting, seed, Curve(points, np.full(len(points), float(level))), 1000, 64, seconds
    )


def flat_suite(levels: dict[tuple[str, str], list[float]], seconds=None) -> SuiteResults:
    runs = [
        flat_run(env, setting, seed, level, seconds=(seconds or {}).get(setting))
        for (env, setting), found in levels.items()
        for seed, level in enumerate(found)
    ]
    return SuiteResults("flat", runs, len(runs))


def verdicts(suite: SuiteResults) -> list[str]:
    return [claim.verdict for claim in claims(suite, resamples=50)]


def test_a_score_is_the_mean_of_the_last_tenth():
    curve = Curve(np.array([10, 50, 91, 100]), np.array([9.0, 9.0, 2.0, 4.0]))
    run = SuiteRun("catch", "ar", 0, curve, 100, 64)
    assert run.score() == 3.0
    assert run.score(50) == 9.0
    assert run.score(89) == 9.0, "no episode ended in the last tenth: the latest before counts"
    assert run.score(5) is None


def test_a_run_that_broke_off_does_not_hold_up_the_others():
    runs = [flat_run("catch", "ar", seed, 1.0) for seed in range(4)]
    suite = SuiteResults("s", [*runs, flat_run("catch", "ar", 4, -1.0, steps=200)], 5)
    assert suite.common_step("catch", ["ar"]) == 1000
    assert suite.scores("catch", "ar") == dict.fromkeys(range(4), 1.0)
    assert suite.scores("catch", "ar", 200)[4] == -1.0


def test_one_world_is_compared_in_its_own_returns():
    suite = flat_suite({("catch", "a"): [1, 1, 1], ("catch", "b"): [0, 0, 0]})
    found = compare(suite, "a", "b", resamples=50)
    assert found is not None and found.unit == "return" and found.runs == 3
    assert found.difference.estimate == found.difference.low == 1.0
    assert found.improvement.estimate == 1.0
    assert compare(suite, "a", "missing", resamples=50) is None


def test_several_worlds_are_compared_between_random_and_human_or_best():
    levels = {("catch", "a"): [1.0] * 4, (BOXING, "a"): [12.1] * 4}
    levels |= {("catch", "b"): [-0.75] * 4, (BOXING, "b"): [0.1] * 4}
    found = compare(flat_suite(levels), "a", "b", resamples=50)
    assert found is not None and found.unit == "scaled score"
    assert found.difference.estimate == pytest.approx(1.0)


def test_verdicts_follow_the_intervals():
    good, bad = [50.0, 51, 52, 53], [1.0, 2, 3, 4]
    held = {(BOXING, "hi-4-16"): good, (BOXING, "ar"): bad, (BOXING, "naive-4-16"): bad}
    held |= {(GOPHER, "hi-4-16"): bad, (GOPHER, "naive-4-16"): good}
    held |= {(CHOP, "hi-4-32"): good, (CHOP, "hi-4-16"): good, (CHOP, "ar"): bad}
    assert verdicts(flat_suite(held)) == [
        "supported",
        "not contradicted",
        "supported",
        "contradicted",
        "no data",
    ]
    few = flat_suite({key: scores[:2] for key, scores in held.items()})
    assert verdicts(few)[:4] == ["too few runs"] * 4
    assert verdicts(flat_suite({("catch", "other"): good})) == ["no data"] * 5


def test_a_loss_in_one_world_is_named_though_the_mean_holds():
    levels = {(BOXING, "hi-4-16"): [90.0, 91, 92], (BOXING, "ar"): [1.0, 2, 3]}
    levels |= {(GOPHER, "hi-4-16"): [300.0, 301, 302], (GOPHER, "ar"): [900.0, 901, 902]}
    assert f"below ar on {GOPHER}" in claims(flat_suite(levels), resamples=50)[0].numbers


def test_hours_are_compared_per_step():
    levels = {("catch", "ar"): [0.0], ("catch", "hi-4-16"): [0.0]}
    suite = flat_suite(levels, seconds={"ar": 54.0, "hi-4-16": 36.0})
    claim = claims(suite)[-1]
    assert claim.verdict == "supported" and "ar / hi-4-16 1.50" in claim.numbers


def test_the_mean_of_seeds_does_not_jump_where_one_has_its_last_episode():
    early, late = flat_run("catch", "a", 0, 0.0, steps=900), flat_run("catch", "a", 1, 1.0)
    line = mean_line([early.curve, late.curve], "a", "black", 15)
    assert np.allclose(line.y, 0.5) and line.x[-1] == 1000
    assert line.deviation is not None and np.allclose(line.deviation, 0.5**0.5), "the sample's"
    broken = flat_run("catch", "a", 2, 5.0, steps=300)
    assert mean_line([early.curve, late.curve, broken.curve], "a", "black", 15).y[-1] == 0.5


def test_a_short_suite_is_drawn_and_compared_with_what_was_published_by_then(tmp_path):
    steps, returns = np.array([3_000, 9_000, 16_000]), np.array([9_000.0, 11_000.0, 30_000.0])
    env = "ALE/CrazyClimber-v5"
    run = SuiteRun(env, "hi-4-16", 0, Curve(steps, returns), 16_000, 64)
    suite = SuiteResults("short", [run], 1)
    published, ours = suite_charts(suite, published_suite())[0].lines
    seen = [r.until(16_000).curve.returns.max() for r in published_suite().of(env, "hi-4-16")]
    assert published.y.max() <= np.mean(seen) < 20_000, "later episodes earned up to 100,000"
    assert published.deviation is not None, "the band of their seeds shows where one run of ours is"
    assert ours.y[-1] == 30_000, "three episodes are too few to be smoothed"
    write_suite_report(suite, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "20,500 (1 seeds)" in page, "episodes of the last 10,000 steps, as the published runs"


def test_published_runs_say_what_the_paper_says():
    found = published_suite()
    assert len(found.envs()) == 8 and len(found.runs) == 200
    assert [claim.verdict for claim in claims(found, resamples=200)] == [
        "not contradicted",
        "supported",
        "supported",
        "supported",
        "no data",
    ]
    costs = {run.setting: run.frames_per_imagination for run in found.runs}
    assert costs["ar"] == 64 and costs["hi-4-16"] == 120 and costs["hi-4-32"] == 181


@pytest.fixture
def suite_folder(run_folder, tmp_path):
    """Two settings that have begun, one that has not, in a world of the paper and another."""
    runs = []
    for env in ("catch", BOXING):
        for setting in ("ar", "hi-4-16"):
            for seed in range(2):
                name = f"{env.replace('/', '-')}-{setting}-{seed}"
                shutil.copytree(run_folder, tmp_path / "suite" / name)
                entry = {"name": name, "env": env, "config": setting, "seed": seed}
                runs.append(entry | {"folder": name})
    runs.append({"name": "x", "env": "catch", "config": "ar", "seed": 2, "folder": "not-yet"})
    description = {"name": "two settings", "runs": runs}
    (tmp_path / "suite" / "suite.json").write_text(json.dumps(description))
    return tmp_path / "suite"


def test_an_unfinished_suite_has_a_report_with_figures_and_scores(suite_folder):
    assert report_command.main([str(suite_folder)]) == 0
    page = (suite_folder / "report.html").read_text()
    assert "8 of 9 runs have begun" in page and "too few runs" in page
    assert (suite_folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (suite_folder / "curves.svg").read_text()
    lines = (suite_folder / "scores.csv").read_text().splitlines()
    assert len(lines) == 1 + 8 and lines[0].startswith("source,env,setting,seed,final_return")


def test_published_curves_lie_below_ours_up_to_the_same_step(suite_folder):
    suite = read_suite(suite_folder)
    assert suite.expected == 9
    runs = [run if run.env != BOXING else flat_run(BOXING, run.setting, run.seed, 1.0, 20_000)
            for run in suite.runs]  # fmt: skip
    charts = suite_charts(SuiteResults("s", runs, 8), published_suite())
    boxing = next(chart for chart in charts if chart.title == BOXING)
    assert [line.label for line in boxing.lines][:2] == ["ar, published", "ar"]
    assert boxing.lines[0].deviation is None, "two seeds of ours have a band of their own"
    assert max(boxing.lines[0].x) <= 20_000 and boxing.lines[0].style == ":"
    assert boxing.levels == {"random": 0.1, "human": 12.1}
    assert [line.label for line in charts[0].lines] == ["ar", "hi-4-16"]


def test_every_run_has_a_line_of_scores():
    text = scores_csv([flat_suite({("catch", "a"): [0.25]}, seconds={"a": 12.5})])
    assert text.splitlines()[1] == "flat,catch,a,0,0.25,1000,1000,12.5,64,"


def test_bad_suites_are_refused_in_one_line(suite_folder, tmp_path):
    with pytest.raises(UsageError, match="name at least one run or suite"):
        report_command.main([])
    with pytest.raises(UsageError, match="reported alone"):
        report_command.main([str(suite_folder), str(tmp_path)])
    for name in ("config.json", "metrics.jsonl"):
        for path in suite_folder.glob(f"*/{name}"):
            path.unlink()
    with pytest.raises(UsageError, match="no finished episode yet"):
        report_command.main([str(suite_folder)])
    (suite_folder / "suite.json").write_text('{"runs": [{"env": 3}]}')
    with pytest.raises(UsageError, match=r"runs\[0\]\.seed is missing"):
        read_suite(suite_folder)


def test_the_legend_of_a_single_world_stays_inside_its_figure():
    settings = ["hi-2-3", "naive-2-3", "naive-held-2-3", "coupled-2-3"]
    suite = flat_suite({("catch", name): [0.0, 0.1] for name in settings})
    figure = suite_figure(suite_charts(suite))
    FigureCanvasAgg(figure).draw()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width


def test_the_first_panel_of_a_line_says_what_its_axis_is():
    found = {(name, "a"): [0.0, 1.0] for name in ("catch", "fog", BOXING, GOPHER, CHOP)}
    labels = [axes.get_ylabel() for axes in suite_figure(suite_charts(flat_suite(found))).axes]
    assert labels[:5] == ["training return", "", "", "", "training return"]


def test_an_own_suite_does_not_open_with_the_claims_of_the_paper(tmp_path):
    own = flat_suite({("Own/World-v0", name): [0.0, 1.0, 2.0] for name in ("mine", "yours")})
    write_suite_report(own, tmp_path / "own.html")
    text = (tmp_path / "own.html").read_text()
    assert "The paper's claims" not in html.unescape(text) and not repeats_paper(own)
    levels = {(BOXING, name): [1.0, 2.0, 3.0] for name in ("ar", "hi-4-16")}
    write_suite_report(flat_suite(levels), tmp_path / "paper.html")
    text = html.unescape((tmp_path / "paper.html").read_text())
    assert text.index("The paper's claims") < text.index("Learning curves")
    mixed = flat_suite(levels | {("Own/World-v0", "mine"): [0.0, 1.0, 2.0]})
    write_suite_report(mixed, tmp_path / "mixed.html")
    text = html.unescape((tmp_path / "mixed.html").read_text())
    assert text.index("The paper's claims") > text.index("Settings against one another")


@pytest.mark.parametrize("seeds, called", [(1, False), (2, False), (3, True)])
def test_intervals_of_fewer_than_three_seeds_are_not_called_95_percent(seeds, called, tmp_path):
    scores = [0.0, 1.0, 5.0][:seeds]
    suite = flat_suite({(BOXING, name): scores for name in ("ar", "hi-4-16")})
    found = compare(suite, "ar", "hi-4-16", resamples=50)
    assert found is not None and ("95 %" in told(found)) == called
    write_suite_report(suite, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert ('<th class="n">95 %</th>' in text) == called
    deviation = {1: None, 2: "0.5 ± 0.707", 3: "2 ± 2.65"}[seeds]
    assert deviation is None or deviation in text


def test_random_play_stands_below_the_scores_of_any_world(tmp_path):
    run = dataclasses.replace(flat_run("Own/World-v0", "mine", 0, 3.0), random_play=(1.5, 40))
    suite = SuiteResults("own", [run], 1)
    assert suite_charts(suite)[0].levels == {"random": 1.5}
    write_suite_report(suite, tmp_path / "report.html")
    assert "random play (40 episodes)" in (tmp_path / "report.html").read_text()


def test_out_is_a_folder_or_a_page_for_suites(suite_folder, tmp_path):
    assert report_command.main([str(suite_folder), "--out", str(tmp_path / "there")]) == 0
    assert (tmp_path / "there/report.html").is_file() and (tmp_path / "there/scores.csv").is_file()
    assert report_command.main([str(suite_folder), "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").is_file() and (tmp_path / "curves.png").is_file()
    assert not (suite_folder / "report.html").exists()


def test_the_scores_of_many_seeds_may_take_two_lines():
    """Else a table of five seeds is wider than the page."""
    cells = page.table(["setting", "per seed"], [["ar", "58,100, 75,700"], ["hi", "58,100"]])
    assert '<td class="n list">58,100, 75,700</td>' in cells and '<td class="n">58,100<' in cells
