"""A step of the world model with plain and with compiled blocks, in turn on the same machine.

Why: around the matrix products of the denoiser lie many small operations, which a compiler joins.
On a GPU both steps are captured as graphs, as a run takes them; a run on a CPU compiles nothing,
this does. The last line is one JSON object.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median

import torch

from horizon_imagination.agent import Agent
from horizon_imagination.device import resolve_device
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learner import Learner
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.provenance import provenance
from horizon_imagination.streams import Streams
from horizon_imagination.timing import drain

TOGETHER = 4
"""Steps that are timed together, as a run takes them."""


def world_model_learner(preset: str, device: torch.device, *, compiled: bool) -> Learner:
    """The learner of a preset's world model, on random batches."""
    runtime = {"compile": False, "device": str(device)}
    config = replaced(PRESETS[preset][1], runtime=runtime, tokenizer={"perceptual": "none"})
    agent = Agent(config, 18, device)
    if compiled:
        agent.denoiser.compile_blocks()
    batches = RandomBatches(agent, torch.Generator(device).manual_seed(0))
    guard = Guard(Path(), every=25, writes=False)
    learner = make_learners(agent, batches, Streams(0, device), guard).world_model
    assert learner is not None
    return learner


def seconds(learner: Learner, device: torch.device, steps: int) -> float:
    """So many steps, the device idle before and after."""
    drain(device)
    begun = time.perf_counter()
    for _ in range(steps):
        learner.step()
    drain(device)
    return time.perf_counter() - begun


def main() -> None:
    """Medians of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="demo")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1, help="on a CPU")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = resolve_device(args.device)
    learners = {
        name: world_model_learner(args.preset, device, compiled=name == "compiled")
        for name in ("plain", "compiled")
    }
    first = {name: seconds(learner, device, 6) for name, learner in learners.items()}
    times: dict[str, list[float]] = {name: [] for name in learners}
    for _ in range(args.rounds):
        for name, learner in learners.items():
            times[name].append(seconds(learner, device, TOGETHER) / TOGETHER)
    ms = {name: 1000 * median(found) for name, found in times.items()}
    print(f"plain {ms['plain']:.2f} ms, compiled {ms['compiled']:.2f} ms a step")
    about = {"bench": "compiled", "preset": args.preset, "device": str(device), "ms": ms}
    about |= {"ratio": ms["compiled"] / ms["plain"], "first_six_steps_s": first}
    print(json.dumps(about | provenance()))


if __name__ == "__main__":
    main()
