"""Imagination over the cached window against the plain loop, side by side in one run.

Why: the window must pay for its bookkeeping on two CPU cores, not only in counted frames. Both
paths imagine the same trajectories from the same draws, policy included; they take turns, so that
a busy machine slows both. The last line is one JSON object.
"""

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from horizon_imagination.engine.dream import Start, dream
from horizon_imagination.engine.embedded import EmbeddedWorldModel
from horizon_imagination.imagination import Imagined
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.models.tokenizer import Tokenizer
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.windows import frame_evaluations

HORIZON, CHANNELS, SIZE, ACTIONS = 32, 16, 8, 18
REQUIRED = {(4, 16): 3.0, (4, 32): None, (1, 32): 8.0}
"""Least ratio by (decay horizon, budget)."""


def build(batch: int, context: int) -> tuple[EmbeddedWorldModel, Actor, Start]:
    """Four layers of width 256 and 16 tokens a frame; gates opened so that all parts matter."""
    torch.manual_seed(0)
    denoiser = Denoiser(
        channels=CHANNELS, size=SIZE, action_space=ACTIONS, layers=4, heads=4, head_dim=64,
        patch_size=2, mlp_ratio=4, prediction="velocity", action_tokens=False, normalize=False,
    )  # fmt: skip
    for name, parameter in denoiser.named_parameters():
        if "modulate" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    actor = Actor(
        channels=CHANNELS, size=SIZE, cnn_channels=64, cnn_out_channels=16, hidden=256,
        outputs=ACTIONS, use_tau=True, normalize=False,
    )  # fmt: skip
    z = torch.rand(batch, context, CHANNELS, SIZE, SIZE) * 2 - 1
    actions = torch.randint(ACTIONS, (batch, context))
    tokenizer = Tokenizer(  # neither it nor the reward model is timed
        size=2 * SIZE, image_channels=3, patch_size=1, channels=8, multipliers=(1,),
        encoder_blocks=1, decoder_blocks=1, attention_at=(), latent_channels=CHANNELS,
        norm_groups=2,
    )  # fmt: skip
    reward = RewardModel(
        channels=CHANNELS, size=SIZE, cnn_channels=4, cnn_out_channels=2, hidden=4, normalize=False
    )
    world = EmbeddedWorldModel(tokenizer, denoiser, reward)
    return world, actor, Start(z, actions, torch.ones(batch, context, dtype=torch.bool))


def timed(f: Callable[[], Imagined]) -> tuple[float, Imagined]:
    """Seconds of one call, and what it returned."""
    start = time.perf_counter()
    result = f()
    return time.perf_counter() - start, result


def compare(
    world: EmbeddedWorldModel, actor: Actor, start: Start, decay: int, budget: int, repeats: int
) -> dict:
    """Medians of both paths after one warm-up each, and how far their frames are apart."""
    schedule = horizon_schedule(HORIZON, budget, decay)

    def path(window: bool) -> Callable[[], Imagined]:
        return lambda: dream(
            world, actor, start, schedule, context=1, sampler="stable", window=window,
            rng=torch.Generator().manual_seed(1),
        )  # fmt: skip

    plain, fast = path(window=False), path(window=True)
    difference = float((plain().z[-1] - fast().z[-1]).abs().max())
    pairs = [(timed(plain)[0], timed(fast)[0]) for _ in range(repeats)]
    plain_s, window_s = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(p / w for p, w in pairs)
    windowed, everything = frame_evaluations(schedule, 1)
    return {
        "decay_horizon": decay,
        "budget": budget,
        "plain_s": round(plain_s, 4),
        "window_s": round(window_s, 4),
        "ratio": round(ratio, 2),
        "frames_ratio": round(everything / windowed, 2),
        "difference": difference,
        "required": REQUIRED[decay, budget],
    }


def machine() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    names = [x for x in info.read_text().splitlines() if "model name" in x] if info.exists() else []
    name = names[0].split(":")[1].strip() if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def main() -> None:
    """Print a table, then the JSON line; exit 1 where a required ratio is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=20, help="real frames the actor sees")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"{machine()}; {args.threads} threads; torch {torch.__version__}")
    header = ("(nu, B)", "plain s", "window s", "ratio", "frames", "needs")
    print(" ".join(f"{name:>9s}" for name in header))
    networks, rows = build(args.batch, args.context), []
    for decay, budget in REQUIRED:
        row = compare(*networks, decay, budget, args.repeats)
        rows.append(row)
        print(
            f"{f'({decay}, {budget})':>9s} {row['plain_s']:9.3f} {row['window_s']:9.3f} "
            f"{row['ratio']:8.1f}x {row['frames_ratio']:8.1f}x {row['required'] or '-':>9}"
        )
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    about = {"bench": "engine", "commit": commit.strip(), "machine": machine()}
    about |= {"torch": torch.__version__, "horizon": HORIZON, "layers": 4, "width": 256}
    print(json.dumps(about | vars(args) | {"rows": rows}))
    missed = [row for row in rows if row["required"] and row["ratio"] < row["required"]]
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
