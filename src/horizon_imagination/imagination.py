"""Horizon Imagination (Algorithm 1) as a plain loop over the rows of any schedule.

This is the oracle: every frame is evaluated at every row. Faster paths must agree with it.
Column t of the actions is the action that leads to imagined frame t; column 0 is taken on the
last context frame. So the actions of a row are the previous actions of its frames, unshifted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from horizon_imagination.schedules import check_schedule, moving
from horizon_imagination.stable_actions import Dice, coupled_action, stable_action
from horizon_imagination.types import (
    NO_ACTION,
    Action,
    Actions,
    Latents,
    Probs,
    Schedule,
    Times,
    entrywise,
)

PolicyFn = Callable[[Latents, Times], Float[Tensor, "batch time action"]]
"""pi(z, tau): the policy at every frame, clean or noisy: probabilities of the actions, or the
means and deviations of a Gaussian."""
VelocityFn = Callable[[Latents, Times, Actions], Latents]
"""v_theta(z, tau, previous actions): the velocity of every frame."""
ReadFn = Callable[[Probs, Dice], Actions]
"""(policy, dice) -> actions: `stable_action`, or the same of another action space."""
CoupleFn = Callable[[Actions, Probs, Probs, Dice], Actions]
"""(actions before, policy before, policy, dice) -> actions."""


class Choice(NamedTuple):
    """Actions settled on at a row, and the policy they were drawn from."""

    action: Actions
    probs: Float[Tensor, "batch time action"]


ActorFn = Callable[[int, Latents, Times, Choice | None], Choice]
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
    actions: Shaped[Tensor, "row batch time *entry"]


@torch.no_grad()
def imagine(
    denoiser: VelocityFn,
    actor: ActorFn,
    noise: Latents,
    schedule: Schedule,
    *,
    context: Context | None = None,
    first_action: Action | None = None,
) -> Imagined:
    """Turn the noise into frames the actor has acted in.

    `first_action` was taken on the last context frame; without a context there is none. The
    schedule, the first policy and the shape of velocities are checked.
    """
    batch, horizon = noise.shape[:2]
    if not _capturing():
        check_schedule(schedule, horizon)
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
            if row == 0 and choice.action.ndim == 2 and not _capturing():
                _check_policy(choice.probs)
        later = choice.action if choice else first_action[:, None][:, :0]
        actions.append(torch.cat([first_action[:, None], later], dim=1))
        if row + 1 == len(schedule):
            break
        seen = torch.cat([context.z, z], dim=1)
        v = denoiser(
            seen,
            torch.cat([clean, tau], dim=1),
            torch.cat([context.prev_actions, actions[-1]], dim=1),
        )
        if v.shape != seen.shape:
            raise ValueError(
                f"the denoiser returned velocities of shape {tuple(v.shape)} for frames of shape "
                f"{tuple(seen.shape)}: expected one velocity per number"
            )
        v = v[:, context.z.shape[1] :]
        dtau = rearrange(schedule[row + 1] - tau_row, "t -> 1 t 1 1 1")
        z = torch.where(dtau > 0, z + dtau * v, z)
        frames.append(z)
    return Imagined(torch.stack(frames), torch.stack(actions))


def stable_actor(policy: PolicyFn, dice: Dice, read: ReadFn = stable_action) -> ActorFn:
    """The paper's: one throw of the dice [batch, time], read at every row."""

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        probs = policy(z[:, :-1], tau[:, :-1])
        return Choice(read(probs, dice), probs)

    return act


def naive_actor(policy: PolicyFn, dice: Dice, read: ReadFn = stable_action) -> ActorFn:
    """The ablation, literally: every action is drawn afresh at every row (dice [row, ...])."""

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        probs = policy(z[:, :-1], tau[:, :-1])
        return Choice(read(probs, _of_row(dice, row)), probs)

    return act


def held_actor(policy: PolicyFn, dice: Dice, read: ReadFn = stable_action) -> ActorFn:
    """The ablation, fair: a fresh draw at every row until the frame it leads to is clean."""

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        probs = policy(z[:, :-1], tau[:, :-1])
        fresh = read(probs, _of_row(dice, row))
        if previous is None:
            return Choice(fresh, probs)
        held = entrywise(tau[:, 1:] == 1, fresh)
        return Choice(torch.where(held, previous.action, fresh), probs)

    return act


def coupled_actor(
    policy: PolicyFn,
    first: Dice,
    dice: Dice,
    read: ReadFn = stable_action,
    couple: CoupleFn = coupled_action,
) -> ActorFn:
    """Maximal coupling from row to row, once the frame an action leads to has started.

    Until then the action is read from the dice `first`, so that the chain begins with an exact
    draw whenever its frame begins to move.
    """

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        probs = policy(z[:, :-1], tau[:, :-1])
        begun = read(probs, first)
        if previous is None:
            return Choice(begun, probs)
        kept = couple(previous.action, previous.probs, probs, _of_row(dice, row))
        return Choice(torch.where(entrywise(tau[:, 1:] > 0, kept), kept, begun), probs)

    return act


def recorded_actor(actions: Actions | Sequence[Actions]) -> ActorFn:
    """Actions given in advance, the same at every row or each row's own, for measuring generation
    apart from any policy."""

    def act(row: int, z: Latents, tau: Times, previous: Choice | None) -> Choice:
        given = actions if isinstance(actions, Tensor) else actions[row]
        return Choice(given, torch.zeros(*given.shape[:2], 0, device=given.device))

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
    """Share of actions that differ from the one that last moved the frame they lead to.

    Of vectors it is the mean distance between the two.
    """
    last_row = (moving(schedule).int().cumsum(0).argmax(0)).to(imagined.actions.device)
    frame = torch.arange(len(last_row), device=last_row.device)
    final_move = rearrange(imagined.actions[last_row, :, frame], "t b ... -> 1 b t ...")
    return difference(imagined.actions[-1:], final_move).mean()


def change_count(imagined: Imagined, schedule: Schedule) -> Float[Tensor, ""]:
    """Mean number of times an action changes while the frame it leads to is moving.

    Of vectors it is the mean length of the path they take.
    """
    moves = moving(schedule).to(imagined.actions.device)
    changed = difference(imagined.actions[1:], imagined.actions[:-1])
    return (changed * rearrange(moves, "row t -> row 1 t")).sum(0).mean()


def difference(
    a: Shaped[Tensor, "row batch time *entry"], b: Shaped[Tensor, "row batch time *entry"]
) -> Float[Tensor, "row batch time"]:
    """How far two actions are apart: 1 if they differ, or the Euclidean distance of vectors."""
    if a.is_floating_point():
        return (a - b).norm(dim=-1)
    return (a != b if a.ndim == 3 else (a != b).any(-1)).float()


def _check_policy(probs: Float[Tensor, "batch time action"]) -> None:
    """Refuse logits."""
    if not probs.shape[-1]:
        return  # recorded actions have no policy
    total = probs.float().sum(-1)
    if not bool(((probs >= 0).all(-1) & ((total - 1).abs() < 0.02)).all()):
        raise ValueError(
            f"the policy returned numbers from {float(probs.min()):.3g} to "
            f"{float(probs.max()):.3g} whose sums are not 1: expected probabilities, apply a "
            "softmax to logits"
        )


def _capturing() -> bool:
    """Whether a CUDA graph is captured, in which no value can be read; the steps that are launched
    before it are checked."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _of_row(dice: Dice, row: int) -> Dice:
    return Dice(dice.omega[row], dice.order[row])
