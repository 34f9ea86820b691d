"""The three learners of an agent: tokenizer, world model, controller."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from horizon_imagination.agent import Agent
from horizon_imagination.device import autocast, uses_bfloat16
from horizon_imagination.kernels import fuse
from horizon_imagination.learn.action_gap import action_gap
from horizon_imagination.learn.batches import Batches
from horizon_imagination.learn.controller import ControllerLoss
from horizon_imagination.learn.copies import Copies
from horizon_imagination.learn.dreamed_reward import SEGMENTS, dreamed_reward
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learner import Learner
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.learn.replayed_reward import replayed_reward
from horizon_imagination.learn.together import Together, overlaps
from horizon_imagination.learn.tokenizer import tokenizer_loss
from horizon_imagination.learn.unheeded_changes import unheeded_changes
from horizon_imagination.learn.world_model import Experience, world_model_loss
from horizon_imagination.models.perceptual import PerceptualLoss
from horizon_imagination.pretrained import load_weights
from horizon_imagination.streams import Streams, derive_seed


class Learners(NamedTuple):
    """All of them, and the controller's loss, which has a state of its own."""

    tokenizer: Learner | None
    """None if the tokenizer is frozen."""
    world_model: Learner | None
    """None if the agent was given its world model."""
    controller: Learner
    controller_loss: ControllerLoss
    together: Together | None = None
    """World model and controller where `training.overlap` lets them learn concurrently."""

    def in_order(self) -> list[Learner]:
        """Those that have something to learn, in the order of an epoch."""
        return [x for x in (self.tokenizer, self.world_model, self.controller) if x is not None]

    def active(self, epoch: int) -> list[Learner | Together]:
        """Those that take steps in an epoch, in its order."""
        if self.overlaps(epoch):
            assert self.together is not None
            return [self.together]
        return [x for x in self.in_order() if x.steps_in(epoch)]

    def overlaps(self, epoch: int) -> bool:
        """Whether world model and controller learn concurrently in an epoch."""
        if self.together is None:
            return False
        tokenizer = self.tokenizer.config if self.tokenizer else None
        both = self.together.world_model.config, self.together.controller.config
        return overlaps(epoch, tokenizer, *both)


def make_learners(
    agent: Agent,
    batches: Batches,
    streams: Streams,
    guard: Guard,
    frozen: frozenset[str] = frozenset(),
    ranks: Ranks = Ranks(),  # noqa: B008  (frozen)
) -> Learners:
    """Learners of everything but the frozen networks."""
    cfg, copies = agent.config, None
    if cfg.training.overlap and not agent.given_world and ranks.world == 1:
        copies = Copies(agent)
    controller_loss = ControllerLoss(
        actor=agent.actor,
        critic=agent.critic,
        world=copies.world_model if copies else agent.world_model,
        schedule=agent.schedule,
        config=cfg.controller,
        imagination=cfg.imagination,
        rng=streams["imagination"],
        ranks=ranks,
    )
    tokenizer = world_model = None
    if not agent.given_world:
        own = guard.another() if copies else guard
        world_model = _world_model(agent, batches, streams, own, frozen, ranks)
        if "tokenizer" not in frozen:
            tokenizer = _tokenizer(agent, batches, streams, guard, ranks)
    controller = Learner(
        "controller",
        cfg.controller.learner,
        sample=batches.contexts,
        loss=controller_loss,
        parameters=_groups(agent, ["actor", "critic"], frozen),
        guard=guard,
        precision=partial(autocast, agent.config.runtime, agent.device),
        ranks=ranks,
        graphed=agent.captured,
        generators=[streams["imagination"]],
        before_stage=copies.refresh if copies else lambda: None,
        examine=lambda: _replayed(agent, batches, controller_loss, controller.steps),
    )
    together = None
    if copies and world_model is not None:
        together = Together(world_model, controller, copies)
    return Learners(tokenizer, world_model, controller, controller_loss, together)


def _world_model(
    agent: Agent,
    batches: Batches,
    streams: Streams,
    guard: Guard,
    frozen: frozenset[str],
    ranks: Ranks,
) -> Learner:
    cfg, decay = agent.config, agent.config.world_model.reward_weight_decay
    learner = Learner(
        "world_model",
        cfg.world_model.learner,
        sample=batches.segments,
        loss=partial(
            world_model_loss,
            None if "denoiser" in frozen else agent.denoiser,
            agent.reward,
            cfg.world_model,
            cfg.denoiser,
            cfg.imagination.context,
            streams["world_model"],
            ranks=ranks,
        ),
        parameters=_groups(agent, ["denoiser", "reward"], frozen),
        guard=guard,
        rates={"reward": cfg.world_model.reward_rate},
        weight_decays={} if decay is None else {"reward": decay},
        precision=partial(autocast, agent.config.runtime, agent.device),
        after_step=agent.follow_denoiser if "denoiser" not in frozen else lambda: None,
        examine=lambda: _examined(agent, batches, streams, learner.steps),
        ranks=ranks,
        graphed=agent.captured,
        generators=[streams["world_model"]],
    )
    return learner


def _tokenizer(
    agent: Agent, batches: Batches, streams: Streams, guard: Guard, ranks: Ranks
) -> Learner:
    return Learner(
        "tokenizer",
        agent.config.tokenizer.learner,
        sample=batches.frames,
        loss=partial(
            tokenizer_loss,
            agent.tokenizer,
            _perceptual(agent),
            agent.config.tokenizer.latent_noise,
            streams["tokenizer"],
            ranks=ranks,
        ),
        parameters=_groups(agent, ["tokenizer"], frozenset()),
        guard=guard,
        precision=partial(autocast, agent.config.runtime, agent.device),
        ranks=ranks,
        graphed=agent.captured,
        generators=[streams["tokenizer"]],
    )


def _groups(
    agent: Agent, names: list[str], frozen: frozenset[str]
) -> dict[str, list[nn.Parameter]]:
    networks, groups, seen = agent.networks(), {}, set()
    for name in names:
        if name not in frozen:
            own = [p for p in networks[name].parameters() if id(p) not in seen]
            groups[name] = own  # what two networks share is the first one's
            seen.update(map(id, own))
    return groups


def _perceptual(agent: Agent) -> PerceptualLoss | None:
    name = agent.config.tokenizer.perceptual
    if name == "none":
        return None
    loss = PerceptualLoss(name, load_weights(name)).to(agent.device)
    if agent.fused:
        fuse(loss).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return loss.halved() if uses_bfloat16(agent.config.runtime, agent.device) else loss


def _examined(agent: Agent, batches: Batches, streams: Streams, steps: int) -> dict[str, Tensor]:
    """Action gap, dreamed reward and unheeded changes, of the weights that imagination uses."""
    cfg, rng = agent.config, streams["examine"]
    imagined = cfg.imagination.context + cfg.imagination.horizon

    def sample(count: int, length: int | None = None) -> Experience:
        return batches.segments(count, "examine", length)

    with autocast(cfg.runtime, agent.device):
        batch = cfg.world_model.learner.batch_size
        found = {"action_gap": action_gap(agent.imagination_denoiser, lambda: sample(batch), rng)}
        whole = sample(SEGMENTS, max(cfg.world_model.segment_length, imagined))
        segments = Experience(*(part[:, :imagined] for part in whole))
        found |= dreamed_reward(agent.world_model, segments, agent.schedule, rng)
        own = torch.Generator().manual_seed(derive_seed(cfg.seed, f"unheeded {steps}"))
        drawn = agent.schedule, agent.action_space, own
        found |= unheeded_changes(agent.world_model, segments, *drawn)
    return found


def _replayed(
    agent: Agent, batches: Batches, loss: ControllerLoss, steps: int
) -> dict[str, Tensor]:
    """Whether what dreams pay depends on actions that change on the way."""
    rng = torch.Generator(agent.device).manual_seed(
        derive_seed(agent.config.seed, f"replayed {steps}")
    )
    learner = agent.config.controller.learner
    count = learner.batch_size // learner.micro_batches
    with autocast(agent.config.runtime, agent.device):
        return replayed_reward(loss, batches.contexts(count, "replayed"), rng)
