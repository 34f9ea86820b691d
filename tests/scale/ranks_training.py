"""Trains the demo's toy twin in float64: ranks_training.py FOLDER EPOCHS, one rank per process.

Writes steps-RANK.json (every figure of every step) and weights-RANK.safetensors beside FOLDER.
"""

import json
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.run.callbacks import Callback
from horizon_imagination.run.logs import MetricsFile
from horizon_imagination.run.trainer import Trainer
from horizon_imagination.scale.distributed import is_rank, joined

STEPS = 20


def config(epochs):
    """Each learner has an epoch of its own; batches that two ranks cannot share equally."""
    demo = PRESETS["debug"][1]

    def learner(section, batch, **fields):
        own = getattr(demo, section).learner
        return {"learner": replace(own, batch_size=batch, steps_per_epoch=STEPS, **fields)}

    return replaced(
        demo,
        tokenizer=learner("tokenizer", 7, last_epoch=0),
        world_model=learner("world_model", 6, micro_batches=2, last_epoch=1),
        controller=learner("controller", 5),
        imagination={"sampler": "coupled"},
        training={"epochs": epochs, "evaluate_every": 3},
        runtime={"device": "cpu"},
    )


def train(folder, epochs):
    """Train to an epoch; all figures by step."""
    cfg = config(epochs)
    with joined(cfg) if is_rank() else nullcontext():
        rank = int(os.environ.get("RANK", "0"))
        folder.mkdir(parents=True, exist_ok=True)
        trainer = Trainer(cfg, folder, Callback() if rank else MetricsFile(folder))
        steps = []
        for learner in trainer.learners.in_order():
            learner.step = recorded(learner.step, steps)
        trainer.resume()
        trainer.run()
        place = folder.parent
        (place / f"steps-{rank}.json").write_text(json.dumps(steps))
        weights = {k: v.contiguous() for k, v in trainer.agent.weights().items()}
        save_file(weights, place / f"weights-{rank}.safetensors")
        trainer.close()


def recorded(step, steps):
    def run():
        metrics = step()
        steps.append({name: float(value) for name, value in metrics.items()})
        return metrics

    return run


if __name__ == "__main__":
    # Losses are taken in float32 by `.float()`; here every tensor stays wide.
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    train(Path(sys.argv[1]), int(sys.argv[2]))
