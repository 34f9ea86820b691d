"""All random numbers of one imagination, sampled in advance.

With the same draws the plain loop and the window give the same trajectory.
"""

from typing import Literal, NamedTuple

import torch

from horizon_imagination.actions import ActionSpace, as_space
from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import (
    ActorFn,
    PolicyFn,
    coupled_actor,
    held_actor,
    naive_actor,
    stable_actor,
)
from horizon_imagination.stable_actions import Dice
from horizon_imagination.types import Actions, Latents, Probs, entrywise, is_action, zero_action

Sampler = Literal["stable", "coupled", "naive", "naive_held"]


class Draws(NamedTuple):
    """Noise for every frame, and dice for the action that leads to it."""

    noise: Latents
    dice: Dice
    """[batch, time]; column 0 decides the action on the last context frame."""
    row_dice: Dice | None
    """[row, batch, time], for samplers that use new dice at every row."""

    def of(self, rows: slice) -> "Draws":
        """The draws of some trajectories of the batch."""
        again = None
        if self.row_dice is not None:
            again = Dice(*(part[:, rows] for part in self.row_dice))
        return Draws(self.noise[rows], Dice(*(part[rows] for part in self.dice)), again)


def sample_draws(
    shape: tuple[int, int, int, int, int],
    rows: int,
    actions: ActionSpace | int,
    sampler: Sampler,
    rng: torch.Generator,
) -> Draws:
    """Draws for latents of `shape` (batch, time, channel, height, width) and so many rows."""
    batch, time = shape[:2]
    space = as_space(actions)
    noise = uniform_noise(*shape, rng=rng)
    dice = space.roll(batch, time, rng=rng)
    if sampler == "stable":
        return Draws(noise, dice, None)
    return Draws(noise, dice, space.roll(rows, batch, time, rng=rng))


def plain_actor(sampler: Sampler, policy: PolicyFn, draws: Draws, space: ActionSpace) -> ActorFn:
    """The sampler as an actor of the plain loop."""
    dice = Dice(draws.dice.omega[:, 1:], draws.dice.order[:, 1:])
    if draws.row_dice is None:
        return stable_actor(policy, dice, space.stable)
    row_dice = Dice(draws.row_dice.omega[:, :, 1:], draws.row_dice.order[:, :, 1:])
    if sampler == "coupled":
        return coupled_actor(policy, dice, row_dice, space.stable, space.coupled)
    return (naive_actor if sampler == "naive" else held_actor)(policy, row_dice, space.stable)


def choose(
    sampler: Sampler,
    row: int,
    columns: slice,
    tau: torch.Tensor,
    probs: Probs,
    previous_probs: Probs,
    previous: Actions,
    draws: Draws,
    space: ActionSpace,
) -> Actions:
    """The actions of some columns at a row, given the times of the frames they lead to."""
    dice = Dice(draws.dice.omega[:, columns], draws.dice.order[:, columns])
    if draws.row_dice is None:
        return space.stable(probs, dice)
    row_dice = Dice(draws.row_dice.omega[row, :, columns], draws.row_dice.order[row, :, columns])
    known = is_action(previous)
    if sampler == "naive_held":
        held = entrywise(tau == 1, previous) & known
        return torch.where(held, previous, space.stable(probs, row_dice))
    kept = space.coupled(zero_action(previous), previous_probs, probs, row_dice)
    return torch.where(entrywise(tau > 0, previous) & known, kept, space.stable(probs, dice))
