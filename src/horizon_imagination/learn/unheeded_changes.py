"""Whether a dream heeds an action that changes while the frame it leads to is denoised.

The actions of a policy change as the frames it sees become clear. A denoiser that was trained on
frames of one action each may go on where the first action led, or end between the two. Then what
a policy does in dreams is not what it would do outside, and it may be paid for the difference.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.actions import ActionSpace
from horizon_imagination.engine.dream import changing_actions, imagine_recorded
from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import Context
from horizon_imagination.learn.world_model import Experience
from horizon_imagination.schedules import changeable
from horizon_imagination.types import Actions, Schedule, zero_action
from horizon_imagination.world_model import WorldModel

USED = 0.01
"""Share of the error that other actions must add, so that there is something to heed."""


@torch.no_grad()
def unheeded_changes(
    world: WorldModel,
    batch: Experience,
    schedule: Schedule,
    actions: ActionSpace,
    rng: torch.Generator,
) -> dict[str, Float[Tensor, ""]]:
    """What is left of a first action in frames that end under another one: 0 is nothing, 1 all.

    Segments are imagined from their first frames, three times from the same noise: under the
    actions that were taken, under other ones, and under other ones that become those that were
    taken while the frames are denoised. It is the error that is left in the third, as a share of
    the error of the second; 0 as long as the world hardly uses its actions. Nothing where the
    schedule leaves no room for a change. All draws are the CPU's.
    """
    early = changeable(schedule)
    if not early.any():
        return {}
    segments, length, *frame = batch.z.shape
    horizon = schedule.shape[1]
    context = length - horizon
    noise = uniform_noise(segments, horizon, *frame, rng=rng).to(batch.z.device)
    start = Context(batch.z[:, :context], batch.prev_actions[:, :context])
    taken = zero_action(batch.prev_actions[:, context:])
    other = actions.another(taken, rng)
    other[:, 0] = taken[:, 0]
    seen = batch.mask[:, context:] & early.any(0).to(batch.mask.device)

    def error(given: Actions | list[Actions]) -> Float[Tensor, ""]:
        dreamed = imagine_recorded(world, start, given, noise, schedule).z[-1]
        return ((dreamed - batch.z[:, context:]).square().mean((2, 3, 4)) * seen).sum()

    true, wrong, changed = (
        error(taken),
        error(other),
        error(changing_actions(schedule, other, taken)),
    )
    added = wrong - true
    share = (changed - true) / torch.where(added > USED * true, added, torch.inf)
    return {"unheeded_changes": share}
