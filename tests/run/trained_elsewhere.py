"""Trains the demo's toy twin on the CPU and on a pretended device.

    trained_elsewhere.py VARIANT FOLDER
    trained_elsewhere.py mistakes

Prints the metrics of both and how many steps were captured, as JSON; or what the pretended device
says of steps with mistakes.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import pretended_device as other

from horizon_imagination.actions import Discrete
from horizon_imagination.agent import Agent
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import FAST, PRESETS, replaced
from horizon_imagination.run.callbacks import Callback
from horizon_imagination.run.trainer import Trainer
from horizon_imagination.streams import Streams

TOY = PRESETS["debug"][1]
RESTS = {"learner": replace(TOY.tokenizer.learner, rest_from=2, rest_every=2)}
AS_FAST = {
    "tokenizer": {"latent_noise": FAST.tokenizer.latent_noise, **RESTS},
    "reward": {"readout": FAST.reward.readout},
    "world_model": {
        x: getattr(FAST.world_model, x)
        for x in ("horizon_times", "noise_ahead", "change_every", "reward_weight_decay",
                  "reward_noise", "reward_shift")
    },
    "controller": {
        x: getattr(FAST.controller, x)
        for x in ("smooth_tau", "center_features", "scale_by_deviation", "shared_encoder")
    },
    "replay": {"end_share": 0.15},
    "training": {"overlap": True},
}  # fmt: skip
VARIANTS = {
    "fast": AS_FAST,
    "naive": {"imagination": {"sampler": "naive", "engine": "plain"}},
    "coupled": {
        "imagination": {"sampler": "coupled", "context": 2},
        "world_model": {"segment_length": 8, "change_every": 2, "change_by": "effect"},
        "controller": {"rewarded": "replay"},
        "denoiser": {"prediction": "velocity", "loss_weight": "uniform"},
    },
    "continuous": {"env": {"id": "small-reach", "size": 32}},
}  # fmt: skip


MISTAKES = {
    "mixes": lambda reward: reward + torch.ones(reward.shape),
    "copies": lambda reward: reward + torch.ones(reward.shape).to(reward),
    "reads": lambda reward: float(reward.sum()),
}


class Metrics(Callback):
    """Keeps what an epoch measured, but not its times."""

    def __init__(self):
        self.rows = []

    def on_metrics(self, epoch, metrics):
        self.rows.append({k: v for k, v in metrics.items() if not k.startswith("time")})


def trained(variant, device, folder):
    base = replaced(TOY, training={"examine_every": 2}, runtime={"device": str(device)})
    metrics = Metrics()
    trainer = Trainer(replaced(base, **VARIANTS[variant]), folder, metrics)
    trainer.run()
    trainer.close()
    return metrics.rows


def step_with(mistake):
    """Which step of a world model with a mistake in its loss fails, and how."""
    agent = Agent(TOY, Discrete(3), other.DEVICE)
    batches = RandomBatches(agent, torch.Generator(other.DEVICE).manual_seed(1))
    learner = make_learners(
        agent, batches, Streams(0, other.DEVICE), Guard(Path(), every=1)
    ).world_model
    loss = learner.loss

    def mistaken(batch):
        mistake(batch.reward)
        return loss(batch)

    learner.loss = mistaken
    try:
        while learner.steps < 6:
            learner.step()
    except other.DeviceError as error:
        return learner.steps, str(error)
    return None


def main():
    name = sys.argv[1]
    other.install()
    if name == "mistakes":
        with other.pretended():
            print(json.dumps({how: step_with(mistake) for how, mistake in MISTAKES.items()}))
        return
    folder = Path(sys.argv[2])
    here = trained(name, torch.device("cpu"), folder / "here")
    with other.pretended():
        there = trained(name, other.DEVICE, folder / "there")
    print(json.dumps({"here": here, "there": there, "captures": len(other.captures)}))


if __name__ == "__main__":
    main()
