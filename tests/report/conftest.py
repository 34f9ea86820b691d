"""A small run, trained for real, and an agent with its experience."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from horizon_imagination.config import Config
from horizon_imagination.presets import CATCH, replaced
from horizon_imagination.report.pictures import StripWriter
from horizon_imagination.run.callbacks import Callback, Callbacks
from horizon_imagination.run.folder import Launch, prepare
from horizon_imagination.run.logs import MetricsFile
from horizon_imagination.run.trainer import Trainer


def tiny_config(**imagination) -> Config:
    def small(section):
        return dataclasses.replace(
            section.learner, batch_size=4, steps_per_epoch=1, first_epoch=0, last_epoch=None
        )

    network = dataclasses.replace(CATCH.reward, cnn_channels=8, cnn_out_channels=8, hidden=16)
    return replaced(
        CATCH,
        env={"size": 32},
        tokenizer={"channels": 8, "norm_groups": 4, "learner": small(CATCH.tokenizer)},
        denoiser={"layers": 1, "heads": 2, "head_dim": 16, "patch_size": 2},
        reward=dataclasses.asdict(network),
        world_model={"learner": small(CATCH.world_model)},
        controller={"context": 4, "network": network, "learner": small(CATCH.controller)},
        imagination={"horizon": 5, "budget": 4} | imagination,
        training={
            "epochs": 3, "collect_steps": 40, "initial_steps": 0, "snapshot_every": 3,
            "evaluate_every": 0, "target_return": None, "strips_every": 2,
        },
        runtime={"threads": 1},
    )  # fmt: skip


class Notes(Callback):
    """Keeps what a run has to say."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_note(self, text: str) -> None:
        self.notes.append(text)


def train(folder: Path, config: Config, *, strips: bool = True) -> tuple[Trainer, list[str]]:
    """A whole run in a folder; returns its closed trainer and its notes."""
    if not folder.exists():
        folder.mkdir(parents=True)
        prepare(folder, config, Launch("catch"))
    notes = Notes()
    pictures = [StripWriter(examples=1)] if strips else []
    trainer = Trainer(config, folder, Callbacks([MetricsFile(folder), notes, *pictures]))
    trainer.resume()
    trainer.run()
    trainer.close()
    return trainer, notes.notes


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    """A finished run of three epochs; tests copy it before they change it."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train(folder, tiny_config())
    return folder


@pytest.fixture
def tiny_run():
    """Train a small run in a folder; returns its notes."""

    def run(folder: Path, *, strips: bool = True) -> list[str]:
        return train(folder, tiny_config(), strips=strips)[1]

    return run


@pytest.fixture
def evaluation() -> str:
    """What an evaluation leaves in a run."""
    returns = [1.0, 1.0, -1.0, 1.0]
    episodes = [
        {"seed": i, "total_reward": r, "length": 7, "ended": "terminated"}
        for i, r in enumerate(returns)
    ]
    return json.dumps({"protocol": {"episodes": 4, "seed": 0}, "episodes": episodes})
