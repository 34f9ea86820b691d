"""Agent steps per second of the Atari wrapper against the bare emulator.

Both hold random actions for four frames; the bare one fetches the screen and does nothing with it.
The last line is one JSON object.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from horizon_imagination.config import AtariConfig
from horizon_imagination.envs.atari import PAPER_GAMES, Atari


def bare(env: Atari, actions: list[int]) -> None:
    """The emulator alone."""
    env.ale.reset_game()
    for action in actions:
        for _ in range(env.protocol.frame_skip):
            env.ale.act(env.actions[action])
        env.ale.getScreenRGB()
        if env.ale.game_over():
            env.ale.reset_game()


def wrapped(env: Atari, actions: list[int]) -> None:
    """What training calls."""
    env.reset()
    for action in actions:
        *_, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()


def steps_per_second(play: Callable[[Atari, list[int]], None], env: Atari, steps: int) -> float:
    actions = np.random.default_rng(0).integers(len(env.actions), size=steps).tolist()
    start = time.perf_counter()
    play(env, actions)
    return steps / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    rows = []
    print(f"{'game':14s} {'bare':>8s} {'wrapper':>8s} {'ratio':>6s}   steps/s at frame skip 4")
    for game in PAPER_GAMES:
        env = Atari(game, 64, AtariConfig(max_noops=0))
        pairs = [  # side by side, so that a busy machine slows both alike
            [steps_per_second(play, env, args.steps) for play in (bare, wrapped)]
            for _ in range(args.repeats)
        ]
        fast, slow = (median(column) for column in zip(*pairs, strict=True))
        rows.append({"game": game, "bare": fast, "wrapper": slow, "ratio": slow / fast})
        print(f"{game:14s} {fast:8.0f} {slow:8.0f} {slow / fast:6.2f}")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    print(
        json.dumps({"bench": "atari_wrapper", "commit": commit.strip(), "rows": rows} | vars(args))
    )


if __name__ == "__main__":
    main()
