"""Runs that are interrupted in every way, and what must be equal in the end."""

import json

import gymnasium

from horizon_imagination.errors import EnvFailure
from horizon_imagination.run.callbacks import Callback, Callbacks
from horizon_imagination.run.logs import MetricsFile
from horizon_imagination.run.signals import StopRequest
from horizon_imagination.run.trainer import Trainer
from horizon_imagination.snapshots import snapshots


class StopError(Exception):
    pass


class Interrupter(Callback):
    """Raises at the second step of a stage of an epoch."""

    def __init__(self, stage, epoch):
        self.where, self.at, self.steps = (stage, epoch), None, 0

    def on_stage(self, epoch, name, steps):
        self.at, self.steps = (name, epoch), 0

    def on_step(self, count=1):
        self.steps += count
        if self.at == self.where and self.steps == 2:
            raise StopError


class Asks(Callback):
    """Asks a run to stop at a random step of a stage of an epoch, as a signal would."""

    def __init__(self, stage, epoch, dice):
        self.where, self.dice, self.left, self.stop = (stage, epoch), dice, 0, StopRequest()

    def on_stage(self, epoch, name, steps):
        self.left = self.dice.randint(1, steps) if (name, epoch) == self.where else 0

    def on_step(self, count=1):
        self.left -= count
        if self.left <= 0 < self.left + count:
            self.stop.name = "SIGTERM"


class FailsOnce(gymnasium.Wrapper):
    """A world that fails at one step of one collection or evaluation, and never again."""

    transparent = True
    left = 0

    def step(self, action):
        FailsOnce.left -= 1
        if FailsOnce.left == 0:
            raise EnvFailure("the simulator is gone")
        return self.env.step(action)


def run(folder, *callbacks, config, stop=None):
    """Begin or resume a run, and train it to its end."""
    folder.mkdir(exist_ok=True)
    trainer = Trainer(config, folder, Callbacks([MetricsFile(folder), *callbacks]), stop=stop)
    try:
        trainer.resume()
        trainer.run()
    finally:
        trainer.close()
    return folder


def metrics(folder):
    """What every epoch has logged, but for times."""
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("time/")} for line in lines]


def files(folder):
    """Everything of a finished run that must not depend on where it was interrupted."""
    last = snapshots(folder)[-1]
    names = ["weights.safetensors", "training.safetensors"]
    found = {name: (last / name).read_bytes() for name in names}
    found["best"] = (snapshots(folder, "best-")[-1] / "weights.safetensors").read_bytes()
    for path in (folder / "replay").iterdir():
        found[path.name] = path.read_bytes()
    state = json.loads((last / "state.json").read_text())
    found["state"] = {k: v for k, v in state.items() if k != "seconds"}
    return found | {"metrics": metrics(folder)}


def assert_same(folder, reference):
    """Bit for bit, and with a line of metrics for every epoch."""
    mine, theirs = files(folder), files(reference)
    assert mine.keys() == theirs.keys()
    different = [name for name in mine if mine[name] != theirs[name]]
    assert different == []
    epochs = mine["state"]["epoch"]
    assert [line["epoch"] for line in mine["metrics"]] == list(range(epochs))
