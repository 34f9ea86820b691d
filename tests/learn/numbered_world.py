"""A world made by hand whose frames tell their episode, their step and the action behind them."""

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
from horizon_imagination.streams import Streams

ACTIONS, SIZE, LATENT = 4, 8, (3, 4, 4)
ENDS = ["terminated", "truncated", "terminated", "truncated", "terminated"]
LENGTHS = [6, 9, 3, 20, 12]
CODE = 64
"""Pixel values are divided by it, exactly, to make latents."""

SMALL = RecurrentConfig(cnn_channels=8, cnn_out_channels=4, hidden=16)


def learner(**changes):
    return LearnerConfig(
        **({"batch_size": 8, "steps_per_epoch": 1, "learning_rate": 1e-3} | changes)
    )


def config(**sections):
    parts = {
        "env": EnvConfig(size=SIZE),
        "tokenizer": TokenizerConfig(
            channels=8, multipliers=(1,), encoder_blocks=1, decoder_blocks=1, attention_at=(),
            latent_channels=3, norm_groups=4, perceptual="none", learner=learner(),
        ),
        "denoiser": DenoiserConfig(layers=2, heads=2, head_dim=12),
        "reward": SMALL,
        "world_model": WorldModelConfig(segment_length=7, learner=learner()),
        "controller": ControllerConfig(context=5, network=SMALL, learner=learner()),
        "imagination": ImaginationConfig(horizon=6, budget=4, decay_horizon=2.0),
        "replay": ReplayConfig(min_segment=2),
        "runtime": RuntimeConfig(device="cpu", precision="float32"),
    }  # fmt: skip
    return Config(**(parts | sections))


def action_at(episode, step):
    return (episode + step * step) % ACTIONS


def reward_at(episode, step):
    return (-1) ** step * (1 + episode + step / 4)


def frame_at(episode, step):
    frame = np.empty((3, SIZE, SIZE), np.uint8)
    frame[0], frame[1] = episode, step
    frame[2] = action_at(episode, step - 1) + 1 if step else 0
    return frame


def encode(frames):
    """Stands for a tokenizer: latents that keep the codes."""
    return frames[:, :, ::2, ::2].float() / CODE


def codes(z):
    """Episode, step and previous action (-1: none) of each frame."""
    episode, step, action = (z[:, :, :, 0, 0] * CODE).round().long().unbind(-1)
    return episode, step, action - 1


def filled(folder):
    """Every kind of end; the last episode is still open."""
    store = Store.create(folder, (3, SIZE, SIZE), ACTIONS, "numbered")
    for episode, (length, end) in enumerate(zip(LENGTHS, ENDS, strict=True)):
        store.begin(frame_at(episode, 0))
        for step in range(length):
            last = step == length - 1
            store.add(
                action_at(episode, step),
                reward_at(episode, step),
                last and end == "terminated",
                last and end == "truncated",
                frame_at(episode, step + 1),
            )
    return store


def learners(folder, cfg=None, encoder=encode):
    """A real agent, its learners, and latents of the numbered world."""
    cfg = cfg or config()
    store = filled(folder / "data")
    agent = Agent(cfg, ACTIONS, torch.device("cpu"))
    latents = LatentCache(store, encoder or agent.encode, agent.device)
    latents.refresh()
    streams = Streams(0, agent.device)
    guard = Guard(folder, every=1)
    batches = ReplayBatches(agent, Replay(store, cfg.replay), latents, streams)
    return agent, make_learners(agent, batches, streams, guard)
