"""Imagination of an agent: from a real context to frames, actions and the state it began in."""

from typing import NamedTuple

import torch
from einops import repeat

from horizon_imagination.engine.draws import Draws, Sampler, draw, plain_actor
from horizon_imagination.engine.fused import FusedDenoiser
from horizon_imagination.engine.rollout import WindowedActor, imagine_windowed, real_frames
from horizon_imagination.imagination import Context, Imagined, imagine
from horizon_imagination.models.actor_critic import Actor
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.stable_actions import Dice, stable_action
from horizon_imagination.types import NO_ACTION, Actions, Flags, Latents, Schedule


class Start(NamedTuple):
    """A left-padded real context: its last frame is always real."""

    z: Latents
    actions: Actions
    """`actions[t]` was taken on `z[t]`; the last one is not used."""
    mask: Flags

    def world_model_context(self, frames: int) -> tuple[Context, Flags | None]:
        """The last frames, and which of them are real (None if all must be)."""
        z, mask = self.z[:, -frames:], self.mask[:, -frames:]
        previous = torch.full_like(self.actions[:, -frames:], NO_ACTION)
        if frames > 1:
            before = self.actions[:, -frames:-1]
            previous[:, 1:] = torch.where(mask[:, :-1], before, NO_ACTION)
        return Context(z, previous), (None if frames == 1 else mask)


def dream(
    denoiser: Denoiser | FusedDenoiser,
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
    """Imagine what the actor does after a real context, from these draws or from new ones."""
    batch, _, channels, height, width = start.z.shape
    shape = (batch, schedule.shape[1], channels, height, width)
    if draws is None:
        draws = draw(shape, len(schedule), actor.head.out_features, sampler, rng)
    with torch.no_grad():
        logits, states = actor(start.z, None, None, start.mask)
        first = stable_action(
            logits[:, -1].float().softmax(-1), Dice(draws.dice.omega[:, 0], draws.dice.order[:, 0])
        )
        state = states.at(-1)
        frames, real = start.world_model_context(context)
        if isinstance(denoiser, FusedDenoiser):
            denoiser.refresh()
        if window:
            return imagine_windowed(
                denoiser,
                WindowedActor(actor, sampler, state, first, draws, schedule),
                draws.noise,
                schedule,
                frames,
                real=real,
            )
        return _plain(denoiser, actor, sampler, schedule, draws, frames, real, first, state)


def _plain(
    denoiser, actor, sampler, schedule, draws: Draws, frames, real, first, state
) -> Imagined:
    """The same through the plain loop."""

    def velocity(z: Latents, tau, prev_actions: Actions) -> Latents:
        seen = None if real is None else real_frames(real, z.shape[1])
        return denoiser.window(z, tau, prev_actions, cache=None, start=0, real=seen)

    return imagine(
        velocity,
        plain_actor(sampler, lambda z, tau: actor.policy(z, tau, state), draws),
        draws.noise,
        schedule,
        context=frames,
        first_action=first,
    )


def left_padded(z: Latents, actions: Actions, mask: Flags) -> Start:
    """Move the padding of right-padded sequences to the front."""
    length = mask.shape[1]
    index = torch.arange(length, device=mask.device)
    index = repeat(index, "t -> b t", b=len(mask)) - (length - mask.sum(1, keepdim=True))
    real, index = index >= 0, index.clamp(min=0)
    rows = torch.arange(len(mask), device=mask.device)[:, None]
    return Start(z[rows, index], actions[rows, index], real)
