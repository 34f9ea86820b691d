"""Size and time of what `horizon export` writes: a step of the policy, a frame of the page.

python benchmarks/export.py                          # the agent of catch, and the paper's sizes
python benchmarks/export.py --agents catch demo      # agents of the package, presets (untrained)
python benchmarks/export.py --page                   # frames a second of the page, in Chromium

A step takes one frame as bytes and the recurrent state, and returns the policy and the next state,
on one thread. A frame of the page is two denoising steps, a decoding, and a reading by
actor, critic and reward model. Medians after a warm-up; the 95th percentile beside them.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.export.onnx_file import traced, write_onnx, write_program
from horizon_imagination.export.policy import INT8, ONNX, PROGRAM, quantize
from horizon_imagination.export.policy_graph import policy_graph
from horizon_imagination.export.score import StepFn, onnx_step, torch_step
from horizon_imagination.export.web import PAGE, export_web
from horizon_imagination.play.library import BUNDLED, FOLDER
from horizon_imagination.presets import PRESETS
from horizon_imagination.provenance import machine


def milliseconds(step: StepFn, shape: tuple[int, ...], hidden: int, repeats: int, warm_up: int):
    """Median and 95th percentile of a step."""
    dice, times = np.random.default_rng(0), []
    h, c = (np.zeros((1, hidden), np.float32) for _ in range(2))
    for _ in range(warm_up + repeats):
        frames = dice.integers(0, 256, (1, *shape), dtype=np.uint8)
        begun = time.perf_counter()
        _, h, c = step(frames, h, c)
        times.append(1000 * (time.perf_counter() - begun))
    found = np.percentile(times[warm_up:], [50, 95])
    return {"median_ms": round(float(found[0]), 2), "p95_ms": round(float(found[1]), 2)}


def measure(agent: Agent, repeats: int) -> dict[str, dict[str, float]]:
    """Size and time of every file, and the time of the agent's own networks."""
    graph, cfg = policy_graph(agent), agent.config.env
    shape, hidden = (cfg.size, cfg.size, cfg.frame_channels), agent.actor.lstm.hidden
    found = {"torch": milliseconds(torch_step(graph.module), shape, hidden, repeats, 20)}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        program = traced(graph)
        write_program(program, folder / PROGRAM)
        write_onnx(program, graph, folder / ONNX)
        quantize(folder / ONNX, folder / INT8)
        for name in (ONNX, INT8):
            found[name] = milliseconds(onnx_step(folder / name), shape, hidden, repeats, 20)
        for name in (ONNX, INT8, PROGRAM):
            found.setdefault(name, {})["megabytes"] = (folder / name).stat().st_size / 1e6
    return found


def page(name: str) -> dict[str, float | str]:
    """Size, time to load and frames a second of the page of an agent that comes along."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from chromium import Page

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        export_web(Agent.load(FOLDER / name, "cpu"), folder)
        with Page(1280, 860) as browser:
            begun = time.perf_counter()
            browser.open((folder / PAGE).as_uri())
            browser.wait("globalThis.horizon", 120)
            seconds = time.perf_counter() - begun
            rates, label = (
                browser.get("horizon.framesASecond()"),
                browser.get("horizon.model.label"),
            )
        size = (folder / PAGE).stat().st_size
    found = {f"frames_a_second_{name}": round(rate, 1) for name, rate in rates.items()}
    return {"megabytes": size / 1e6, "loads_s": round(seconds, 1), "runs_on": label} | found


def main() -> None:
    """Measure and print; the last line is JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--agents", nargs="+", default=["catch", "paper"])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results: dict = {}
    if args.page:
        results["page"], args.agents = page("catch"), []
        print(results["page"])
    for name in args.agents:
        if name in BUNDLED:
            agent = Agent.load(FOLDER / name, "cpu")
        else:
            agent = Agent(PRESETS[name][1], 18, torch.device("cpu"))
        results[name] = measure(agent, args.repeats)
        for part, numbers in results[name].items():
            told = ", ".join(f"{key} {value:.2f}" for key, value in numbers.items())
            print(f"{name:8} {part:18} {told}", flush=True)
    about = {"machine": machine(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps(about | {"torch": torch.__version__, "results": results}))


if __name__ == "__main__":
    main()
