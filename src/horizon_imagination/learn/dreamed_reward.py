"""Whether imagination pays what the world paid: the rewards of recorded actions, dreamed and real.

Frames that are blurred, or actions that are not heard, show as rewards that are missing or made up;
a policy can only learn from those that are there. What the reward model reads off the real frames
tells whose fault it is: if that is right, the frames'.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.data.segment import shift_right
from horizon_imagination.engine.rollout import RecordedActor, imagine_windowed
from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import Context
from horizon_imagination.learn.world_model import Experience
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.returns import symexp
from horizon_imagination.types import Schedule

SEGMENTS = 32
"""So many are followed."""


@torch.no_grad()
def dreamed_reward(
    denoiser: Denoiser,
    reward: RewardModel,
    batch: Experience,
    schedule: Schedule,
    rng: torch.Generator,
) -> dict[str, Float[Tensor, ""]]:
    """What segments paid, what the reward model says they paid, and what they pay if they are
    imagined from their first frames under the actions that were taken: means over segments.
    All draws are the CPU's."""
    segments, length, *frame = batch.z.shape
    horizon = schedule.shape[1]
    context = length - horizon
    noise = uniform_noise(segments, horizon, *frame, rng=rng).to(batch.z.device)
    imagined = imagine_windowed(
        denoiser,
        RecordedActor(batch.prev_actions[:, context:].clamp(min=0)),
        noise,
        schedule,
        Context(batch.z[:, :context], batch.prev_actions[:, :context]),
        record=False,
    )
    dream = torch.cat([batch.z[:, :context], imagined.z[-1]], dim=1)
    paid = {
        "imagined_reward": symexp(reward.predict(dream)[0].float()),
        "read_reward": symexp(reward.predict(batch.z)[0].float()),
        "real_reward": shift_right(batch.reward, 0.0),
    }
    led_to = batch.mask[:, context:]
    return {name: (p[:, context:] * led_to).sum() / segments for name, p in paid.items()}
