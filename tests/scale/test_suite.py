"""Suites: what they contain, how they are written, and what is refused."""

import json
from pathlib import Path

import pytest

from horizon_imagination.cli import main, train
from horizon_imagination.cli.parse import named, preset
from horizon_imagination.cli.train import Arguments
from horizon_imagination.errors import UsageError
from horizon_imagination.metrics.published import published_scores
from horizon_imagination.presets import replaced
from horizon_imagination.run.folder import read_config
from horizon_imagination.scale.builtin import BUILT_IN
from horizon_imagination.scale.execute import Task, execute, prepare_run
from horizon_imagination.scale.pools import LocalPool
from horizon_imagination.scale.suite import describe, from_plain, read_file, read_members, runs_of

SUITES = Path(__file__).parents[2] / "benchmarks" / "suites"
MINE = {
    "name": "mine",
    "seeds": [0, 3],
    "worlds": [{"env": "catch", "preset": "debug", "override": {"training.epochs": 2}}],
    "settings": [
        {"name": "ar", "override": {"imagination.budget": 6, "imagination.decay_horizon": 1}},
        {"name": "hi"},
    ],
}
AS_TOML = """
seeds = [0, 3]
settings = [
    {name = "ar", override = {"imagination.budget" = 6, "imagination.decay_horizon" = 1}},
    {name = "hi"},
]
[[worlds]]
env = "catch"
preset = "debug"
override = {"training.epochs" = 2}
"""


def changed(**fields):
    return from_plain(MINE | fields, "here")


def test_a_suite_is_every_setting_in_every_world_with_every_seed():
    worlds = [*MINE["worlds"], {"env": "fog", "preset": "debug"}]
    runs = runs_of(changed(worlds=worlds))
    assert [run.name for run in runs] == [
        "catch-ar-0", "catch-hi-0", "fog-ar-0", "fog-hi-0",
        "catch-ar-3", "catch-hi-3", "fog-ar-3", "fog-hi-3",
    ]  # fmt: skip
    first = runs[0].config
    assert (first.seed, first.env.id, first.training.epochs) == (0, "catch", 2)
    assert (first.imagination.budget, first.imagination.decay_horizon) == (6, 1.0)
    assert runs[2].config.training.epochs == preset("debug").training.epochs


def test_a_file_is_json_or_toml(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(MINE))
    (tmp_path / "mine.toml").write_text(AS_TOML)
    assert read_file(tmp_path / "mine.json") == read_file(tmp_path / "mine.toml") == changed()
    assert changed(seeds=2).seeds == (0, 1)


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_suites_of_experiments_can_be_read_and_no_two_settings_are_the_same(path):
    runs = runs_of(read_file(path))
    assert len({repr(run.config) for run in runs}) == len(runs) > 1


@pytest.mark.parametrize("name", ["control-craftium", "control-demo", "ablation-demo"])
def test_train_takes_the_config_of_a_run_from_its_prepared_folder(name, tmp_path):
    for run in runs_of(BUILT_IN[name][1])[:4]:
        folder = tmp_path / run.folder
        prepare_run(run, folder, threads=3)
        flags = named(["--out", str(folder)], Arguments, "train")
        found = train._default(flags)
        assert found.preset == run.preset and found.config.runtime.threads == 3
        bias = found.config.controller.actor_bias  # filled in by the world
        same = replaced(run.config, controller={"actor_bias": bias}, runtime={"threads": 3})
        assert found.config == same
        prepare_run(run, folder, threads=2)  # the same run again


def test_a_folder_of_another_config_is_refused_before_anything_is_started(tmp_path):
    one, other = (runs_of(changed(settings=[x]))[0] for x in MINE["settings"])
    prepare_run(one, tmp_path / "run", threads=1)
    (tmp_path / "run" / "metrics.jsonl").write_text('{"epoch": 0}\n')
    with pytest.raises(UsageError, match="is a run of another config"):
        prepare_run(other, tmp_path / "run", threads=1)
    task = Task(other, tmp_path / "run", tmp_path / "log")
    execute([task], LocalPool(1, 0, 1), retries=3, interval=0.01)
    assert task.state == "failed" and "is a run of another config" in task.reason
    assert not task.log.exists() and task.attempts == 0


def test_threads_of_an_override_are_those_of_the_run(tmp_path):
    worlds = [{"env": "catch", "preset": "debug", "override": {"runtime.threads": 5}}]
    run = runs_of(changed(worlds=worlds))[0]
    prepare_run(run, tmp_path / "run", threads=2)
    assert read_config(tmp_path / "run").runtime.threads == 5


def test_the_papers_suites_are_its_runs():
    control, ablation = (runs_of(BUILT_IN[name][1]) for name in ("control", "ablation"))
    assert (len(control), len(ablation)) == (120, 160)
    published = published_scores()
    for run in control:
        assert run.seed in range(5) and (run.env, run.setting) in published
    of = {run.setting: run.config.imagination for run in control}
    assert [(x.budget, x.decay_horizon) for x in of.values()] == [(32, 1), (16, 4), (32, 4)]
    kinds = {run.setting: run.config.imagination for run in ablation}
    assert [(x.sampler, x.engine) for x in kinds.values()] == [
        ("stable", "window"), ("naive", "plain"), ("naive_held", "window"), ("coupled", "window"),
    ]  # fmt: skip
    steps = {r.env: r.config.training.epochs * r.config.training.collect_steps for r in control}
    assert steps.pop("Craftium/SmallRoom-v0") == 30_000
    assert len(steps) == 7 and set(steps.values()) == {100_000}


def test_the_demo_suites_are_small_and_compare_at_equal_steps():
    sizes = {"control-demo": 9, "ablation-demo": 12}
    for name, size in sizes.items():
        runs = runs_of(BUILT_IN[name][1])
        assert len(runs) == size and {run.env for run in runs} == {"small-fog"}
        assert {run.config.imagination.horizon for run in runs} == {6}
        assert {run.config.training.target_return for run in runs} == {None}


BAD = {
    "unknown sedes; expected name, worlds, settings, seeds": {"sedes": [1]},
    "has the run catch-hi-0 twice": {"settings": [{"name": "hi"}, {"name": "hi"}]},
    "catch-ar-0 twice": {"seeds": [0, 0]},
    "has no field imagination.budgte; did you mean imagination.budget?": {
        "settings": [{"name": "x", "override": {"imagination.budgte": 3}}]
    },
    "imagination.budget must be a whole number, got 'many'": {
        "settings": [{"name": "x", "override": {"imagination.budget": "many"}}]
    },
    "decay_horizon must lie in [1, 6]": {
        "settings": [{"name": "x", "override": {"imagination.decay_horizon": 50}}]
    },
    "seed is set by worlds and seeds": {"settings": [{"name": "x", "override": {"seed": 3}}]},
    "unknown preset 'debgu'": {"worlds": [{"env": "catch", "preset": "debgu"}]},
    "unknown color": {"worlds": [{"env": "catch", "color": "red"}]},
    "env is missing": {"worlds": [{"preset": "debug"}]},
    "seeds must be a list of whole numbers": {"seeds": "all"},
    "worlds must be a list": {"worlds": "catch"},
    "has no runs": {"seeds": []},
    "letters, digits": {"settings": [{"name": "a/b"}]},
}


@pytest.mark.parametrize("said", BAD, ids=str)
def test_a_bad_suite_is_one_line_and_status_two(said, tmp_path, capsys):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(MINE | BAD[said]))
    assert main(["sweep", str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


LINES = {
    "sweep": "name a suite",
    "sweep contrl": "did you mean 'control'?",
    "sweep {tmp}/none.toml": "cannot be read",
    "sweep {tmp}/broken.toml": "is no TOML",
    "sweep {tmp}/suite.yaml": "is a .json or .toml file",
    "sweep control-demo --envs fog": "name a suite",
    "sweep control-demo --jobs -1": "--jobs must not be negative",
    "sweep control-demo --gpus 99": "--gpus 99: there ",
    "sweep control-demo --ray 127.0.0.1:9": "no Ray cluster answers at 127.0.0.1:9",
    "sweep control-demo --ray nowhere": "expected local, auto, HOST:PORT",
    "sweep --envs catch --settings ar:budget": "expected NAME:FIELD=VALUE",
}


@pytest.mark.parametrize("line", LINES, ids=str)
def test_a_bad_command_is_one_line_and_status_two(line, tmp_path, capsys):
    (tmp_path / "broken.toml").write_text("seeds = [")
    words = [word.format(tmp=tmp_path) for word in line.split()]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert LINES[line] in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_dry_run_lists_runs_hours_and_disk_and_writes_nothing(tmp_path, capsys):
    line = "sweep --envs catch --preset debug --seeds 2 --dry-run --gpus 0 --jobs 2"
    words = [*line.split(), "--settings", "a:imagination.budget=4", "b:imagination.budget=6"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("catch-a-0", "catch-b-0", "catch-a-1", "catch-b-1"))
    assert "4 runs, 0 finished; 4 to do" in out and "estimated" in out and "disk about" in out
    assert not (tmp_path / "out").exists()


def test_a_suites_folder_takes_more_runs_of_it_and_no_other_suite(tmp_path):
    folder = tmp_path / "suite"
    describe(changed(), runs_of(changed()), folder)
    more = changed(seeds=[0, 3, 4])
    describe(more, runs_of(more), folder)
    name, members = read_members(folder)
    assert name == "mine" and len(members) == 6
    assert [x.folder for x in members] == [run.folder for run in runs_of(more)]
    with pytest.raises(UsageError, match="describes another suite"):
        other = changed(settings=[{"name": "other"}])
        describe(other, runs_of(other), folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with pytest.raises(UsageError, match="is not empty and holds no suite"):
        describe(more, runs_of(more), tmp_path / "full")


def test_a_suites_folder_of_an_earlier_version_is_read_and_goes_on(tmp_path):
    """There a setting was called `config`."""
    runs = runs_of(changed())
    entries = [
        {"name": r.name, "env": r.env, "config": r.setting, "seed": r.seed, "folder": r.name}
        for r in runs
    ]
    path = tmp_path / "suite.json"
    path.write_text(json.dumps({"name": "mine", "runs": entries}, indent=1))
    assert [x.setting for x in read_members(tmp_path)[1]] == ["ar", "hi", "ar", "hi"]
    describe(changed(), runs, tmp_path)
    assert json.loads(path.read_text())["runs"][0]["setting"] == "ar"
