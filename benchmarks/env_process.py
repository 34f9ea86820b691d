"""What the process boundary of a supervised environment costs, in steps per second.

The last line is one JSON object.
"""

import argparse
import json
import subprocess
import time
from statistics import median
from typing import Literal

import gymnasium

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import make_env


def steps_per_second(env: gymnasium.Env, steps: int) -> float:
    """With the resets that fall among the steps."""
    env.reset()
    start = time.perf_counter()
    for step in range(steps):
        *_, terminated, truncated, _ = env.step(step % 3)
        if terminated or truncated:
            env.reset()
    return steps / (time.perf_counter() - start)


def make(name: str, isolation: Literal["inline", "process"]) -> gymnasium.Env:
    return make_env(EnvConfig(id=name, isolation=isolation), seed=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", nargs="+", default=["catch", "ALE/Boxing-v5"])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    rows = []
    print(f"{'env':16s} {'inline':>8s} {'process':>8s} {'cost a step':>12s}")
    for name in args.envs:
        inline, process = make(name, "inline"), make(name, "process")
        pairs = [
            [steps_per_second(env, args.steps) for env in (inline, process)]
            for _ in range(args.repeats)
        ]
        process.close()
        fast, slow = (median(column) for column in zip(*pairs, strict=True))
        cost = 1e6 * (1 / slow - 1 / fast)
        rows.append({"env": name, "inline": fast, "process": slow, "microseconds": cost})
        print(f"{name:16s} {fast:8.0f} {slow:8.0f} {cost:9.0f} us")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    print(json.dumps({"bench": "env_process", "commit": commit.strip(), "rows": rows} | vars(args)))


if __name__ == "__main__":
    main()
