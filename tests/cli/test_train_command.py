"""`horizon train` from the outside: what it writes, says and refuses."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from horizon_imagination.agent import Agent
from horizon_imagination.envs import EnvFailure
from horizon_imagination.run import start
from horizon_imagination.run.folder import claimed, read_config, read_launch
from horizon_imagination.run.signals import RESUME
from horizon_imagination.run.trainer import Trainer
from horizon_imagination.snapshots import read_state, snapshots

DEBUG = "train --preset debug --training.epochs 3"


def test_a_run_leaves_config_metrics_events_snapshot_and_replay(trained):
    names = {path.name for path in trained.iterdir()}
    assert {"config.json", "run.json", "metrics.jsonl", "checkpoints", "replay"} <= names
    lines = [json.loads(x) for x in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [0, 1, 2, 3]
    assert {"env/return", "world_model/denoiser", "controller/late_changes"} <= lines[-1].keys()
    assert "evaluation/return" in lines[-1] and "evaluation/return" not in lines[0]
    assert [path.name for path in snapshots(trained)] == ["epoch-000003", "epoch-000004"]


def test_the_same_command_says_that_a_finished_run_is_finished(trained, command):
    before = {p: p.stat().st_mtime for p in trained.rglob("*.safetensors")}
    for preset in ("--preset debug --training.epochs 4", ""):
        status, out, _ = command(f"train {preset} --out {trained}")
        assert status == 0 and "is finished: 4 epochs" in out
    assert before == {p: p.stat().st_mtime for p in trained.rglob("*.safetensors")}


def test_a_run_stops_at_its_target_and_a_higher_one_goes_on(command, tmp_path):
    folder = tmp_path / "run"
    line = f"train --preset debug --out {folder} --training.epochs 5 --training.target-return"
    status, out, _ = command(f"{line} -2")
    assert status == 0 and "less if an evaluation reaches -2" in out
    assert "reached training.target_return (-2): the run ends after epoch 4" in " ".join(
        out.split()
    )
    assert snapshots(folder)[-1].name == "epoch-000004"
    status, out, _ = command(f"{line} -2")
    assert status == 0 and "stopped at an evaluation of" in out
    assert command(f"{line} 2")[0] == 0
    assert snapshots(folder)[-1].name == "epoch-000005"


def test_a_dry_run_says_what_is_needed_and_writes_nothing(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = command("train --preset debug --dry-run")
    assert status == 0 and list(tmp_path.iterdir()) == []
    for word in ("parameters", "memory", "disk", "time", "estimated", "replay of 180 frames"):
        assert word in out


def test_a_dry_run_tells_of_weights_that_a_run_would_be_refused_without(
    command, tmp_path, monkeypatch
):
    monkeypatch.setenv("HORIZON_CACHE", str(tmp_path / "cache"))
    line = f"train --preset debug --tokenizer.perceptual vgg16 --out {tmp_path / 'run'}"
    status, out, _ = command(f"{line} --dry-run")
    assert status == 0 and "warning: the vgg16 weights are not at" in out
    status, _, err = command(line)
    assert status == 2 and "horizon weights get vgg16" in err
    assert not (tmp_path / "run").exists()


BAD = {
    "--preset debgu": "unknown preset 'debgu'; did you mean 'debug'?",
    "--preset debug --env cach": "did you mean catch?",
    "--preset debug --env CartPole-v1": "pixels",
    "--preset debug --env ALE/Boxin-v5": "ALE/Boxing-v5",
    "--preset debug --device abacus": "is not a device",
    "--preset debug --offline {tmp}/none": "is no dataset",
    "--preset debug --freeze tokenizer": "--freeze needs --init-from",
    "--preset debug --init-from {tmp}/none": "does not exist",
    "--preset debug --init-from {trained} --freeze critic": "expected tokenizer or denoiser",
    "--preset debug --init-from {trained} --denoiser.layers 3": "its denoiser does not fit",
    "--preset debug --env MiniGrid-Empty-5x5-v0 --pixels --init-from {trained}": "knows 3 actions",
    "--preset debug --imagination.decay-horizon 99": "must lie in [1, 6]",
    "--preset debug --denoiser.layer 3": "--denoiser.layers",
    "--preset debug --epochs 3": "did you mean --training.epochs?",
    "--preset debug --budget 3": "did you mean --imagination.budget?",
    "--preset debug --env.size 84": "env.size 84 does not fit",
    "--preset debug --controller.actor-bias 1 2": "2 numbers",
}


@pytest.mark.parametrize("line,said", BAD.items())
def test_bad_input_is_one_line_with_status_2_and_no_folder(line, said, command, tmp_path, trained):
    out = tmp_path / "run"
    status, _, err = command(f"train {line} --out {{out}}", out=out, tmp=tmp_path, trained=trained)
    assert status == 2 and len(err.splitlines()) == 1, err
    assert said in err
    assert not out.exists()


def test_a_run_of_another_config_and_a_busy_one_are_left_alone(command, trained):
    status, _, err = command(f"train --out {trained} --denoiser.layers 3")
    assert status == 2 and "denoiser.layers: 2 -> 3" in err
    with claimed(trained):
        status, _, err = command(f"train --out {trained}")
    assert status == 2 and "is training in" in err


class Spoiled(Trainer):
    """A weight of the denoiser becomes infinite before the world model learns in epoch 2."""

    def _learn(self, epoch, learner):
        if epoch == 2 and learner.name == "world_model":
            with torch.no_grad():
                next(self.agent.denoiser.parameters()).fill_(torch.inf)
        return super()._learn(epoch, learner)


def test_a_loss_that_is_no_number_stops_the_run_and_the_snapshot_stays_good(
    command, tmp_path, monkeypatch
):
    monkeypatch.setattr(start, "Trainer", Spoiled)
    folder = tmp_path / "run"
    status, _, err = command(f"{DEBUG} --out {folder}")
    assert status == 1 and len(err.splitlines()) == 1
    assert "world_model, step 4: the loss is not finite" in err
    assert "the snapshot epoch-000002 is good" in err
    assert load_file(folder / "not-finite-world_model-4.safetensors")["batch.z"].isfinite().all()
    assert all(x.isfinite().all() for x in Agent.load(folder, "cpu").weights().values())
    monkeypatch.undo()
    assert command(f"{DEBUG} --out {folder}")[0] == 0


class Failing(Trainer):
    """An environment that gives up in the collection of epoch 1."""

    def _collect(self, epoch):
        found = super()._collect(epoch)
        if epoch == 1:
            raise EnvFailure("catch failed 5 times in a row")
        return found


def test_an_environment_that_gives_up_stops_the_run_with_everything_saved(
    command, tmp_path, monkeypatch
):
    monkeypatch.setattr(start, "Trainer", Failing)
    folder = tmp_path / "run"
    status, _, err = command(f"{DEBUG} --out {folder}")
    assert status == 1 and "catch failed 5 times in a row" in err and "resume with" in err
    state = json.loads((snapshots(folder)[-1] / "state.json").read_text())
    assert state["epoch"] == 1 and state["env_steps"] == 100  # the steps of epoch 1 are kept
    monkeypatch.undo()
    assert command(f"train --out {folder}")[0] == 0


class Interrupted(Trainer):
    def _learn(self, epoch, learner):
        if epoch == 2:
            raise KeyboardInterrupt
        return super()._learn(epoch, learner)


def test_an_interrupt_says_how_to_resume(command, tmp_path, monkeypatch):
    monkeypatch.setattr(start, "Trainer", Interrupted)
    folder = tmp_path / "run"
    status, _, err = command(f"{DEBUG} --out {folder}")
    assert status == 130
    assert f"epoch-000002 is good; resume with: horizon train --out {folder}" in err


@pytest.mark.slow
def test_a_request_to_end_saves_the_step_and_says_resume_me(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "horizon_imagination", *DEBUG.split(), "--out", str(folder)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--training.epochs", "500"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    for line in process.stdout:
        if line.startswith("epoch") and "3/500" in line:
            process.send_signal(signal.SIGTERM)
            break
    _, err = process.communicate(timeout=120)
    assert process.returncode == RESUME and "stopped by SIGTERM" in err
    assert "(in the middle of epoch " in err and " is good" in err
    assert "resume with: horizon train --out" in err and "Traceback" not in err
    assert read_state(snapshots(folder)[-1]).unfinished is not None
    done = subprocess.run([*command, "--training.epochs", "5"], capture_output=True, text=True)
    assert done.returncode == 0 and ("resuming after" in done.stdout or "finished" in done.stdout)


def test_offline_training_goes_through_its_three_phases(command, tmp_path, dataset):
    folder = tmp_path / "run"
    status, out, _ = command(f"train --preset debug --offline {dataset} --out {folder}")
    assert status == 0
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    learners = [{key.split("/")[0] for key in line} for line in lines]
    assert "tokenizer" in learners[0] and "world_model" not in learners[0]
    assert "world_model" in learners[1] and "tokenizer" not in learners[1]
    assert "controller" in learners[2] and "world_model" not in learners[2]
    assert "evaluation/return" in lines[3]  # in the world that the dataset names
    assert not (folder / "replay").exists()
    assert read_launch(folder).offline == str(dataset)
    status, out, _ = command(f"train --out {folder}")
    assert status == 0 and "is finished: 4 epochs" in out
    assert "a larger --offline.controller-epochs goes on" in " ".join(out.split())


def test_a_damaged_dataset_is_refused(command, tmp_path, dataset):
    import shutil

    copy = Path(shutil.copytree(dataset, tmp_path / "copy"))
    (copy / "frames.u8").write_bytes((copy / "frames.u8").read_bytes()[:-5000])
    status, _, err = command(f"train --preset debug --offline {copy} --out {tmp_path / 'run'}")
    assert status == 2 and "frames.u8: truncated" in err
    assert not (tmp_path / "run").exists()


def test_transfer_keeps_the_frozen_networks_and_learns_the_others(command, tmp_path, trained):
    folder = tmp_path / "run"
    line = f"{DEBUG} --env fog --init-from {trained} --freeze tokenizer,denoiser --out {folder}"
    assert command(line)[0] == 0
    old, new = (load_file(snapshots(x)[-1] / "weights.safetensors") for x in (trained, folder))
    source = load_file(snapshots(trained, "best-")[-1] / "weights.safetensors")
    for name, value in new.items():
        part, _, key = name.partition(".")
        if part == "tokenizer":
            assert torch.equal(value, source[name]), name
        if part.startswith("denoiser"):
            assert torch.equal(value, source[f"denoiser_average.{key}"]), name
    assert not torch.equal(new["reward.head.weight"], old["reward.head.weight"])
    config = read_config(folder)
    assert config.world_model.learner.first_epoch == 0  # nobody waits for the tokenizer
    assert config.controller.learner.first_epoch == 1
    metrics = (folder / "metrics.jsonl").read_text()
    assert "world_model/reward" in metrics and "world_model/denoiser" not in metrics
    assert "tokenizer/reconstruction" not in metrics


BLOCKED = """
import sys
for name in ("av", "matplotlib", "tensorboard", "PIL", "ale_py", "wandb"):
    sys.modules[name] = None
from horizon_imagination.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_training_and_evaluating_need_none_of_the_optional_packages(tmp_path):
    folder = str(tmp_path / "run")
    line = [*DEBUG.split(), "--training.strips-every", "2", "--out", folder]
    for words in (line, ["evaluate", folder, "--episodes", "4"]):
        command = [sys.executable, "-c", BLOCKED, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        if words is line:
            assert done.stdout.count("tensorboard is not installed") == 1
            assert done.stdout.count("pillow is not installed") == 1


@pytest.mark.slow
def test_a_world_that_dies_every_50_steps_is_trained_in_and_the_deaths_are_told(
    command, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "envs"))
    folder = tmp_path / "run"
    options = '{"how":"exit","at":50,"length":20}'
    line = ["--env", "standin_worlds:Fragile", "--env.options", options, "--out", str(folder)]
    from horizon_imagination.cli import main

    status = main([*DEBUG.split(), "--env.isolation", "process", *line])
    assert status == 0
    state = json.loads((snapshots(folder)[-1] / "state.json").read_text())
    assert state["env_steps"] == 120 and state["failures"] == 2
