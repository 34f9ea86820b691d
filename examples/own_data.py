"""Data of your own: episodes as .npz files, imported, checked, and trained on without a world."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import horizon_imagination as hi
from horizon_imagination.data import import_npz
from horizon_imagination.presets import PRESETS


def write_episodes(folder, count):
    """A dot that moves with the action; the reward is 1 where it reaches the right edge."""
    rng, folder = np.random.default_rng(0), Path(folder)
    folder.mkdir(parents=True)
    for episode in range(count):
        actions = rng.integers(2, size=12)  # 0: left, 1: right
        places = np.clip(np.cumsum(np.r_[4, 2 * actions - 1]), 0, 7)
        frames = np.zeros((13, 32, 32, 3), np.uint8)
        for frame, place in zip(frames, places, strict=True):
            frame[12:20, 4 * place : 4 * place + 4] = 255
        rewards = (places[1:] == 7).astype(np.float32)
        np.savez(folder / f"{episode:04d}.npz", frames=frames, action=actions, reward=rewards)


if __name__ == "__main__":
    out, config = Path(sys.argv[1]), PRESETS[sys.argv[2]][1]
    write_episodes(out / "episodes", count=40)
    dataset = import_npz(out / "episodes", out / "dataset", num_actions=2)
    config = replace(config, env=replace(config.env, id="imported", size=32))
    run = hi.train(config, offline=dataset, out=out / "run")
    column = run.metrics()["controller/imagined_return"]
    print(f"{run.epochs} epochs; return in imagination {column[-1]:.2f}")
