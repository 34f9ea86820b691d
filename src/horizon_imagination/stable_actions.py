"""Discrete actions that change only as much as the policy does (Eq. 2, Proposition 1).

The dice are thrown once; every policy met while frames are denoised is read with the same dice.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from horizon_imagination.types import Probs


class Dice(NamedTuple):
    """All the randomness of one action: uniforms, and the order in which actions are offered."""

    omega: Float[Tensor, "*batch action-1"]
    order: Int[Tensor, "*batch action"]


def roll(*batch: int, num_actions: int, rng: torch.Generator) -> Dice:
    """Independent dice for every element of the batch, on the generator's device."""
    omega = torch.rand(*batch, num_actions - 1, generator=rng, device=rng.device)
    order = torch.rand(*batch, num_actions, generator=rng, device=rng.device).argsort(-1)
    return Dice(omega, order)


def thresholds(probs: Probs) -> Probs:
    """alpha_i = p_i / (p_i + ... + p_N): chance of taking i once 1..i-1 were refused.

    >>> thresholds(torch.tensor([0.25, 0.25, 0.5, 0.0]))
    tensor([0.2500, 0.3333, 1.0000, 0.0000])
    """
    probs = _wide(probs)
    remaining = probs.flip(-1).cumsum(-1).flip(-1)
    return torch.where(remaining > 0, probs / remaining, probs)


def stable_action(probs: Probs, dice: Dice) -> Int[Tensor, "*batch"]:
    """The first action, in the order of the dice, whose threshold exceeds omega (Eq. 2)."""
    alpha = _ordered_thresholds(probs, dice.order)
    taken = F.pad(dice.omega < alpha, (0, 1), value=True)  # the last action is the last resort
    first = taken.int().argmax(-1, keepdim=True)
    return dice.order.gather(-1, first).squeeze(-1)


def coupled_action(
    previous_action: Int[Tensor, "*batch"], previous_probs: Probs, probs: Probs, dice: Dice
) -> Int[Tensor, "*batch"]:
    """Maximal coupling: keep a ~ p with chance min(1, q_a / p_a), else draw from (q - p)^+.

    The result is distributed as q = `probs` and differs from a with probability TV(p, q), the
    least possible; in exchange it depends on the path of policies and not on the last one alone.
    One uniform decides both: given a refusal, what exceeds the chance of keeping is uniform again.
    """
    if probs.shape[-1] == 1:
        return previous_action
    p, q = _wide(previous_probs), _wide(probs)
    u, action = dice.omega[..., 0], previous_action[..., None]
    p_a, q_a = p.gather(-1, action).squeeze(-1), q.gather(-1, action).squeeze(-1)
    keep = torch.where(p_a > 0, q_a / p_a, (q_a > 0).to(q)).clamp(max=1)
    surplus = (q - p).clamp(min=0)
    # Without a surplus p and q are equal up to rounding, and q itself serves.
    surplus = torch.where(surplus.sum(-1, keepdim=True) > 0, surplus, q)
    cumulative = surplus.cumsum(-1)
    total = cumulative[..., -1]
    target = (u - keep) / (1 - keep).clamp(min=torch.finfo(u.dtype).tiny) * total
    drawn = (cumulative <= target[..., None]).sum(-1)
    # Rounding may push the target past the last surplus; the largest one is then as good.
    drawn = torch.where(drawn < probs.shape[-1], drawn, surplus.argmax(-1))
    return torch.where(u < keep, previous_action, drawn)


def total_variation(p: Probs, q: Probs) -> Float[Tensor, "*batch"]:
    """delta(p, q) = |p - q|_1 / 2, the least probability of a change (Proposition 1, below)."""
    return (_wide(p) - _wide(q)).abs().sum(-1) / 2


def threshold_distance(
    p: Probs, q: Probs, order: Int[Tensor, "*batch action"]
) -> Float[Tensor, "*batch"]:
    """|alpha(p) - alpha(q)|_1, the bound of Proposition 1 from above."""
    return (_ordered_thresholds(p, order) - _ordered_thresholds(q, order)).abs().sum(-1)


def change_probability(
    p: Probs, q: Probs, order: Int[Tensor, "*batch action"]
) -> Float[Tensor, "*batch"]:
    """Exact P(stable_action(p) != stable_action(q)) for an order, omega integrated out.

    The partition of the proof: the actions part at i if both refused 1..i-1 (omega_j >= u_j) and
    omega_i lies between the two thresholds: sum_i (u_i - l_i) prod_{j<i} (1 - u_j).
    """
    a, b = _ordered_thresholds(p, order), _ordered_thresholds(q, order)
    refused = (1 - torch.maximum(a, b)).cumprod(-1)
    before = F.pad(refused, (1, 0), value=1.0)[..., :-1]
    return ((a - b).abs() * before).sum(-1)


def _ordered_thresholds(probs: Probs, order: Tensor) -> Float[Tensor, "*batch action-1"]:
    return thresholds(probs.expand(order.shape).gather(-1, order))[..., :-1]


def _wide(probs: Probs) -> Probs:
    """At least float32: half precision cannot hold a cumulative sum of many actions."""
    return probs if probs.dtype == torch.float64 else probs.float()
