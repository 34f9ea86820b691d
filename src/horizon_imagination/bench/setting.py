"""An agent with a small replay of random frames, as training would have it."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.config import Config
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import autocast
from horizon_imagination.learn.controller import ControllerLoss
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.streams import Streams
from horizon_imagination.run.learners import Learners, make_learners

EPISODE = 128


def random_store(folder: Path, config: Config, frames: int, num_actions: int) -> Store:
    """Episodes of random frames, actions and rewards."""
    rng = np.random.default_rng(0)
    shape = (1 if config.env.grey else 3, config.env.size, config.env.size)
    store = Store.create(folder, shape, num_actions, "random")
    for row in range(frames):
        frame = rng.integers(0, 256, shape, dtype=np.uint8)
        if not store.is_open:
            store.begin(frame)
            continue
        last = row % EPISODE == EPISODE - 1 or row == frames - 1
        reward = float(rng.normal())
        store.add(int(rng.integers(num_actions)), reward, False, last, frame)
    return store


class Setting:
    """Networks, replay, latents and random streams of a config."""

    def __init__(self, config: Config, store: Store, device: torch.device) -> None:
        self.store, self.device = store, device
        self.agent = Agent(config, store.num_actions, device)
        self.replay = Replay(store, config.replay)
        self.latents = LatentCache(store, self.agent.encode, device)
        self.latents.refresh()

    def learners(self, config: Config, *, tokenizer: bool) -> Learners:
        """Fresh learners under a config that differs in its imagination alone."""
        self.agent.config = config
        return make_learners(
            self.agent,
            self.replay,
            self.latents,
            Streams(config.seed, self.device),
            Guard(self.store.folder, every=25),
            frozen=frozenset() if tokenizer else frozenset({"tokenizer"}),
        )

    def loss(self, learners: Learners, config: Config) -> ControllerLoss:
        """The controller's loss under a config's imagination, with dice of its own.

        A captured graph and other work must not draw from one generator.
        """
        rng = torch.Generator(self.device).manual_seed(config.seed)
        return replace(learners.controller_loss, imagination=config.imagination, rng=rng)

    def precision(self) -> AbstractContextManager:
        """What networks run under."""
        return autocast(self.agent.config.runtime, self.device)
