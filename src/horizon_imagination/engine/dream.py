"""Imagination of an agent, from a real context: with its own actions, or with recorded ones."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from einops import repeat
from jaxtyping import Bool
from torch import Tensor

from horizon_imagination.engine.device_copies import device_copy
from horizon_imagination.engine.draws import Draws, Sampler, plain_actor, sample_draws
from horizon_imagination.engine.rollout import (
    RecordedActor,
    WindowedActor,
    imagine_windowed,
    real_frames,
)
from horizon_imagination.imagination import (
    Context,
    Imagined,
    VelocityFn,
    imagine,
    recorded_actor,
)
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.schedules import changeable
from horizon_imagination.stable_actions import Dice
from horizon_imagination.types import (
    Actions,
    Flags,
    Latents,
    Schedule,
    Times,
    entrywise,
    no_action,
    zero_action,
)
from horizon_imagination.world_model import WindowedWorldModel, WorldModel


class Start(NamedTuple):
    """A left-padded real context: its last frame is always real."""

    z: Latents
    actions: Actions
    """`actions[t]` was taken on `z[t]`; the last one is not used."""
    mask: Flags

    def world_model_context(self, frames: int) -> tuple[Context, Flags | None]:
        """The last frames, and a mask of the real ones (None for one: it is real)."""
        z, mask = self.z[:, -frames:], self.mask[:, -frames:]
        none = no_action(self.actions)
        previous = torch.full_like(self.actions[:, -frames:], none)
        if frames > 1:
            before = self.actions[:, -frames:-1]
            previous[:, 1:] = torch.where(entrywise(mask[:, :-1], before), before, none)
        return Context(z, previous), (None if frames == 1 else mask)


def dream(
    world: WorldModel,
    actor: Actor,
    start: Start,
    schedule: Schedule,
    *,
    context: int,
    sampler: Sampler,
    window: bool,
    rng: torch.Generator,
    draws: Draws | None = None,
) -> Imagined:
    """Imagine what the actor does after a real context, from these draws or from new ones.

    A world model without a cache is imagined by the plain loop, whatever `window` says.
    """
    batch, _, channels, height, width = start.z.shape
    shape = (batch, schedule.shape[1], channels, height, width)
    if draws is None:
        draws = sample_draws(shape, len(schedule), actor.action_space, sampler, rng)
    with torch.no_grad():
        logits, states = actor(start.z, None, None, start.mask)
        space = actor.action_space
        first = space.stable(
            space.policy(logits[:, -1].float()), Dice(*(part[:, 0] for part in draws.dice))
        )
        state = states.at(-1)
        frames, real = start.world_model_context(context)
        if window and isinstance(world, WindowedWorldModel):
            return imagine_windowed(
                world,
                WindowedActor(actor, sampler, state, first, draws, schedule),
                draws.noise,
                schedule,
                frames,
                real=real,
            )
        return _plain(world, actor, sampler, schedule, draws, frames, real, first, state)


def _plain(
    world: WorldModel, actor, sampler, schedule, draws: Draws, frames, real, first, state
) -> Imagined:
    """The same imagination by the plain loop."""
    return imagine(
        _velocity(world, real),
        plain_actor(sampler, lambda z, tau: actor.policy(z, tau, state), draws, actor.action_space),
        draws.noise,
        device_copy(schedule, draws.noise),
        context=frames,
        first_action=first,
    )


def _velocity(world: WorldModel, real: Flags | None) -> VelocityFn:
    """The velocities as a function of whole sequences; padding of the context is masked."""

    def velocity(z: Latents, tau: Times, prev_actions: Actions) -> Latents:
        seen = None if real is None else real_frames(real, z.shape[1])
        return world.velocity(z, tau, prev_actions, seen)

    return velocity


def changing_actions(schedule: Schedule, first: Actions, last: Actions) -> list[Actions]:
    """Actions for every row: each is the first one while its frame is `changeable`, then the last.

    Once a frame is half clean, or moves for the last time, its action stays.
    """
    early = changeable(schedule).to(last.device)
    rows = (entrywise(row.expand(last.shape[:2]), last) for row in early)
    return [torch.where(row, first, last) for row in rows]


@torch.no_grad()
def imagine_recorded(
    world: WorldModel,
    context: Context,
    actions: Actions | Sequence[Actions],
    noise: Latents,
    schedule: Schedule,
    *,
    real: Bool[Tensor, "batch context"] | None = None,
    window: bool = True,
    record: bool = False,
) -> Imagined:
    """Imagine frames under given actions: `actions[:, t]` leads to frame t, at every row, or at
    row b `actions[b][:, t]` if there is a tensor for every row.

    Where a recording has no action (after its end) it is action 0. `real` is False where a
    left-padded context has no frame. Without `record` a window keeps the clean row alone.
    """
    if isinstance(actions, Tensor):
        rows = [zero_action(actions)] * len(schedule)
    else:
        rows = [zero_action(row) for row in actions]
    if window and isinstance(world, WindowedWorldModel):
        actor = RecordedActor(rows)
        return imagine_windowed(world, actor, noise, schedule, context, real=real, record=record)
    return imagine(
        _velocity(world, real),
        recorded_actor([row[:, 1:] for row in rows]),
        noise,
        device_copy(schedule, noise),
        context=context,
        first_action=rows[0][:, 0],
    )


def left_padded(z: Latents, actions: Actions, mask: Flags) -> Start:
    """Move the padding of right-padded sequences to the front."""
    length = mask.shape[1]
    index = torch.arange(length, device=mask.device)
    index = repeat(index, "t -> b t", b=len(mask)) - (length - mask.sum(1, keepdim=True))
    real, index = index >= 0, index.clamp(min=0)
    rows = torch.arange(len(mask), device=mask.device)[:, None]
    return Start(z[rows, index], actions[rows, index], real)
