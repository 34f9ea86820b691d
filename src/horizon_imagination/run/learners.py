"""The three learners of an agent: tokenizer, world model, controller."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from horizon_imagination.agent import Agent
from horizon_imagination.data import Replay
from horizon_imagination.data.replay import Rows
from horizon_imagination.device import autocast, to_device, uses_bfloat16
from horizon_imagination.engine.dream import Start, left_padded
from horizon_imagination.engine.fused import FusedDenoiser
from horizon_imagination.kernels import fuse
from horizon_imagination.learn.action_gap import action_gap
from horizon_imagination.learn.controller import ControllerLoss
from horizon_imagination.learn.dreamed_reward import SEGMENTS, dreamed_reward
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.learner import Learner, Losses
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.learn.streams import Streams
from horizon_imagination.learn.tokenizer import tokenizer_loss
from horizon_imagination.learn.world_model import Experience, world_model_loss
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.perceptual import PerceptualLoss


class Learners(NamedTuple):
    """All of them, and the controller's loss, which has a state of its own."""

    tokenizer: Learner | None
    """None if the tokenizer is frozen."""
    world_model: Learner
    controller: Learner
    controller_loss: ControllerLoss

    def in_order(self) -> list[Learner]:
        """Those that have something to learn, in the order of an epoch."""
        first = [] if self.tokenizer is None else [self.tokenizer]
        return [*first, self.world_model, self.controller]


def make_learners(
    agent: Agent,
    replay: Replay,
    latents: LatentCache,
    streams: Streams,
    guard: Guard,
    frozen: frozenset[str] = frozenset(),
    ranks: Ranks = Ranks(),  # noqa: B008  (frozen)
) -> Learners:
    """Learners of everything but the frozen networks."""
    cfg = agent.config
    controller_loss = ControllerLoss(
        actor=agent.actor,
        critic=agent.critic,
        denoiser=imagining_denoiser(agent),
        reward=agent.reward,
        config=cfg.controller,
        imagination=cfg.imagination,
        rng=streams["imagination"],
        ranks=ranks,
    )
    world_model = _world_model(agent, replay, latents, streams, guard, frozen, ranks)
    controller = Learner(
        "controller",
        cfg.controller.learner,
        sample=lambda n: _start(agent, replay, latents, streams, n),
        loss=_in_precision(agent, controller_loss),
        parameters=_groups(agent, ["actor", "critic"], frozen),
        guard=guard,
        ranks=ranks,
        graphed=graphed(agent, ranks),
        generators=[streams["imagination"]],
    )
    tokenizer = None
    if "tokenizer" not in frozen:
        tokenizer = _tokenizer(agent, replay, streams, guard, ranks)
    return Learners(tokenizer, world_model, controller, controller_loss)


def _world_model(
    agent: Agent,
    replay: Replay,
    latents: LatentCache,
    streams: Streams,
    guard: Guard,
    frozen: frozenset[str],
    ranks: Ranks,
) -> Learner:
    cfg = agent.config
    return Learner(
        "world_model",
        cfg.world_model.learner,
        sample=lambda n: _experience(agent, replay, latents, streams, n),
        loss=_in_precision(
            agent,
            partial(
                world_model_loss,
                None if "denoiser" in frozen else agent.denoiser,
                agent.reward,
                cfg.world_model,
                cfg.denoiser,
                cfg.imagination.context,
                streams["world_model"],
                ranks=ranks,
            ),
        ),
        parameters=_groups(agent, ["denoiser", "reward"], frozen),
        guard=guard,
        after_step=agent.follow_denoiser if "denoiser" not in frozen else lambda: None,
        examine=lambda: _examined(agent, replay, latents, streams),
        ranks=ranks,
        graphed=graphed(agent, ranks),
        generators=[streams["world_model"]],
    )


def _tokenizer(
    agent: Agent, replay: Replay, streams: Streams, guard: Guard, ranks: Ranks
) -> Learner:
    return Learner(
        "tokenizer",
        agent.config.tokenizer.learner,
        sample=lambda n: to_device(replay.frames(n, streams["replay"]), agent.device),
        loss=_in_precision(
            agent,
            partial(
                tokenizer_loss,
                agent.tokenizer,
                _perceptual(agent),
                agent.config.tokenizer.latent_noise,
                streams["tokenizer"],
                ranks=ranks,
            ),
        ),
        parameters=_groups(agent, ["tokenizer"], frozenset()),
        guard=guard,
        ranks=ranks,
        graphed=graphed(agent, ranks),
        generators=[streams["tokenizer"]],
    )


def imagining_denoiser(agent: Agent) -> Denoiser | FusedDenoiser:
    """The denoiser as imagination runs it; contexts of several frames may be padded."""
    cfg = agent.config.imagination
    if cfg.engine == "window" and cfg.context == 1:
        return agent.window_denoiser()
    return agent.dreamer


def graphed(agent: Agent, ranks: Ranks) -> bool:
    """Whether steps are captured: where a CUDA device is, and this process is alone on it."""
    return agent.captured and ranks.world == 1


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
    loss = PerceptualLoss(name).to(agent.device)
    if agent.fused:
        fuse(loss).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return loss.halved() if uses_bfloat16(agent.config.runtime, agent.device) else loss


def _in_precision(agent: Agent, loss):
    def run(batch) -> Losses:
        with autocast(agent.config.runtime, agent.device):
            return loss(batch)

    return run


def _examined(
    agent: Agent, replay: Replay, latents: LatentCache, streams: Streams
) -> dict[str, Tensor]:
    """Action gap and dreamed reward, of the weights that imagination uses; the latter where
    segments are as long as an imagination."""
    cfg, rng = agent.config, streams["examine"]
    imagination, length = cfg.imagination, cfg.world_model.segment_length

    def sample(count: int) -> Experience:
        return _experience(agent, replay, latents, streams, count, "examine")

    with autocast(cfg.runtime, agent.device):
        batch = cfg.world_model.learner.batch_size
        found = {"action_gap": action_gap(agent.dreamer, lambda: sample(batch), rng)}
        if length == imagination.context + imagination.horizon:
            found |= dreamed_reward(
                agent.dreamer, agent.reward, sample(SEGMENTS), agent.schedule, rng
            )
    return found


def _experience(
    agent: Agent,
    replay: Replay,
    latents: LatentCache,
    streams: Streams,
    batch: int,
    stream: str = "replay",
) -> Experience:
    rows = replay.segment_rows(batch, agent.config.world_model.segment_length, streams[stream])
    steps = replay.gather_steps(*rows)
    move: dict[str, Tensor] = {
        name: to_device(value, agent.device) for name, value in steps._asdict().items()
    }
    return Experience(z=latents.gather(*rows), **move)


def _start(
    agent: Agent, replay: Replay, latents: LatentCache, streams: Streams, batch: int
) -> Start:
    rows = replay.context_rows(batch, agent.config.controller.context, streams["replay"])
    return start_at(agent, replay, latents, rows)


def start_at(agent: Agent, replay: Replay, latents: LatentCache, rows: Rows) -> Start:
    """The contexts at these rows of the replay, as imagination begins from them."""
    steps = replay.gather_steps(*rows)
    with torch.no_grad():
        return left_padded(
            latents.gather(*rows),
            to_device(steps.action, agent.device),
            to_device(rows.mask, agent.device),
        )
