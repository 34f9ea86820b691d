"""Milliseconds of one step of each learner, launched kernel by kernel and as one CUDA graph.

Why: at the paper's sizes a GPU waits for Python. The batch is real: a store of random frames, its
replay and its latents. Medians after warm-up; the last line is JSON.

    python benchmarks/training_steps.py --preset paper
"""

import argparse
import dataclasses
import json
import platform
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.config import Config
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import resolve_device
from horizon_imagination.learn.graph import WARM_UP
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.streams import Streams
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.learners import make_learners

SCHEDULES = ((4.0, 16), (4.0, 32), (1.0, 32))


def random_store(folder: Path, frames: int, size: int, num_actions: int) -> Store:
    """Episodes of 100 steps of random frames."""
    rng = np.random.default_rng(0)
    store = Store.create(folder, (3, size, size), num_actions, "random")
    store.begin(rng.integers(0, 255, (3, size, size), dtype=np.uint8))
    for i in range(1, frames):
        frame = rng.integers(0, 255, (3, size, size), dtype=np.uint8)
        if not store.is_open:
            store.begin(frame)
            continue
        store.add(int(rng.integers(num_actions)), 0.0, False, i % 100 == 0, frame)
    return store


def milliseconds(step, device: torch.device, repeats: int) -> float:
    """Median over repeats, the device drained around each."""
    drain = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for _ in range(WARM_UP + 2):
        step()
    times = []
    for _ in range(repeats):
        drain()
        begin = time.perf_counter()
        step()
        drain()
        times.append(1e3 * (time.perf_counter() - begin))
    return median(times)


def measure(config: Config, store: Store, device: torch.device, repeats: int, names) -> list[dict]:
    """A row per learner."""
    agent = Agent(config, store.num_actions, device)
    streams, replay = Streams(config.seed, device), Replay(store, config.replay)
    latents = LatentCache(store, agent.encode, device)
    latents.refresh()
    guard = Guard(store.folder, every=25)
    learners = make_learners(agent, replay, latents, streams, guard)
    rows = []
    for learner in learners.in_order():
        if learner.name not in names:
            continue
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        row = {
            "learner": learner.name,
            "decay_horizon": config.imagination.decay_horizon,
            "budget": config.imagination.budget,
            "graphs": config.runtime.graphs,
            "ms": round(milliseconds(learner.step, device, repeats), 2),
        }
        if device.type == "cuda":
            row["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        rows.append(row)
        print(row, flush=True)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="paper", choices=sorted(PRESETS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--graphs", type=int, nargs="+", default=[0, 1])
    args = parser.parse_args()
    device = resolve_device(args.device)
    base = PRESETS[args.preset][1]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        store = random_store(Path(folder) / "store", args.frames, base.env.size, 18)
        for graphs in args.graphs if device.type == "cuda" else [0]:
            for i, (decay, budget) in enumerate(SCHEDULES if args.preset == "paper" else [(2, 4)]):
                config = dataclasses.replace(
                    base,
                    imagination=dataclasses.replace(
                        base.imagination, decay_horizon=decay, budget=budget
                    ),
                    runtime=dataclasses.replace(base.runtime, graphs=bool(graphs)),
                )
                names = {"controller"} | ({"tokenizer", "world_model"} if i == 0 else set())
                rows += measure(config, store, device, args.repeats, names)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    machine = (
        torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "cpu"
    )
    about = {"bench": "training_steps", "machine": machine, "torch": torch.__version__}
    print(json.dumps(about | {"preset": args.preset, "commit": commit.strip(), "rows": rows}))


if __name__ == "__main__":
    main()
