"""Whether imagination pays what the world paid: the rewards of recorded actions, dreamed and real.

Frames that are blurred, or actions that are ignored, show as rewards that are missing or made up;
a policy can only learn from those that are there. What the reward model reads off the real frames
tells whose fault it is: if that is right, the frames'.
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
    add up. All draws are the CPU's."""
    segments, length, *frame = batch.z.shape
    horizon = schedule.shape[1]
    context = length - horizon
    noise = uniform_noise(segments, horizon, *frame, rng=rng).to(batch.z.device)
    start = Context(batch.z[:, :context], batch.prev_actions[:, :context])
    imagined = imagine_recorded(world, start, batch.prev_actions[:, context:], noise, schedule)
    dream = torch.cat([batch.z[:, :context], imagined.z[-1]], dim=1)
    paid = {
        "imagined_reward": world.reward_and_end(dream)[0],
        "read_reward": world.reward_and_end(batch.z)[0],
        "real_reward": shift_right(batch.reward, 0.0),
    }
    each = {name: p[:, context:] * batch.mask[:, context:] for name, p in paid.items()}
    late = horizon - max(1, horizon // 4)
    sums = {name: p.sum() for name, p in each.items()}
    sums |= {f"late_{name}": p[:, late:].sum() for name, p in each.items()}
    return {name: total / segments for name, total in sums.items()}
