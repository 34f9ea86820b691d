"""The controller's losses: REINFORCE over all noise levels, a symlog critic on clean frames."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from horizon_imagination.config import ControllerConfig, ImaginationConfig
from horizon_imagination.engine.constants import copied, index
from horizon_imagination.engine.draws import Draws, draw
from horizon_imagination.engine.dream import Start, dream
from horizon_imagination.engine.fused import FusedDenoiser
from horizon_imagination.engine.policy_windows import EntryPlan, entry_logits, entry_plan
from horizon_imagination.imagination import Imagined, change_count, late_change_rate
from horizon_imagination.learn.learner import Losses, Term
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.models.actor_critic import Actor, Critic
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.returns import (
    advantages,
    lambda_returns,
    return_range,
    symexp,
    symlog,
    until_first_end,
    update_return_scale,
)
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.types import Flags, Latents, Scalars, Schedule


class Outcome(NamedTuple):
    """What the reward model says of an imagined trajectory."""

    reward: Scalars
    terminated: Flags
    valid: Flags
    """Steps up to and including the first end."""


@dataclass
class ControllerLoss:
    """Imagines from real contexts and scores what the actor did there."""

    actor: Actor
    critic: Critic
    denoiser: Denoiser | FusedDenoiser
    reward: RewardModel
    config: ControllerConfig
    imagination: ImaginationConfig
    rng: torch.Generator
    return_scale: Float[Tensor, ""] = field(default_factory=lambda: torch.tensor(torch.nan))
    ranks: Ranks = field(default_factory=Ranks)

    @cached_property
    def schedule(self) -> Schedule:
        """The Horizon schedule of the config."""
        cfg = self.imagination
        return horizon_schedule(cfg.horizon, cfg.budget, cfg.decay_horizon)

    @cached_property
    def plan(self) -> EntryPlan:
        """Where the policy of every training entry comes from."""
        return entry_plan(self.schedule, clean_level=self.config.clean_level)

    def __call__(self, start: Start) -> Losses:
        """Imagine, score, and return actor, entropy and critic terms."""
        for encoder in dict.fromkeys((self.actor.encoder, self.critic.encoder)):
            if encoder.statistics:
                encoder.statistics.update(start.z, start.mask)
        batch, start = len(start.z), self.ranks.share(start)
        imagined = self.imagine(start)
        outcome = self.judge(start, imagined)
        raw_values = self.values(start, imagined.z[-1])
        values = symexp(raw_values.detach().float())
        returns = lambda_returns(
            outcome.reward,
            outcome.terminated,
            values,
            discount=self.config.discount,
            lambda_=self.config.lambda_,
        )
        observed = return_range(
            self.ranks.gather(returns, batch), self.ranks.gather(outcome.valid, batch)
        )
        self.return_scale = self.return_scale.to(observed)
        self.return_scale.copy_(  # in place, for a captured graph
            update_return_scale(self.return_scale, observed, self.config.return_scale_decay)
        )
        advantage = advantages(returns, values[:, :-1], self.return_scale)
        terms, metrics = self.actor_terms(start, imagined, advantage, outcome.valid)
        error = (raw_values[:, :-1].float() - symlog(returns)).square()
        terms["critic"] = Term((error * outcome.valid).sum(), outcome.valid.sum())
        metrics |= self.figures(imagined, outcome, returns, values)
        metrics["critic"] = self.ranks.mean(terms["critic"].total, terms["critic"].count)
        return Losses(terms, metrics)

    def draw(self, start: Start) -> Draws:
        """Noise and dice: drawn for the trajectories of all ranks, of which this rank has some."""
        rows, _, channels, height, width = start.z.shape
        batch, num_actions = self.ranks.total(rows), self.actor.head.out_features
        shape = (batch, self.schedule.shape[1], channels, height, width)
        sampler = self.imagination.sampler
        drawn = draw(shape, len(self.schedule), num_actions, sampler, self.rng)
        return drawn.of(self.ranks.rows(batch))

    def imagine(self, start: Start) -> Imagined:
        """What the actor does after the contexts."""
        cfg = self.imagination
        return dream(
            self.denoiser,
            self.actor,
            start,
            self.schedule,
            context=cfg.context,
            sampler=cfg.sampler,
            window=cfg.engine == "window",
            rng=self.rng,
            draws=self.draw(start),
        )

    @torch.no_grad()
    def judge(self, start: Start, imagined: Imagined) -> Outcome:
        """Rewards, and ends sampled from their probability, of every imagined step."""
        k = self.imagination.context
        seen = torch.cat([start.z[:, -k:], imagined.z[-1]], dim=1)
        real = torch.cat(
            [start.mask[:, -k:], start.mask.new_ones(imagined.actions.shape[1:])], dim=1
        )
        out, _ = self.reward(seen, None, None, real)
        out = out[:, k:].float()
        chance = out[..., 1:].softmax(-1)[..., 1]
        shape = self.ranks.total(len(chance)), chance.shape[1]
        dice = torch.rand(*shape, generator=self.rng, device=self.rng.device)
        terminated = self.ranks.share(dice) < chance
        return Outcome(symexp(out[..., 0]), terminated, until_first_end(terminated))

    def values(self, start: Start, z: Latents) -> Float[Tensor, "batch time+1"]:
        """Symlog values of the last context frame and every imagined one."""
        seen = torch.cat([start.z, z], dim=1)
        real = torch.cat([start.mask, start.mask.new_ones(z.shape[:2])], dim=1)
        out, _ = self.critic(seen, None, None, real)
        return out[:, start.z.shape[1] - 1 :, 0]

    def actor_terms(
        self, start: Start, imagined: Imagined, advantage: Scalars, valid: Flags
    ) -> tuple[dict[str, Term], dict[str, Tensor]]:
        """-A log pi(a) - eta H over the entries of all noise levels, each with its own action."""
        plan = self.plan
        logits = entry_logits(
            self.actor, plan, self.schedule, start.z, start.mask, imagined
        ).float()
        log_probs = logits.log_softmax(-1)
        rows, columns = (index(x, logits.device) for x in (plan.rows, plan.columns))
        taken = imagined.actions[rows, :, columns]
        chosen = log_probs.gather(-1, rearrange(taken, "entry b -> entry b 1"))[..., 0]
        counted = rearrange(valid[:, columns], "b entry -> entry b")
        gain = rearrange(advantage[:, columns], "b entry -> entry b") * chosen
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        count = counted.sum()
        terms = {
            "actor": Term(-(gain * counted).sum(), count),
            "entropy": Term((entropy * counted).sum(), count, -self.config.entropy_weight),
        }
        metrics = {n: self.ranks.mean(term.total, term.count) for n, term in terms.items()}
        clean = slice(plan.num_clean)
        seen = log_probs[clean].detach().exp(), entropy[clean].detach(), counted[clean]
        metrics["sight"] = self.sight(*seen)
        return terms, metrics

    def sight(
        self,
        probs: Float[Tensor, "entry batch action"],
        entropy: Float[Tensor, "entry batch"],
        counted: Bool[Tensor, "entry batch"],
    ) -> Float[Tensor, ""]:
        """How far the action depends on what is seen, in nats: the entropy of the mean policy minus
        the mean entropy. A policy that does the same in every state has 0."""
        count, weight = counted.sum(), rearrange(counted.to(probs), "entry b -> entry b 1")
        mean = self.ranks.mean((probs * weight).sum((0, 1)), count.expand(probs.shape[-1]))
        return torch.special.entr(mean).sum() - self.ranks.mean((entropy * counted).sum(), count)

    def figures(
        self, imagined: Imagined, outcome: Outcome, returns: Scalars, values: Tensor
    ) -> dict[str, Tensor]:
        """What one wants to see of an imagination."""
        valid, mean = outcome.valid, self.ranks.mean
        schedule = copied(self.schedule, imagined.z)
        steps, rows = valid.sum(), valid.new_full((), len(valid), dtype=torch.long)
        return {
            "imagined_return": mean((outcome.reward * valid).sum(), rows),
            "imagined_length": mean(steps.float(), rows),
            "ended": mean(outcome.terminated.any(1).float().sum(), rows),
            "lambda_return": mean((returns * valid).sum(), steps),
            "value": mean((values[:, :-1] * valid).sum(), steps),
            "return_scale": self.return_scale.clone(),
            "late_changes": mean(late_change_rate(imagined, schedule) * rows, rows),
            "action_changes": mean(change_count(imagined, schedule) * rows, rows),
        }
