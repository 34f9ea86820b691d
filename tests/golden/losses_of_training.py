"""Twenty steps of each learner on fixed data, and the losses they gave when last written down.

`python tests/golden/losses_of_training.py --write` writes them down anew. Do that only for a
change that is meant to alter learning, and say so in the changelog.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.config import (
    Config,
    ControllerConfig,
    DenoiserConfig,
    EnvConfig,
    ImaginationConfig,
    LearnerConfig,
    RecurrentConfig,
    ReplayConfig,
    RuntimeConfig,
    TokenizerConfig,
    WorldModelConfig,
)
from horizon_imagination.data import Replay, Store
from horizon_imagination.learn.batches import ReplayBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.streams import Streams

GOLDEN = Path(__file__).parent
STEPS, SIZE, ACTIONS = 20, 16, 3
LEARNER = LearnerConfig(batch_size=8, steps_per_epoch=STEPS, learning_rate=1e-3, eps=1e-6)
WATCHED = {
    "tokenizer": ["tokenizer/reconstruction"],
    "world_model": ["world_model/denoiser", "world_model/reward", "world_model/end"],
    "controller": [
        "controller/actor", "controller/critic", "controller/entropy", "controller/lambda_return",
        "controller/return_scale", "controller/actor_grad_norm",
    ],
}  # fmt: skip


VARIANTS = ("paper", "demo", "fast")


def config(variant: str) -> Config:
    """`paper` and `fast` have their choices of every switch, `demo` others than `paper`."""
    if variant == "fast":
        return as_fast(config("paper"))
    demo = variant == "demo"
    network = RecurrentConfig(cnn_channels=8, cnn_out_channels=4, hidden=16, normalize=demo)
    return Config(
        env=EnvConfig(size=SIZE),
        tokenizer=TokenizerConfig(
            channels=8, multipliers=(1, 2), encoder_blocks=1, decoder_blocks=1, attention_at=(8,),
            latent_channels=4, norm_groups=4, perceptual="none", learner=LEARNER,
        ),
        denoiser=DenoiserConfig(
            layers=2, heads=2, head_dim=12, patch_size=2, action_tokens=demo, normalize=demo,
            prediction="clean" if demo else "velocity", ema=0.9 if demo else 0.0,
            loss_weight="noise_squared" if demo else "uniform",
        ),
        reward=network,
        world_model=WorldModelConfig(
            segment_length=7, horizon_times=0.5 if demo else 0.0, learner=LEARNER
        ),
        controller=ControllerConfig(
            shared_encoder=not demo,context=4, network=network, learner=LEARNER),
        imagination=ImaginationConfig(horizon=6, budget=4, decay_horizon=2.0),
        replay=ReplayConfig(min_segment=3),
        runtime=RuntimeConfig(device="cpu", precision="float32"),
    )  # fmt: skip


def as_fast(small: Config) -> Config:
    """A small config with the switches of the preset `fast`, its sizes and rates kept."""
    fast = PRESETS["fast"][1]

    def taken(section: str, *names: str) -> dict:
        return {name: getattr(getattr(fast, section), name) for name in names}

    return replaced(
        small,
        tokenizer=taken("tokenizer", "latent_noise"),
        denoiser=taken("denoiser", "prediction", "loss_weight", "normalize", "ema"),
        reward=taken("reward", "readout", "normalize"),
        world_model=taken(
            "world_model", "horizon_times", "noise_ahead", "reward_weight_decay", "reward_noise",
            "reward_shift", "change_every",
        ),
        controller=taken("controller", "smooth_tau", "center_features", "scale_by_deviation")
        | {"network": replace(small.controller.network, normalize=True)},
    )  # fmt: skip


def record(folder: Path) -> Store:
    """Twelve episodes of a dot that three actions push left, nowhere and right."""
    store = Store.create(folder, (3, SIZE, SIZE), ACTIONS, "dot")
    rng = np.random.default_rng(0)

    def frame(x: int, y: int) -> np.ndarray:
        image = np.full((3, SIZE, SIZE), 30, np.uint8)
        image[0, y : y + 3, x : x + 3] = 230
        image[2, :, x] = 120
        return image

    for _ in range(12):
        x = int(rng.integers(2, SIZE - 4))
        store.begin(frame(x, 0))
        for y in range(1, SIZE - 3):
            action = int(rng.integers(ACTIONS))
            x = min(max(x + action - 1, 0), SIZE - 3)
            last = y == SIZE - 4
            store.add(action, float(x > SIZE // 2) - 0.3, last, False, frame(x, y))
    return store


def losses(variant: str, folder: Path) -> dict[str, list[float]]:
    """Every watched figure at every step."""
    cfg = config(variant)
    agent = Agent(cfg, ACTIONS, torch.device("cpu"))
    store = record(folder / "data")
    latents = LatentCache(store, agent.encode, agent.device)
    streams = Streams(0, agent.device)
    batches = ReplayBatches(agent, Replay(store, cfg.replay), latents, streams)
    made = make_learners(agent, batches, streams, Guard(folder, every=1))
    found: dict[str, list[float]] = {}
    for learner in made.in_order():
        latents.forget()
        latents.refresh()
        learner.begin(0, 0)
        for _ in range(STEPS):
            metrics = learner.step()
            for name in WATCHED[learner.name]:
                found.setdefault(name, []).append(float(f"{float(metrics[name]):.7g}"))
    store.close()
    return found


def path(variant: str) -> Path:
    return GOLDEN / f"{variant}.json"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    for name in VARIANTS:
        with tempfile.TemporaryDirectory() as scratch:
            lines = [
                f" {json.dumps(k)}: {json.dumps(v)}" for k, v in losses(name, Path(scratch)).items()
            ]
        path(name).write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"wrote {path(name)}")
