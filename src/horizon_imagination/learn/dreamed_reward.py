"""Whether imagination pays and ends as the world did: recorded actions, dreamed and real.

Frames that are blurred, or actions that are ignored, show as rewards and ends that are missing or
made up; a policy can only learn from those that are there. What the reward model reads off the real
frames tells whose fault it is: if that is right, the frames'.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.data.segment import shift_right
from horizon_imagination.engine.dream import imagine_recorded
from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import Context
from horizon_imagination.learn.world_model import Experience
from horizon_imagination.types import Schedule
from horizon_imagination.world_model import WorldModel

SEGMENTS = 32
"""So many are followed."""


@torch.no_grad()
def dreamed_reward(
    world: WorldModel,
    batch: Experience,
    schedule: Schedule,
    rng: torch.Generator,
) -> dict[str, Float[Tensor, ""]]:
    """What segments paid, what the world model reads off them, and what they pay if they are
    imagined from their first frames under the actions that were taken: means over segments.

    What the last quarter of the horizon paid is told apart: there the past is longest, and errors
    add up. The same three for ends: the share of segments that end, or the chance of it. All draws
    are the CPU's."""
    segments, length, *frame = batch.z.shape
    horizon = schedule.shape[1]
    context = length - horizon
    noise = uniform_noise(segments, horizon, *frame, rng=rng).to(batch.z.device)
    start = Context(batch.z[:, :context], batch.prev_actions[:, :context])
    imagined = imagine_recorded(world, start, batch.prev_actions[:, context:], noise, schedule)
    dream = torch.cat([batch.z[:, :context], imagined.z[-1]], dim=1)
    told = {
        "imagined": world.reward_and_end(dream),
        "read": world.reward_and_end(batch.z),
        "real": (shift_right(batch.reward, 0.0), shift_right(batch.terminated, False).float()),
    }
    mask, late, sums = batch.mask[:, context:], horizon - max(1, horizon // 4), {}
    for name, (reward, end) in told.items():
        paid, lasts = reward[:, context:] * mask, 1 - end[:, context:] * mask
        sums[f"{name}_reward"] = paid.sum()
        sums[f"late_{name}_reward"] = paid[:, late:].sum()
        sums[f"{name}_end"] = (1 - lasts.prod(1)).sum()
    return {name: total / segments for name, total in sums.items()}
