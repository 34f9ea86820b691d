"""Action spaces, and the policies over them: a number, a vector in a box, several numbers.

A space says what an action looks like, how many outputs an actor needs, and how those outputs
become a policy, an action, a log-probability and an entropy. Inside the agent the vectors of a
`Box` are scaled to [-1, 1]; worlds and datasets have them in their own units.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from horizon_imagination.gaussian_actions import (
    squash,
    squashed_entropy,
    squashed_log_prob,
    stable_gaussian,
)
from horizon_imagination.stable_actions import Dice, coupled_action, roll, stable_action

Outputs = Float[Tensor, "*batch output"]
"""What an actor's head says, or the parameters of the policy that it stands for."""
Taken = Shaped[Tensor, "*batch_and_shape"]
"""Actions: [*batch] whole numbers, [*batch, dim] numbers, or [*batch, factor] whole numbers."""


MEAN_LIMIT = 4.0
"""Bound of the mean before the tanh; tanh(4) is 0.9993."""
LOG_STD_MIDDLE, LOG_STD_REACH = -1.5, 1.75
"""The log of the deviation lies this far around the middle: sigma from 0.039 to 1.28."""
LOG_STD_START = 1.0
"""Added to the outputs of the deviation, so that a new policy is broad."""


class Scores(NamedTuple):
    """What the controller learns from: how probable actions were, and how spread the policy is."""

    log_prob: Float[Tensor, "*batch"]
    entropy: Float[Tensor, "*batch"]
    """In nats. Of a box it is a differential entropy, at most log 2 a dimension."""
    policy: Outputs


@dataclass(frozen=True)
class Discrete:
    """One of `n` actions, 0 to n - 1; the policy is a vector of probabilities."""

    n: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return ()

    @property
    def outputs(self) -> int:
        """Numbers that describe a policy."""
        return self.n

    def policy(self, outputs: Outputs) -> Outputs:
        """The probabilities."""
        return outputs.softmax(-1)

    def roll(self, *batch: int, rng: torch.Generator) -> Dice:
        """The randomness of one action per element of the batch."""
        return roll(*batch, num_actions=self.n, rng=rng)

    def stable(self, policy: Outputs, dice: Dice) -> Taken:
        """The action of a policy under these dice."""
        return stable_action(policy, dice)

    def coupled(self, previous: Taken, before: Outputs, policy: Outputs, dice: Dice) -> Taken:
        """The previous action, changed with the least probability."""
        return coupled_action(previous, before, policy, dice)

    def sample(self, policy: Outputs, rng: torch.Generator) -> Taken:
        """An action for a real world."""
        return torch.multinomial(policy, 1, generator=rng).squeeze(-1)

    def greedy(self, outputs: Outputs) -> Taken:
        """The most probable action."""
        return outputs.argmax(-1)

    def random(self, *batch: int, rng: torch.Generator) -> Taken:
        """Uniform actions."""
        return torch.randint(self.n, batch, generator=rng, device=rng.device)

    def scores(self, outputs: Outputs, action: Taken) -> Scores:
        """Log-probability of actions, and entropy, with gradient."""
        log_probs = outputs.log_softmax(-1)
        # In this order: gradients are added up in the opposite one, and their last bits with it.
        chosen = log_probs.gather(-1, action[..., None])[..., 0]
        probs = log_probs.exp()
        return Scores(chosen, -(probs * log_probs).sum(-1), probs)

    def moments(self, policy: Outputs) -> Float[Tensor, "*batch moment"]:
        """What `information` wants the mean of."""
        return policy

    def information(
        self, mean: Float[Tensor, " moment"], entropy: Float[Tensor, ""]
    ) -> Float[Tensor, ""]:
        """Mutual information of state and action: the entropy of the mean policy less the mean."""
        return torch.special.entr(mean).sum() - entropy

    def another(self, action: Taken, rng: torch.Generator) -> Taken:
        """A different action in every place; the draws are the CPU's."""
        offset = torch.randint(1, max(2, self.n), tuple(action.shape), generator=rng)
        return (action + offset.to(action.device)) % self.n

    def words(self) -> str:
        """For people."""
        return f"{self.n} actions"

    def problem(self, action: Any) -> str:
        """What is wrong with an action of a world or a dataset; empty for a good one."""
        whole = not hasattr(action, "__len__") and action == action // 1
        return (
            ""
            if whole and 0 <= action < self.n
            else f"action {action} is not one of the {self.n} actions"
        )


@dataclass(frozen=True)
class MultiDiscrete:
    """Several independent whole numbers; the policy has the probabilities of all, side by side."""

    factors: tuple[int, ...]
    """How many values each of them has."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return (len(self.factors),)

    @property
    def outputs(self) -> int:
        """Numbers that describe a policy."""
        return sum(self.factors)

    @property
    def parts(self) -> list[Discrete]:
        """A space for each number."""
        return [Discrete(n) for n in self.factors]

    def policy(self, outputs: Outputs) -> Outputs:
        """The probabilities, factor by factor."""
        return torch.cat([x.softmax(-1) for x in self._split(outputs)], dim=-1)

    def roll(self, *batch: int, rng: torch.Generator) -> Dice:
        """The dice of all factors, side by side; orders count within a factor."""
        each = [part.roll(*batch, rng=rng) for part in self.parts]
        return Dice(*(torch.cat(together, dim=-1) for together in zip(*each, strict=True)))

    def stable(self, policy: Outputs, dice: Dice) -> Taken:
        """The action of a policy under these dice."""
        each = zip(self._split(policy), self._dice(dice), strict=True)
        return torch.stack([stable_action(p, d) for p, d in each], dim=-1)

    def coupled(self, previous: Taken, before: Outputs, policy: Outputs, dice: Dice) -> Taken:
        """Every factor changed with the least probability."""
        each = zip(
            previous.unbind(-1),
            self._split(before),
            self._split(policy),
            self._dice(dice),
            strict=True,
        )
        return torch.stack([coupled_action(*factor) for factor in each], dim=-1)

    def sample(self, policy: Outputs, rng: torch.Generator) -> Taken:
        """An action for a real world."""
        each = [torch.multinomial(p, 1, generator=rng) for p in self._split(policy)]
        return torch.cat(each, dim=-1)

    def greedy(self, outputs: Outputs) -> Taken:
        """The most probable value of every factor."""
        return torch.stack([x.argmax(-1) for x in self._split(outputs)], dim=-1)

    def random(self, *batch: int, rng: torch.Generator) -> Taken:
        """Uniform actions."""
        return torch.stack([part.random(*batch, rng=rng) for part in self.parts], dim=-1)

    def scores(self, outputs: Outputs, action: Taken) -> Scores:
        """Log-probabilities and entropies, summed over the factors, with gradient."""
        parts = zip(self.parts, self._split(outputs), action.unbind(-1), strict=True)
        each = [part.scores(o, a) for part, o, a in parts]
        log_prob, entropy = (torch.stack([x[i] for x in each]).sum(0) for i in range(2))
        return Scores(log_prob, entropy, torch.cat([x.policy for x in each], dim=-1))

    def moments(self, policy: Outputs) -> Float[Tensor, "*batch moment"]:
        """What `information` wants the mean of."""
        return policy

    def information(
        self, mean: Float[Tensor, " moment"], entropy: Float[Tensor, ""]
    ) -> Float[Tensor, ""]:
        """The sum of the factors' mutual information with the state."""
        return torch.special.entr(mean).sum() - entropy

    def another(self, action: Taken, rng: torch.Generator) -> Taken:
        """Another value of every factor; the draws are the CPU's."""
        each = zip(self.parts, action.unbind(-1), strict=True)
        return torch.stack([part.another(a, rng) for part, a in each], dim=-1)

    def words(self) -> str:
        """For people."""
        return " x ".join(map(str, self.factors)) + " actions"

    def problem(self, action: Any) -> str:
        """What is wrong with an action of a world or a dataset; empty for a good one."""
        values = [*action] if hasattr(action, "__iter__") else [action]
        good = len(values) == len(self.factors) and not any(
            part.problem(value) for part, value in zip(self.parts, values, strict=True)
        )
        if good:
            return ""
        return f"action {values} is not one whole number below each of {list(self.factors)}"

    def _split(self, outputs: Shaped[Tensor, "*batch output"]) -> Sequence[Tensor]:
        return outputs.split(list(self.factors), dim=-1)

    def _dice(self, dice: Dice) -> list[Dice]:
        omega = dice.omega.split([n - 1 for n in self.factors], dim=-1)
        return [Dice(*each) for each in zip(omega, self._split(dice.order), strict=True)]


@dataclass(frozen=True)
class Box:
    """A vector between `low` and `high`; the policy is a squashed Gaussian: means, deviations.

    The means are those before the tanh. Actions here are scaled to [-1, 1].
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        good = all(
            math.isfinite(low) and math.isfinite(high) and low < high
            for low, high in zip(self.low, self.high, strict=True)
        )
        if not self.low or not good:
            raise ValueError(
                f"a box of actions from {list(self.low)} to {list(self.high)}: expected finite "
                "bounds, the low ones below the high ones"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return (len(self.low),)

    @property
    def outputs(self) -> int:
        """Numbers that describe a policy."""
        return 2 * len(self.low)

    def policy(self, outputs: Outputs) -> Outputs:
        """Means and deviations, both bounded."""
        mean, spread = outputs.chunk(2, dim=-1)
        log_std = LOG_STD_MIDDLE + LOG_STD_REACH * (spread + LOG_STD_START).tanh()
        return torch.cat([MEAN_LIMIT * (mean / MEAN_LIMIT).tanh(), log_std.exp()], dim=-1)

    def roll(self, *batch: int, rng: torch.Generator) -> Dice:
        """Standard normal noise; it has no order."""
        omega = torch.randn(*batch, len(self.low), generator=rng, device=rng.device)
        return Dice(omega, omega.new_zeros(*batch, 0, dtype=torch.long))

    def stable(self, policy: Outputs, dice: Dice) -> Taken:
        """The action of a policy under this noise."""
        mean, deviation = policy.chunk(2, dim=-1)
        return squash(stable_gaussian(mean, deviation, dice.omega))

    def coupled(self, previous: Taken, before: Outputs, policy: Outputs, dice: Dice) -> Taken:
        """Refused: fixed noise is an optimal coupling already."""
        raise ValueError(
            "imagination.sampler coupled is for discrete actions; stable is an optimal coupling "
            "of continuous ones: use it"
        )

    def sample(self, policy: Outputs, rng: torch.Generator) -> Taken:
        """An action for a real world."""
        mean, std = policy.chunk(2, dim=-1)
        noise = torch.randn(mean.shape, generator=rng, device=rng.device)
        return squash(stable_gaussian(mean, std, noise.to(mean)))

    def greedy(self, outputs: Outputs) -> Taken:
        """The median: the mean, squashed."""
        return squash(self.policy(outputs).chunk(2, dim=-1)[0])

    def random(self, *batch: int, rng: torch.Generator) -> Taken:
        """Uniform actions."""
        shape = (*batch, len(self.low))
        return 2 * torch.rand(*shape, generator=rng, device=rng.device) - 1

    def scores(self, outputs: Outputs, action: Taken) -> Scores:
        """Log-density and differential entropy of scaled actions, with gradient."""
        policy = self.policy(outputs)
        mean, std = policy.chunk(2, dim=-1)
        return Scores(squashed_log_prob(mean, std, action), squashed_entropy(mean, std), policy)

    def moments(self, policy: Outputs) -> Float[Tensor, "*batch moment"]:
        """What `information` wants the mean of: mean, its square, variance."""
        mean, std = policy.chunk(2, dim=-1)
        return torch.cat([mean, mean.square(), std.square()], dim=-1)

    def information(
        self, mean: Float[Tensor, " moment"], entropy: Float[Tensor, ""]
    ) -> Float[Tensor, ""]:
        """Information of a Gaussian channel with these variances: 1/2 log(1 + Var mu / E sigma^2).

        It stands in for the mutual information, which has no closed form; it is 0 for a policy
        that does the same in every state.
        """
        centre, square, noise = mean.chunk(3)
        signal = (square - centre.square()).clamp(min=0)
        return (1 + signal / noise).log().sum() / 2

    def another(self, action: Taken, rng: torch.Generator) -> Taken:
        """Actions a quarter to three quarters of the range away; the draws are the CPU's."""
        offset = 0.5 + torch.rand(tuple(action.shape), generator=rng)
        return (action + 1 + offset.to(action)) % 2 - 1

    def words(self) -> str:
        """For people."""
        bounds = {f"{a:g} to {b:g}" for a, b in zip(self.low, self.high, strict=True)}
        count = f"{len(self.low)} numbers" if len(self.low) > 1 else "1 number"
        return f"{count} from {bounds.pop() if len(bounds) == 1 else 'low to high'} as actions"

    def problem(self, action: Any) -> str:
        """What is wrong with an action of a world or a dataset; empty for a good one."""
        values = [*action] if hasattr(action, "__iter__") else [action]
        slack = [1e-5 * (b - a) for a, b in zip(self.low, self.high, strict=True)]
        good = len(values) == len(self.low) and all(
            isinstance(x, int | float) or getattr(x, "ndim", 1) == 0 for x in values
        )
        bounds = zip(self.low, self.high, slack, strict=True)
        if good and all(
            a - s <= float(x) <= b + s for x, (a, b, s) in zip(values, bounds, strict=True)
        ):
            return ""
        return f"action {values} is not {self.words().removesuffix(' as actions')}"

    def scaled(self, action: Shaped[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Actions of a world, scaled to [-1, 1]."""
        low, high = (action.new_tensor(x, dtype=torch.float32) for x in (self.low, self.high))
        return ((action.float() - low) / (high - low) * 2 - 1).clamp(-1, 1)

    def unscaled(self, action: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Actions of the agent, in the units of the world."""
        low, high = (action.new_tensor(x) for x in (self.low, self.high))
        return torch.minimum(torch.maximum(low + (action + 1) / 2 * (high - low), low), high)


ActionSpace = Discrete | MultiDiscrete | Box


def as_space(actions: ActionSpace | int) -> ActionSpace:
    """A number of actions stands for `Discrete`."""
    return Discrete(int(actions)) if isinstance(actions, int) else actions
