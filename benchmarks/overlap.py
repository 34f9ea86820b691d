"""World model and controller one after the other and concurrently, in turn on the same machine.

Why: their steps are many small kernels, which leave most of a GPU idle; on two streams they fill
each other's gaps. Both ways take the same steps of the same learners, captured as a run takes
them. With --compile the blocks of the denoiser are compiled for training. The last line is one JSON
object.
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
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.learn.together import Together
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.provenance import provenance
from horizon_imagination.streams import Streams
from horizon_imagination.timing import drain

WARM_UP = 5


def make(preset: str, device: torch.device, *, compiled: bool) -> Together:
    """Both learners of a preset, on random batches."""
    config = replaced(
        PRESETS[preset][1],
        runtime={"compile": compiled, "device": str(device)},
        tokenizer={"perceptual": "none"},
        training={"overlap": True},
    )
    agent = Agent(config, 18, device)
    batches = RandomBatches(agent, torch.Generator(device).manual_seed(0))
    guard = Guard(Path(), every=25, writes=False)
    together = make_learners(agent, batches, Streams(0, device), guard).together
    assert together is not None
    return together


def apart(both: Together, epoch: int, rounds: int) -> None:
    """All steps of the world model, then all of the controller."""
    share = both.world_model.steps_in(epoch) / both.steps_in(epoch)
    for _ in range(round(rounds * share)):
        both.world_model.step()
    for _ in range(rounds):
        both.controller.step()


def together(both: Together, epoch: int, rounds: int) -> None:
    """The same steps, concurrently where the device can."""
    both.begin(epoch, 0)
    for _ in range(rounds):
        both.step()
    both.settle(examine=False)


def main() -> None:
    """Medians of both ways for an epoch, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="debug")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action="store_true", help="on a GPU")
    parser.add_argument("--rounds", type=int, default=20, help="controller steps timed together")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    device = resolve_device(args.device)
    ways = {"apart": apart, "together": together}
    begun = time.perf_counter()
    both = make(args.preset, device, compiled=args.compile)
    last = PRESETS[args.preset][1].training.epochs - 1
    for way in ways.values():
        way(both, last, WARM_UP)
    drain(device)
    first, times = time.perf_counter() - begun, {name: [] for name in ways}
    for _ in range(args.repeats):
        for name, way in ways.items():
            drain(device)
            begun = time.perf_counter()
            way(both, last, args.rounds)
            drain(device)
            times[name].append(time.perf_counter() - begun)
    scale = both.steps_in(last) / args.rounds
    epoch = {name: scale * median(found) for name, found in times.items()}
    print(f"an epoch: {epoch['apart']:.2f} s apart, {epoch['together']:.2f} s together")
    about = {"bench": "overlap", "preset": args.preset, "device": str(device)}
    about |= {"compile": args.compile, "epoch_s": epoch, "warm_up_s": first}
    about |= {"ratio": epoch["together"] / epoch["apart"]}
    print(json.dumps(about | provenance()))


if __name__ == "__main__":
    main()
