"""One run in two processes: the same numbers as in one, and no end without a word."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from horizon_imagination.cli import main
from horizon_imagination.engine.draws import sample_draws
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.scale.distributed import check_ranks

DRIVER = Path(__file__).parent / "ranks_training.py"


def train(folder, epochs, world):
    """Train in `world` processes, all of which must succeed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    command = [sys.executable, str(DRIVER), str(folder / "run"), str(epochs)]
    ranks = [
        subprocess.Popen(
            command, env=os.environ | place | {"RANK": str(rank)}, stderr=subprocess.PIPE, text=True
        )
        for rank in range(world)
    ]
    errors = [rank.communicate(timeout=400)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world, "\n".join(errors)


def steps(folder, rank=0):
    return json.loads((folder / f"steps-{rank}.json").read_text())


def weights(folder, rank=0):
    return load_file(folder / f"weights-{rank}.safetensors")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    train(folder, 4, 1)
    return folder


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Three epochs in two processes; then a fourth in one, whose figures come last."""
    folder = tmp_path_factory.mktemp("together")
    train(folder, 3, 2)
    for name in ("steps-0.json", "weights-0.safetensors"):
        (folder / name).rename(folder / f"two-{name}")
    train(folder, 4, 1)
    return folder


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(alone, together):
    one = steps(alone)[:60]
    two = json.loads((together / "two-steps-0.json").read_text())
    assert [x.keys() for x in one] == [x.keys() for x in two] and len(two) == 60
    learners = [{name.split("/")[0] for name in step} for step in two]
    assert learners == [{"tokenizer"}] * 20 + [{"world_model"}] * 20 + [{"controller"}] * 20
    for a, b in zip(one, two, strict=True):
        assert b == pytest.approx(a, rel=1e-5, abs=1e-9)


@pytest.mark.slow
def test_all_ranks_hold_the_same_weights_and_report_the_same(together):
    mine = load_file(together / "two-weights-0.safetensors")
    theirs = weights(together, rank=1)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert json.loads((together / "two-steps-0.json").read_text()) == steps(together, rank=1)


@pytest.mark.slow
def test_a_run_of_two_processes_goes_on_in_one_as_if_it_always_had(alone, together):
    assert len(steps(together)) == 20
    for a, b in zip(steps(alone)[60:], steps(together), strict=True):
        assert b == pytest.approx(a, rel=1e-5, abs=1e-9)
    one, both = weights(alone), weights(together)
    assert one.keys() == both.keys()
    for name in one:
        torch.testing.assert_close(both[name], one[name], rtol=1e-6, atol=1e-8)
    lines = [(f / "run" / "metrics.jsonl").read_text().splitlines() for f in (alone, together)]
    seen = [[json.loads(x) for x in found] for found in lines]
    assert [x["epoch"] for x in seen[1]] == [0, 1, 2, 3]
    for key in ("env/steps", "env/episodes", "evaluation/return"):
        assert [x.get(key) for x in seen[0]] == [x.get(key) for x in seen[1]]


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_others_and_the_run_goes_on_later(tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "horizon_imagination", "train", "--preset", "debug"]
    command += ["--out", str(run), "--processes", "2", "--device", "cpu", "--training.epochs"]
    whole = subprocess.Popen([*command, "400"], stderr=subprocess.PIPE, text=True)
    metrics = run / "metrics.jsonl"
    until = time.monotonic() + 200
    while not metrics.exists() and time.monotonic() < until:
        time.sleep(0.1)
    ranks = psutil.Process(whole.pid).children()
    second = next(rank for rank in ranks if rank.environ()["RANK"] == "1")
    second.send_signal(signal.SIGKILL)
    _, errors = whole.communicate(timeout=100)
    assert whole.returncode == 1 and "Traceback" not in errors
    assert not any(rank.is_running() for rank in ranks)
    done = len(metrics.read_text().splitlines())
    finished = subprocess.run([*command, str(done + 1)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    epochs = [json.loads(line)["epoch"] for line in metrics.read_text().splitlines()]
    assert epochs == list(range(done + 1))


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_shares_are_all_of_a_batch_and_every_row_once(world):
    batch = torch.arange(7)
    shares = [Ranks(rank, world).share((batch, batch + 1)) for rank in range(world)]
    assert torch.equal(torch.cat([first for first, _ in shares]), batch)
    assert torch.equal(torch.cat([second for _, second in shares]), batch + 1)
    sizes = [len(first) for first, _ in shares]
    assert max(sizes) - min(sizes) <= 1


def test_draws_of_some_trajectories_are_those_of_the_whole_batch():
    rng = torch.Generator().manual_seed(0)
    draws = sample_draws((5, 3, 1, 2, 2), 4, 3, "coupled", rng)
    some = draws.of(slice(1, 3))
    assert torch.equal(some.noise, draws.noise[1:3])
    assert torch.equal(some.dice.omega, draws.dice.omega[1:3])
    assert some.row_dice is not None and draws.row_dice is not None
    assert torch.equal(some.row_dice.order, draws.row_dice.order[:, 1:3])


def test_a_batch_smaller_than_the_ranks_is_refused():
    small = PRESETS["debug"][1]
    check_ranks(small, 4)
    with pytest.raises(ValueError, match=r"world_model\.learner has batch_size 4"):
        check_ranks(small, 5)
    with pytest.raises(ValueError, match="micro_batches 8"):
        own = PRESETS["paper"][1].world_model.learner
        pieces = type(own)(**(vars(own) | {"micro_batches": 8}))
        check_ranks(replaced(PRESETS["paper"][1], world_model={"learner": pieces}), 2)


BAD = {
    "--gpus 99": "--gpus 99: there ",
    "--gpus 1 --processes 2": "exclude each other",
    "--processes 99 --device cpu": "99 processes cannot share a batch",
    "--processes -1": "must be at least 1",
}


@pytest.mark.parametrize("line", BAD, ids=str)
def test_what_cannot_be_shared_is_one_line_and_status_two(line, tmp_path, capsys):
    words = ["train", "--preset", "debug", "--out", str(tmp_path / "run"), *line.split()]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert BAD[line] in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists()
