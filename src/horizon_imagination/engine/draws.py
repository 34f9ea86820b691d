"""All the randomness of one imagination, drawn beforehand.

With the same draws the plain loop and the window give the same trajectory.
"""

from typing import Literal, NamedTuple

import torch

from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import (
    Actor,
    Policy,
    coupled_actor,
    held_actor,
    naive_actor,
    stable_actor,
)
from horizon_imagination.stable_actions import Dice, coupled_action, roll, stable_action
from horizon_imagination.types import Actions, Latents, Probs

Sampler = Literal["stable", "coupled", "naive", "naive_held"]


class Draws(NamedTuple):
    """Noise for every frame, and dice for the action that leads to it."""

    noise: Latents
    dice: Dice
    """[batch, time]; column 0 draws the action on the last context frame."""
    row_dice: Dice | None
    """[row, batch, time], for samplers that throw again at every row."""

    def of(self, rows: slice) -> "Draws":
        """Those of some trajectories of the batch."""
        again = None
        if self.row_dice is not None:
            again = Dice(*(part[:, rows] for part in self.row_dice))
        return Draws(self.noise[rows], Dice(*(part[rows] for part in self.dice)), again)


def draw(
    shape: tuple[int, int, int, int, int],
    rows: int,
    num_actions: int,
    sampler: Sampler,
    rng: torch.Generator,
) -> Draws:
    """Draws for latents of `shape` (batch, time, channel, height, width) and a schedule's rows."""
    batch, time = shape[:2]
    noise = uniform_noise(*shape, rng=rng)
    dice = roll(batch, time, num_actions=num_actions, rng=rng)
    if sampler == "stable":
        return Draws(noise, dice, None)
    return Draws(noise, dice, roll(rows, batch, time, num_actions=num_actions, rng=rng))


def plain_actor(sampler: Sampler, policy: Policy, draws: Draws) -> Actor:
    """The sampler as an actor of the plain loop."""
    dice = Dice(draws.dice.omega[:, 1:], draws.dice.order[:, 1:])
    if draws.row_dice is None:
        return stable_actor(policy, dice)
    row_dice = Dice(draws.row_dice.omega[:, :, 1:], draws.row_dice.order[:, :, 1:])
    if sampler == "coupled":
        return coupled_actor(policy, dice, row_dice)
    return (naive_actor if sampler == "naive" else held_actor)(policy, row_dice)


def choose(
    sampler: Sampler,
    row: int,
    columns: slice,
    tau: torch.Tensor,
    probs: Probs,
    previous_probs: Probs,
    previous: Actions,
    draws: Draws,
) -> Actions:
    """The actions of some columns at a row, given the times of the frames they lead to."""
    dice = Dice(draws.dice.omega[:, columns], draws.dice.order[:, columns])
    if draws.row_dice is None:
        return stable_action(probs, dice)
    row_dice = Dice(draws.row_dice.omega[row, :, columns], draws.row_dice.order[row, :, columns])
    if sampler == "naive_held":
        held = (tau == 1) & (previous >= 0)
        return torch.where(held, previous, stable_action(probs, row_dice))
    kept = coupled_action(previous.clamp(min=0), previous_probs, probs, row_dice)
    return torch.where((tau > 0) & (previous >= 0), kept, stable_action(probs, dice))
