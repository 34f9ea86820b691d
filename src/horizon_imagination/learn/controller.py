"""The controller's losses: REINFORCE over all noise levels, a symlog critic on clean frames."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from horizon_imagination.config import ControllerConfig, ImaginationConfig
from horizon_imagination.engine.device_copies import device_copy, device_index
from horizon_imagination.engine.draws import Draws, sample_draws
from horizon_imagination.engine.dream import Start, dream, imagine_recorded
from horizon_imagination.engine.policy_windows import EntryPlan, entry_logits, entry_plan
from horizon_imagination.imagination import Imagined, change_count, late_change_rate
from horizon_imagination.learn.learner import Losses, Term
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.models.actor_critic import Actor, Critic
from horizon_imagination.models.recurrent import Hidden
from horizon_imagination.returns import (
    advantages,
    lambda_returns,
    normal_range,
    return_range,
    until_first_end,
    update_return_scale,
)
from horizon_imagination.schedules import check_schedule
from horizon_imagination.types import Flags, Scalars, Schedule
from horizon_imagination.world_model import WorldModel


class Outcome(NamedTuple):
    """What the world model says of an imagined trajectory."""

    reward: Scalars
    terminated: Flags
    valid: Flags
    """Steps up to and including the first end."""


class Features(NamedTuple):
    """What actor and critic are given of the context and the imagined clean frames."""

    actor: Hidden
    """Of all frames but the last, after which nobody acts."""
    critic: Hidden


@dataclass
class ControllerLoss:
    """Imagines from real contexts in any world model, and scores what the actor did there.

    The schedule is any that `check_schedule` accepts. The config of imagination gives the rest:
    frames of context, sampler and engine.
    """

    actor: Actor
    critic: Critic
    world: WorldModel
    schedule: Schedule
    config: ControllerConfig
    imagination: ImaginationConfig
    rng: torch.Generator
    return_scale: Float[Tensor, ""] = field(default_factory=lambda: torch.tensor(torch.nan))
    ranks: Ranks = field(default_factory=Ranks)

    def __post_init__(self) -> None:
        check_schedule(self.schedule, self.schedule.shape[1])

    @cached_property
    def plan(self) -> EntryPlan:
        """Where the policy of every training entry comes from."""
        return entry_plan(self.schedule, clean_level=self.config.clean_level)

    def __call__(self, start: Start) -> Losses:
        """Imagine, score, and return actor, entropy and critic terms."""
        for encoder in dict.fromkeys((self.actor.encoder, self.critic.encoder)):
            encoder.follow(start.z, start.mask)
        batch, start = len(start.z), self.ranks.share(start)
        imagined = self.imagine(start)
        paid = imagined
        if self.config.rewarded == "replay" and self.plan.frames:
            paid = self.replay(start, imagined)
        outcome = self.judge(start, paid)
        features = self.encode(start, imagined, paid)
        raw_values = self.values(start, features.critic)
        values = self.critic.readout.value(raw_values.detach())
        returns = lambda_returns(
            outcome.reward,
            outcome.terminated,
            values,
            discount=self.config.discount,
            lambda_=self.config.lambda_,
        )
        seen = self.ranks.gather(returns, batch), self.ranks.gather(outcome.valid, batch)
        observed = return_range(*seen)
        if self.config.scale_by_deviation:
            observed = torch.maximum(observed, normal_range(*seen))
        self.return_scale = self.return_scale.to(observed)
        self.return_scale.copy_(  # in place, for a captured graph
            update_return_scale(self.return_scale, observed, self.config.return_scale_decay)
        )
        scale = self.return_scale
        if self.config.scale_by_deviation:  # an average knows nothing yet of a first large reward
            scale = torch.maximum(scale, observed)
        advantage = advantages(returns, values[:, :-1], scale)
        terms, metrics = self.actor_terms(start, imagined, features.actor, advantage, outcome.valid)
        error = self.critic.readout.error(raw_values[:, :-1], returns)
        terms["critic"] = Term((error * outcome.valid).sum(), outcome.valid.sum())
        metrics |= self.figures(imagined, outcome, returns, values)
        metrics["critic"] = self.ranks.mean(terms["critic"].total, terms["critic"].count)
        return Losses(terms, metrics)

    def sample_draws(self, start: Start) -> Draws:
        """Noise and dice: drawn for the trajectories of all ranks, of which this rank has some."""
        rows, _, channels, height, width = start.z.shape
        batch = self.ranks.total(rows)
        shape = (batch, self.schedule.shape[1], channels, height, width)
        sampler = self.imagination.sampler
        drawn = sample_draws(shape, len(self.schedule), self.actor.action_space, sampler, self.rng)
        return drawn.of(self.ranks.rows(batch))

    def imagine(self, start: Start) -> Imagined:
        """What the actor does after the contexts."""
        cfg = self.imagination
        return dream(
            self.world,
            self.actor,
            start,
            self.schedule,
            context=cfg.context,
            sampler=cfg.sampler,
            window=cfg.engine == "window",
            rng=self.rng,
            draws=self.sample_draws(start),
        )

    def replay(self, start: Start, imagined: Imagined) -> Imagined:
        """The same noise again, with the last actions given from the start: frames that one action
        each has led to."""
        cfg = self.imagination
        context, real = start.world_model_context(cfg.context)
        return imagine_recorded(
            self.world,
            context,
            imagined.actions[-1],
            imagined.z[0],
            self.schedule,
            real=real,
            window=cfg.engine == "window",
        )

    @torch.no_grad()
    def judge(self, start: Start, imagined: Imagined) -> Outcome:
        """Rewards, and ends sampled from their probability, of every imagined step."""
        k = self.imagination.context
        seen = torch.cat([start.z[:, -k:], imagined.z[-1]], dim=1)
        real = torch.cat(
            [start.mask[:, -k:], start.mask.new_ones(imagined.actions.shape[1:3])], dim=1
        )
        reward, chance = (x[:, k:] for x in self.world.reward_and_end(seen, real))
        shape = self.ranks.total(len(chance)), chance.shape[1]
        dice = torch.rand(*shape, generator=self.rng, device=self.rng.device)
        terminated = self.ranks.share(dice) < chance
        return Outcome(reward, terminated, until_first_end(terminated))

    def encode(self, start: Start, acted: Imagined, paid: Imagined) -> Features:
        """Features of the context and of the clean frames that were acted on and that paid; where
        they are the same, an encoder that is shared sees them once."""
        features = self.critic.encoder(torch.cat([start.z, paid.z[-1]], dim=1))
        if acted is paid and self.actor.encoder is self.critic.encoder:
            return Features(features[:, :-1], features)
        seen = torch.cat([start.z, acted.z[-1, :, :-1]], dim=1)
        return Features(self.actor.encoder(seen), features)

    def values(
        self, start: Start, features: Float[Tensor, "batch seen hidden"]
    ) -> Float[Tensor, "batch _ size"]:
        """What the critic says of the last context frame and every imagined one."""
        batch, length = start.mask.shape
        ahead = start.mask.new_ones(batch, features.shape[1] - length)
        out, _ = self.critic.from_features(features, None, torch.cat([start.mask, ahead], dim=1))
        return out[:, length - 1 :]

    def actor_terms(
        self,
        start: Start,
        imagined: Imagined,
        features: Float[Tensor, "batch seen hidden"],
        advantage: Scalars,
        valid: Flags,
    ) -> tuple[dict[str, Term], dict[str, Tensor]]:
        """-A log pi(a) - eta H over the entries of all noise levels, each with its own action."""
        plan = self.plan
        logits = entry_logits(
            self.actor, plan, self.schedule, features, start.mask, imagined
        ).float()
        rows, columns = (device_index(x, logits.device) for x in (plan.rows, plan.columns))
        scores = self.actor.action_space.scores(logits, imagined.actions[rows, :, columns])
        counted = rearrange(valid[:, columns], "b entry -> entry b")
        gain = rearrange(advantage[:, columns], "b entry -> entry b") * scores.log_prob
        count = counted.sum()
        terms = {
            "actor": Term(-(gain * counted).sum(), count),
            "entropy": Term((scores.entropy * counted).sum(), count, -self.config.entropy_weight),
        }
        metrics = {n: self.ranks.mean(term.total, term.count) for n, term in terms.items()}
        clean = slice(plan.num_clean)
        seen = scores.policy[clean].detach(), scores.entropy[clean].detach(), counted[clean]
        metrics["state_action_information"] = self.state_action_information(*seen)
        return terms, metrics

    def state_action_information(
        self,
        policy: Float[Tensor, "entry batch action"],
        entropy: Float[Tensor, "entry batch"],
        counted: Bool[Tensor, "entry batch"],
    ) -> Float[Tensor, ""]:
        """Mutual information of state and action in nats, as the action space counts it. It is 0
        for a policy that does the same in every state."""
        space = self.actor.action_space
        count, weight = counted.sum(), rearrange(counted.to(policy), "entry b -> entry b 1")
        moments = space.moments(policy)
        mean = self.ranks.mean((moments * weight).sum((0, 1)), count.expand(moments.shape[-1]))
        return space.information(mean, self.ranks.mean((entropy * counted).sum(), count))

    def figures(
        self, imagined: Imagined, outcome: Outcome, returns: Scalars, values: Tensor
    ) -> dict[str, Tensor]:
        """What one wants to see of an imagination."""
        valid, mean = outcome.valid, self.ranks.mean
        schedule = device_copy(self.schedule, imagined.z)
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
