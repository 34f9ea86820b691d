"""The world model on steps that no learner has seen yet.

A reward model that memorises is right on the replay and wrong on new frames; metrics of training
batches cannot show it. These are taken between collecting and learning, on the steps just
collected: what they paid, what the reward model reads off them, and what imagination pays for the
same actions from the same first frames.
"""

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.data import Replay
from horizon_imagination.data.replay import Rows, stretch
from horizon_imagination.device import autocast, to_device
from horizon_imagination.flow import uniform_noise
from horizon_imagination.learn.dreamed_reward import dreamed_reward
from horizon_imagination.learn.world_model import (
    Experience,
    denoiser_terms,
    reward_terms,
    sample_training_times,
)
from horizon_imagination.streams import derive_seed


def fresh_rows(replay: Replay, steps: int, length: int) -> Rows:
    """The newest steps of the store, cut into segments of one episode each, oldest first.

    The first frame of a segment is the last one of the segment before it, so that every step is in
    exactly one segment.
    """
    store = replay.store
    first, firsts, ends = max(store.num_frames - steps - 1, 0), [], []
    for start, end in zip(store.starts.tolist(), store.ends.tolist(), strict=True):
        for begin in range(max(start, first), end - 1, length - 1):
            firsts.append(begin)
            ends.append(min(begin + length, end))
    return stretch(np.array(firsts, dtype=np.int64), np.array(ends, dtype=np.int64), length)


@torch.no_grad()
def fresh_experience(agent: Agent, replay: Replay, steps: int) -> Experience | None:
    """The newest steps as segments of latents; none where no step was taken."""
    rows = fresh_rows(replay, steps, agent.config.world_model.segment_length)
    if not len(rows.rows):
        return None
    frames = rearrange(replay.gather(*rows).frames, "b t c h w -> (b t) c h w")
    z = agent.encode(to_device(frames, agent.device))
    return Experience(
        rearrange(z, "(b t) c h w -> b t c h w", b=len(rows.rows)),
        *(to_device(x, agent.device) for x in replay.gather_steps(*rows)),
    )


@torch.no_grad()
def fresh_metrics(agent: Agent, replay: Replay, steps: int, epoch: int) -> dict[str, Tensor]:
    """Errors and rewards of the world model on the newest steps, by its present weights."""
    cfg, batch = agent.config, fresh_experience(agent, replay, steps)
    if batch is None:
        return {}
    length = cfg.world_model.segment_length
    rng = torch.Generator().manual_seed(derive_seed(cfg.seed, f"fresh {epoch}"))
    with autocast(cfg.runtime, agent.device):
        terms, _ = reward_terms(agent.reward, batch)
        count, context = len(batch.z), cfg.imagination.context
        tau = sample_training_times(count, length, context, cfg.world_model, rng).to(agent.device)
        noise = uniform_noise(*batch.z.shape, rng=rng).to(agent.device)
        drawn = batch, tau, noise, cfg.world_model.noise_ahead
        terms |= denoiser_terms(agent.imagination_denoiser, cfg.denoiser, *drawn)
        paid = {}
        if length == context + cfg.imagination.horizon:
            paid = dreamed_reward(agent.world_model, batch, agent.schedule, rng)
    errors = {name: term.total / term.count.clamp(min=1) for name, term in terms.items()}
    return {f"fresh/{name}": value for name, value in (errors | paid).items()}
