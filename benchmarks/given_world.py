"""What a world model without a cache costs: the plain loop beside the window, in one run.

The embedded world model of the preset small-catch imagines through its window and through the
plain loop, which is all that a model without a cache has. Calls take turns, so that a busy
machine slows both. The last line is one JSON object.
"""

import argparse
import json
import time
from statistics import median

import torch

from horizon_imagination.agent import Agent
from horizon_imagination.engine.dream import Start, dream
from horizon_imagination.presets import PRESETS
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.windows import frame_evaluations


def seconds(agent: Agent, start: Start, horizon: int, budget: int, window: bool) -> float:
    """Of one imagination with the policy."""
    schedule, begun = horizon_schedule(horizon, budget, 2.0), time.perf_counter()
    dream(
        agent.world_model, agent.actor, start, schedule, context=1, sampler="stable",
        window=window, rng=torch.Generator().manual_seed(0),
    )  # fmt: skip
    return time.perf_counter() - begun


def main() -> None:
    """Medians and the ratio of both paths, for three lengths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    agent, rows = Agent(PRESETS["small-catch"][1], 3, torch.device("cpu")), []
    z = torch.rand(32, 2, *agent.latent_shape) * 2 - 1
    start = Start(z, torch.zeros(32, 2).long(), torch.ones(32, 2).bool())
    for horizon, budget in ((3, 2), (8, 8), (16, 16)):
        seconds(agent, start, horizon, budget, True)
        pairs = [
            [seconds(agent, start, horizon, budget, window) for window in (False, True)]
            for _ in range(args.repeats)
        ]
        plain, window = (median(column) for column in zip(*pairs, strict=True))
        few, every = frame_evaluations(horizon_schedule(horizon, budget, 2.0), 1)
        row = {"horizon": horizon, "budget": budget, "plain_s": plain, "window_s": window}
        row |= {"ratio": median(p / w for p, w in pairs), "frames_ratio": every / few}
        rows.append(row | {k: round(v, 4) for k, v in row.items() if isinstance(v, float)})
    print(json.dumps({"bench": "given_world", "torch": torch.__version__, "rows": rows}))


if __name__ == "__main__":
    main()
