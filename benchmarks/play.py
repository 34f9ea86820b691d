"""Frames a second in the world model, and the time of a strip: what `horizon play` has to offer.

python benchmarks/play.py [RUN]          # the agent of catch that comes along, or that of a run
python benchmarks/play.py --preset paper # sizes of a preset, untrained: for timing alone

A frame is denoised, decoded, read by actor, critic and reward model, and encoded as PNG. A strip is
the whole horizon with stable actions, decoded and encoded. Medians after a warm-up.
"""

import argparse
import json
import os
import platform
import statistics
import time
from pathlib import Path

import torch

from horizon_imagination.agent import Agent
from horizon_imagination.device import resolve_device
from horizon_imagination.play.library import load, players
from horizon_imagination.play.messages import png, sheet
from horizon_imagination.play.strip import imagine_strip
from horizon_imagination.play.worlds import ModelWorld, PlayedAgent, take_threads
from horizon_imagination.presets import PRESETS
from horizon_imagination.timing import most_threads
from horizon_imagination.types import NO_ACTION


def median_milliseconds(work, repeats: int, warm_up: int) -> float:
    """Of one call."""
    times = []
    for _ in range(warm_up + repeats):
        begun = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times[warm_up:])


def measure(agent: Agent, repeats: int) -> dict[str, float]:
    """Milliseconds of a frame and of a strip."""
    networks, cfg = PlayedAgent(agent), agent.config
    frames = torch.zeros(networks.kept, 1 if cfg.env.grey else 3, cfg.env.size, cfg.env.size)
    track = networks.track(frames.to(torch.uint8), (NO_ACTION, *[0] * (networks.kept - 1)))
    world = ModelWorld(networks, seed=0)
    world.begin(track)
    take_threads(networks, track, most_threads())
    start = track.start(cfg.controller.context)
    frame = median_milliseconds(lambda: png(world.step(0).picture), repeats, 10)
    strip = median_milliseconds(
        lambda: sheet(imagine_strip(networks, start, agent.schedule, "stable", 0).frames), 10, 3
    )
    return {"frame_ms": frame, "frames_a_second": 1000 / frame, "strip_ms": strip}


def main() -> None:
    """Measure and print; the last line is JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--preset", choices=sorted(PRESETS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=60)
    args = parser.parse_args()
    if args.preset:
        agent = Agent(PRESETS[args.preset][1], 18, resolve_device(args.device))
        name = args.preset
    else:
        player = next(iter(players(args.run).values()))
        agent, name = load(player, "best", args.device)[0], player.name
    found = {key: round(value, 1) for key, value in measure(agent, args.repeats).items()}
    cuda = agent.device.type == "cuda"
    machine = torch.cuda.get_device_name() if cuda else platform.processor() or platform.machine()
    for key, value in found.items():
        print(f"{key:16} {value}")
    about = {"agent": name, "device": str(agent.device), "machine": machine}
    about |= {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    about |= {"threads": torch.get_num_threads(), "torch": torch.__version__}
    print(json.dumps(about | found))


if __name__ == "__main__":
    main()
