"""The quality study on a toy agent: finite, exact, resumable, sharded; bad input in one line."""

import csv
import json
import math
import shutil

import numpy as np
import pytest
import torch
from quality_setting import CPU, SMALL, Counted, laboratory, record, untrained

from horizon_imagination.cli import main
from horizon_imagination.data import Store
from horizon_imagination.metrics.frechet import frechet_distance
from horizon_imagination.pretrained.cache import is_installed
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.studies.quality import page
from horizon_imagination.studies.quality.grid import REFERENCES, Grid, GridPoint, Shard
from horizon_imagination.studies.quality.laboratory import measure_points
from horizon_imagination.studies.quality.records import finished, load_features, read_lines
from horizon_imagination.studies.quality.videos import (
    generate,
    sample_scenes,
    stretches,
    weights_identity,
)

POINTS = 2 + 2 * 3 + 2 + 3  # baselines, Horizon, Pyramidal, full sequence


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return record(tmp_path_factory.mktemp("quality") / "catch")


@pytest.fixture(scope="module")
def complete(data, tmp_path_factory):
    """A finished study: its folder and its laboratory."""
    folder = tmp_path_factory.mktemp("complete")
    made = laboratory(data, Counted().extractor)
    measure_points(made, folder, Shard(), lambda line: None)
    return folder, made


def numbers(folder, key):
    """What was measured, without times."""
    lines = finished(folder, key)
    return {point: (line["truth"], line["reconstruction"]) for point, line in lines.items()}


def test_the_grid_leaves_out_what_cannot_be():
    points = SMALL.points()
    assert len(points) == len(set(points)) == POINTS
    assert GridPoint("horizon", 3, 2.0) in points and GridPoint("full", 3) in points
    assert not [p for p in points if p.decay_horizon == 32], "above the horizon"
    assert {p.budget for p in points if p.kind == "pyramidal"} == {6, 12}
    assert len(Grid().points()) == 2 + 36 + 4 + 6, "the paper's"


def test_parts_of_the_grid_are_disjoint_complete_and_of_similar_cost():
    grid = Grid()
    parts = [Shard(i, 4).of(grid.points()) for i in range(1, 5)]
    assert sorted(p for part in parts for p in part) == sorted(grid.points())
    costs = [sum(p.evaluations(32, 1)[0] for p in part) for part in parts]
    assert max(costs) < 2 * min(costs)
    assert len({Shard(i, 4).file for i in range(1, 5)}) == 4


def test_segments_lie_whole_inside_episodes_and_carry_their_actions(data):
    store = Store.open(data)
    assert len(stretches(store, 7)) == 2 * len(store.starts)
    scenes = sample_scenes(untrained(), store, videos=16, horizon=6, context=1, seed=0)
    frames = torch.from_numpy(np.array(store.frames))
    marks, places = np.zeros(store.num_frames), []
    marks[store.starts] = 1
    for video, actions in zip(scenes.frames, scenes.actions, strict=True):
        heads = (frames[:-6] == video[0]).flatten(1).all(1).nonzero().flatten().tolist()
        found = [
            i
            for i in heads
            if torch.equal(frames[i : i + 7], video)
            and actions.tolist() == store.action[i : i + 6].tolist()
        ]
        assert found and not marks[found[0] + 1 : found[0] + 7].any()
        places.append(found[0])
    assert torch.equal(scenes.truth, scenes.frames[:, 1:])
    again = sample_scenes(untrained(), store, videos=16, horizon=6, context=1, seed=0)
    other = sample_scenes(untrained(), store, videos=16, horizon=6, context=1, seed=1)
    assert again.identity() == scenes.identity() != other.identity()
    assert torch.equal(again.noise, scenes.noise) and not torch.equal(other.noise, scenes.noise)


def test_every_point_is_finite_and_says_what_it_cost(complete):
    folder, made = complete
    lines = finished(folder, made.key)
    assert len(lines) == POINTS
    for point, line in lines.items():
        for reference in REFERENCES:
            found = line[reference]
            assert math.isfinite(found["fvd"]) and found["fvd"] >= 0
            assert 0 <= found["mse"] <= 1 and -1 <= found["ssim"] <= 1
            assert len(found["mse_by_frame"]) == 6 and len(found["mse_by_video"]) == 16
            for part in ("mse_by_frame", "mse_by_video"):
                assert np.mean(found[part]) == pytest.approx(found["mse"], rel=1e-5)
        assert line["broken"] == 0 and line["settings"]["segments"] == 16
        if point.budget:
            assert line["latency"] > 0
            assert point.budget <= line["frame_evaluations"] <= line["frame_evaluations_plain"]
            assert line["frame_evaluations_plain"] == 7 * point.budget


def test_baselines_are_what_they_say(complete):
    folder, made = complete
    lines = finished(folder, made.key)
    kept = lines[GridPoint("reconstruction")]
    assert kept["reconstruction"]["mse"] == 0 and kept["reconstruction"]["fvd"] < 1e-6
    assert kept["truth"]["mse"] > 0
    held = lines[GridPoint("frozen")]["truth"]
    real = made.scenes.frames.float() / 255
    by_hand = (real[:, 1:] - real[:, :1]).square().mean(dim=(0, 2, 3, 4))
    assert held["mse_by_frame"] == pytest.approx(by_hand.tolist(), rel=1e-4)


def test_the_stored_distance_is_that_of_the_stored_features(complete):
    folder, made = complete
    files = folder / "features" / made.key
    mine = load_features(files / "horizon-budget6-decay2.safetensors")
    truth = load_features(files / "truth.safetensors")
    line = finished(folder, made.key)[GridPoint("horizon", 6, 2.0)]
    assert line["truth"]["fvd"] == pytest.approx(frechet_distance(mine, truth), rel=1e-9)


def test_the_window_and_the_plain_loop_give_the_same_videos(data):
    made = laboratory(data)
    for point in [p for p in SMALL.points() if p.budget]:
        schedule = point.schedule(6)
        fast, slow = (
            generate(made.agent, made.scenes, schedule, batch=8, engine=engine).videos
            for engine in ("window", "plain")
        )
        assert (fast.int() - slow.int()).abs().max() <= 1, "rounding may tip a byte"
        assert (fast != slow).float().mean() < 1e-3
    assert fast.float().std() > 1, "there is something to see"


def test_actions_and_noise_matter_and_batches_do_not(data):
    made = laboratory(data)
    schedule = horizon_schedule(6, 6, 2)
    whole, parts = (generate(made.agent, made.scenes, schedule, batch=b).videos for b in (16, 5))
    assert (whole.int() - parts.int()).abs().max() <= 1
    for change in ("actions", "noise"):
        scenes = sample_scenes(
            made.agent, Store.open(data), videos=16, horizon=6, context=1, seed=0
        )
        getattr(scenes, change)[:, 0] = (getattr(scenes, change)[:, 0] + 1) % 3
        changed = generate(made.agent, scenes, schedule, batch=16).videos
        assert (changed != whole).any(), change


def test_a_restart_measures_no_point_twice(data, tmp_path):
    counted, said = Counted(), []
    made = laboratory(data, counted.extractor)
    measure_points(made, tmp_path, Shard(1, 3), said.append)
    assert "minutes left" in said[-1] and "points a minute" in said[-1]
    first = counted.calls
    with open(tmp_path / "points-1-of-3.jsonl", "a") as file:
        file.write('{"study": "half a li')
    again = laboratory(data, counted.extractor)
    measure_points(again, tmp_path, Shard(), said.append)
    assert len(finished(tmp_path, made.key)) == POINTS
    # References are kept in files; the reconstruction is a point and a reference at once.
    assert counted.calls == POINTS - 1 + 2, "every set of videos was seen once"
    assert 0 < first < counted.calls
    assert measure_points(again, tmp_path, Shard(), said.append) == []
    assert measure_points(again, tmp_path, Shard(1, 3), said.append) == []
    assert counted.calls == POINTS + 1


def test_after_a_half_line_new_lines_still_count(data, tmp_path):
    (tmp_path / "points.jsonl").write_text('{"study": "half a li')
    made = laboratory(data, grid=Grid(horizon=6, budgets=(3,), kinds=("full",)))
    measure_points(made, tmp_path, Shard(), lambda line: None)
    assert len(finished(tmp_path, made.key)) == len(read_lines(tmp_path)) == 3


def test_parts_give_the_same_numbers_as_the_whole(complete, data, tmp_path):
    folder, made = complete
    for index in (2, 1):
        part = laboratory(data, Counted().extractor)
        measure_points(part, tmp_path, Shard(index, 2), lambda line: None)
    assert part.key == made.key
    assert numbers(tmp_path, part.key) == numbers(folder, made.key)


def test_other_weights_segments_or_noise_are_another_study(data):
    made = laboratory(data)
    assert laboratory(data).key == made.key
    keys = {laboratory(data, **x).key for x in ({"seed": 1}, {"segments": 15}, {"batch": 7})}
    assert len(keys | {made.key}) == 4
    before = weights_identity(made.agent)
    with torch.no_grad():
        next(made.agent.actor.parameters()).add_(1)
        assert weights_identity(made.agent) == before, "the policy plays no part"
        next(made.agent.imagination_denoiser.parameters()).add_(1)
        assert weights_identity(made.agent) != before


def test_the_report_has_all_files_and_can_be_written_again_from_the_folder_alone(
    complete, tmp_path, capsys
):
    folder = tmp_path / "copy"
    shutil.copytree(complete[0], folder)
    assert main(["study", "quality", str(folder), "--resamples", "10", "--json"]) == 0
    said = capsys.readouterr().out
    verdicts = json.loads(said.splitlines()[-1])["verdicts"]
    assert set(verdicts) == {"truth", "reconstruction"} and len(verdicts["truth"]) == 5
    assert (folder / "quality.txt").read_text().strip() in said
    rows = list(csv.DictReader((folder / "quality.csv").open()))
    assert len(rows) == POINTS == len((folder / "quality.jsonl").read_text().splitlines())
    generated = [row for row in rows if row["budget"] != "0"]
    assert all(float(r["truth_fvd_low"]) < float(r["truth_fvd_high"]) for r in generated)
    for name in ("quality", "quality-reconstruction", "pareto", "frames"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{name}.svg").read_text()
    assert not [p for p in folder.rglob("*") if "tmp" in p.name], "no drafts are left"


def test_numbers_that_are_not_finite_are_counted_and_said(data, tmp_path):
    made = laboratory(data, grid=Grid(horizon=6, budgets=(3,), kinds=("full",)))
    with torch.no_grad():
        next(iter(made.agent.imagination_denoiser.parameters())).fill_(float("nan"))
    said = []
    lines = measure_points(made, tmp_path, Shard(), said.append)
    assert lines[-1]["broken"] == 16 and "16 videos NOT FINITE" in said[-1]
    assert "not finite: full, budget 3 (16)" in page.write(tmp_path, None, 0, print)[0]


@pytest.fixture
def agent_folder(tmp_path):
    untrained().save(tmp_path / "agent")
    return tmp_path / "agent"


def test_the_command_without_features_writes_errors_alone(agent_folder, data, tmp_path, capsys):
    line = f"{agent_folder} --data {data} --features none --smoke --device cpu --lpips off"
    line += f" --resamples 5 --out {tmp_path / 'out'}"
    assert main(["study", "quality", *line.split(), "--json"]) == 0
    said = capsys.readouterr()
    assert "MSE only" in said.out and '"no data"' in said.out.splitlines()[-1]
    assert "FVD" not in said.err and (tmp_path / "out" / "pareto.png").is_file()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--horizon 8", "--horizon 7 or less"),
        ("--segments 500", "only 48 segments of 7 frames"),
        ("--segments 4", "at least 8"),
        ("--shard 3/2", "expected i/n"),
        ("--shard two", "expected i/n"),
        ("--decay-horizons 7 8", "no decay horizon fits"),
        ("--budgets 0 4", "at least 1"),
        ("--batch 0", "batch must be at least 1"),
        ("--resamples -1", "expected 0 or more"),
        ("--features nowhere.safetensors", "expected i3d, none or a file"),
        ("--kinds spiral", "invalid choice"),
        ("--device abacus", "not a device"),
    ],
)
def test_bad_input_is_one_line(words, expected, agent_folder, data, capsys):
    line = f"{agent_folder} --data {data} --device cpu --features none --lpips off --segments 16"
    assert main(["study", "quality", *line.split(), *words.split()]) == 2
    said = capsys.readouterr().err
    assert expected in said and len(said.strip().splitlines()) == 1


def test_missing_weights_name_the_command_that_gets_them(agent_folder, data, monkeypatch, capsys):
    monkeypatch.setenv("HORIZON_CACHE", str(agent_folder / "empty"))
    line = f"{agent_folder} --data {data} --device cpu --segments 16"
    assert main(["study", "quality", *line.split()]) == 2
    assert "horizon weights get i3d" in capsys.readouterr().err


def test_data_of_another_world_is_refused(agent_folder, tmp_path, capsys):
    other = record(tmp_path / "large", episodes=2, size=64)
    line = f"{agent_folder} --data {other} --device cpu --features none --lpips off"
    assert main(["study", "quality", *line.split()]) == 2
    assert "the agent was trained on 32 x 32 x 3" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("i3d"), reason="needs: horizon weights get i3d")
def test_a_run_trained_for_seconds_is_studied_with_the_real_network(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "--preset", "debug", "--training.epochs", "3", "--out", str(run)]) == 0
    line = f"{run} --smoke --kinds full --lpips off --resamples 5 --device {CPU}"
    assert main(["study", "quality", *line.split()]) == 0
    said = capsys.readouterr().out
    assert "I3D needs 9 frames" in said
    lines = read_lines(run / "studies" / "quality")
    assert len(lines) == 2 + 2 and lines[0]["settings"]["features"] == "i3d"
    assert all(math.isfinite(line["truth"]["fvd"]) for line in lines)
