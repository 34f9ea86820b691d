"""A small trained run and a dataset that several tests look at, and a way to run commands."""

from pathlib import Path

import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.cli import main
from horizon_imagination.data import Store
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.callbacks import RunStart


@pytest.fixture(autouse=True)
def threads():
    """Presets set the number of threads of the whole process; give it back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """Four epochs of the debug preset; nobody may change the folder."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    arguments = ["--preset", "debug", "--training.epochs", "4"]
    assert main(["train", *arguments, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def dataset(tmp_path_factory) -> Path:
    """Ten random episodes of catch."""
    folder = tmp_path_factory.mktemp("data") / "catch"
    line = f"record --env catch --env.size 32 --episodes 10 --out {folder}"
    assert main(line.split()) == 0
    return folder


@pytest.fixture
def run_start(tmp_path) -> RunStart:
    """What callbacks are told of a run of the debug preset."""
    agent = Agent(PRESETS["debug"][1], 3, torch.device("cpu"))
    store = Store.create(tmp_path / "replay", (3, 32, 32), 3, "catch")
    return RunStart(agent, store, tmp_path)


@pytest.fixture
def command(capsys):
    """Runs a command line; status, stdout and stderr."""

    def run(line: str, **values):
        status = main([word.format(**values) for word in line.split()])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run
