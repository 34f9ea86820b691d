"""Horizon Imagination (Algorithm 1) as a plain loop over the rows of any schedule.

This is the oracle: every frame is evaluated at every row. Faster paths must agree with it.
Column t of the actions is the action that leads to imagined frame t; column 0 is taken on the
last context frame. So the actions of a row are the previous actions of its frames, unshifted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor

from horizon_imagination.schedules import moving
from horizon_imagination.stable_actions import Dice, coupled_action, stable_action
from horizon_imagination.types import NO_ACTION, Actions, Latents, Schedule, Times

Policy = Callable[[Latents, Times], Float[Tensor, "batch time action"]]
"""pi(z, tau): action probabilities at every frame, clean or noisy."""
Denoiser = Callable[[Latents, Times, Actions], Latents]
"""v_theta(z, tau, previous actions): the velocity of every frame."""


class Choice(NamedTuple):
    """Actions settled on at a row, and the policy they were drawn from."""

    action: Actions
    probs: Float[Tensor, "batch time action"]


Actor = Callable[[int, Latents, Times, Choice | None], Choice]
"""(row, imagined frames, their times, choice of the row before) -> one choice per frame but the
last, each leading to the next frame."""


class Context(NamedTuple):
    """Clean frames to start from, and the actions that led to them (the first: none)."""

    z: Latents
    prev_actions: Actions


@dataclass(frozen=True)
class Imagined:
    """What was seen and done at every row of the schedule; the last row is clean."""

    z: Float[Tensor, "row batch time channel height width"]
    actions: Int[Tensor, "row batch time"]


@torch.no_grad()
def imagine(
    denoiser: Denoiser,
    actor: Actor,
    noise: Latents,
    schedule: Schedule,
    *,
    context: Context | None = None,
    first_action: Int[Tensor, " batch"] | None = None,
) -> Imagined:
    """Turn the noise into frames the actor has acted in.

    `first_action` was taken on the last context frame; without a context there is none.
    """
    batch, horizon = noise.shape[:2]
    if (context is None) != (first_action is None):
        raise ValueError("context and first_action go together: give both or neither")
    if context is None or first_action is None:
        context = Context(noise[:, :0], torch.zeros_like(noise[:, :0, 0, 0, 0], dtype=torch.long))
        first_action = context.prev_actions.new_full((batch,), NO_ACTION)
    schedule = schedule.to(noise)
    clean = schedule.new_ones(batch, context.z.shape[1])
    z, choice, frames, actions = noise, None, [noise], []
    for row, tau_row in enumerate(schedule):
        tau = repeat(tau_row, "t -> b t", b=batch)
        if horizon > 1:
            choice = actor(row, z, tau, choice)
        later = choice.action if choice else first_action.new_zeros(batch, 0)
        actions.append(torch.cat([first_action[:, None], later], dim=1))
        if row + 1 == len(schedule):
            break
        v = denoiser(
            torch.cat([context.z, z], dim=1),
            torch.cat([clean, tau], dim=1),
            torch.cat([context.prev_actions, actions[-1]], dim=1),
        )[:, context.z.shape[1] :]
        dtau = rearrange(schedule[row + 1] - tau_row, "t -> 1 t 1 1 1")
        z = torch.where(dtau > 0, z + dtau * v, z)
        frames.append(z)
    return Imagined(torch.stack(frames), torch.stack(actions))


def stable_actor(policy: Policy, dice: Dice) -> Actor:
    """The paper's: one throw of the dice [batch, time], read at every row."""

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        probs = policy(z[:, :-1], tau[:, :-1])
        return Choice(stable_action(probs, dice), probs)

    return act


def naive_actor(policy: Policy, dice: Dice) -> Actor:
    """The ablation, literally: every action is drawn afresh at every row (dice [row, ...])."""

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        probs = policy(z[:, :-1], tau[:, :-1])
        return Choice(stable_action(probs, _of_row(dice, row)), probs)

    return act


def held_actor(policy: Policy, dice: Dice) -> Actor:
    """The ablation, fair: a fresh draw at every row until the frame it leads to is clean."""

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        probs = policy(z[:, :-1], tau[:, :-1])
        fresh = stable_action(probs, _of_row(dice, row))
        if previous is None:
            return Choice(fresh, probs)
        return Choice(torch.where(tau[:, 1:] == 1, previous.action, fresh), probs)

    return act


def coupled_actor(policy: Policy, first: Dice, dice: Dice) -> Actor:
    """Maximal coupling from row to row, once the frame an action leads to has started.

    Until then the action is read from the dice `first`, so that the chain begins with an exact
    draw whenever its frame begins to move.
    """

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        probs = policy(z[:, :-1], tau[:, :-1])
        begun = stable_action(probs, first)
        if previous is None:
            return Choice(begun, probs)
        kept = coupled_action(previous.action, previous.probs, probs, _of_row(dice, row))
        return Choice(torch.where(tau[:, 1:] > 0, kept, begun), probs)

    return act


def recorded_actor(actions: Actions) -> Actor:
    """Actions given in advance, for measuring generation apart from any policy."""

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        return Choice(actions, torch.zeros(*actions.shape, 0, device=actions.device))

    return act


def policy_entries(
    schedule: Schedule, *, clean_level: bool, first_action: bool = True
) -> Bool[Tensor, "row horizon"]:
    """Which (row, action) pairs the policy is trained on: those whose frame moves at that row.

    `clean_level` adds every action at the clean row, as the published runs do. `first_action` is
    False where imagination starts without a context, and column 0 is no action.
    """
    entries = torch.cat([moving(schedule), torch.full_like(schedule[-1:], clean_level).bool()])
    entries[:, 0] &= first_action
    return entries


def late_change_rate(imagined: Imagined, schedule: Schedule) -> Float[Tensor, ""]:
    """Share of actions that differ from the one that last moved the frame they lead to."""
    last_row = (moving(schedule).int().cumsum(0).argmax(0)).to(imagined.actions.device)
    index = repeat(last_row, "t -> 1 b t", b=imagined.actions.shape[1])
    final_move = imagined.actions.gather(0, index)[0]
    return (imagined.actions[-1] != final_move).float().mean()


def change_count(imagined: Imagined, schedule: Schedule) -> Float[Tensor, ""]:
    """Mean number of times an action changes while the frame it leads to is moving."""
    moves = moving(schedule).to(imagined.actions.device)
    changed = imagined.actions[1:] != imagined.actions[:-1]
    return (changed & rearrange(moves, "row t -> row 1 t")).float().sum(0).mean()


def _of_row(dice: Dice, row: int) -> Dice:
    return Dice(dice.omega[row], dice.order[row])
