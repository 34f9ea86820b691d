"""The world model's losses: rectified flow for the denoiser (Eq. 1), rewards and ends."""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from horizon_imagination.config import DenoiserConfig, WorldModelConfig
from horizon_imagination.data.segment import shift_right
from horizon_imagination.flow import (
    interpolate,
    sample_times,
    sweep_times,
    trainable,
    uniform_noise,
    velocity_error,
)
from horizon_imagination.imagination import VelocityFn
from horizon_imagination.learn.learner import Losses, Term
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.reward import RewardModel
from horizon_imagination.types import Actions, Flags, Latents, Scalars, Times, entrywise


class Experience(NamedTuple):
    """Segments as latents; `action[t]` was taken on `z[t]`, reward and end followed it."""

    z: Latents
    action: Actions
    prev_actions: Actions
    reward: Scalars
    terminated: Flags
    mask: Flags


def sample_training_times(
    batch: int, length: int, context: int, cfg: WorldModelConfig, rng: torch.Generator
) -> Times:
    """Independent times with clean prefixes; a share shaped like rows of the Horizon schedule."""
    tau = sample_times(batch, length, rng, cfg.clean_prob, cfg.max_clean)
    if not cfg.horizon_times or length <= context:
        return tau
    swept = sweep_times(batch, length, context, rng)
    chosen = torch.rand(batch, 1, generator=rng, device=rng.device) < cfg.horizon_times
    return torch.where(chosen, swept, tau)


def denoiser_terms(
    denoiser: Denoiser,
    cfg: DenoiserConfig,
    batch: Experience,
    tau: Times,
    noise: Latents,
    noise_ahead: int | None = None,
    begun: Flags | None = None,
) -> dict[str, Term]:
    """Squared velocity error over the frames that teach something.

    Frames that were begun under other actions (`begun`) count by the error of the clean frame that
    follows from the velocity: their velocities are as large as 1 / (1 - tau).
    """
    v = denoiser(interpolate(noise, batch.z, tau), tau, batch.prev_actions).float()
    error = velocity_error(v, noise, batch.z)
    if cfg.loss_weight == "noise_squared":
        error = error * (1 - tau).square()
    elif begun is not None:
        error = torch.where(begun, error * (1 - tau).square(), error)
    mask = trainable(tau, batch.mask, noise_ahead)
    return {"denoiser": Term((error * mask).sum(), mask.sum())}


@torch.no_grad()
def begun_otherwise(
    denoiser: VelocityFn,
    batch: Experience,
    tau: Times,
    noise: Latents,
    others: Actions,
    begun: Flags,
    by: Literal["frame", "effect"] = "frame",
) -> Latents:
    """Noise for frames of which those of `begun` have moved under other actions until now.

    Imagination has such frames where a policy changes an action. The noise that comes back is the
    one whose interpolation with the true frame is what such a frame shows at tau; so it gives the
    velocity that still leads to the true frame. A frame of pure noise goes on, in one Euler step,

    - by `frame`: to z^tau under the other action. This is the mean of all that may come, so nothing
      in it tells which of it comes: the denoiser learns to leave it a mean;
    - by `effect`: under the other action and under its own. Their difference is what the action
      does, and is added to the interpolation, which shows what chance has brought.
    """
    here = rearrange(begun, "b t -> b t 1 1 1")
    seen = torch.where(here, noise, interpolate(noise, batch.z, tau))
    start = tau.masked_fill(begun, 0.0)

    def imagined(actions: Actions) -> Latents:
        return noise + denoiser(seen, start, actions).float()

    other = imagined(torch.where(entrywise(begun, others), others, batch.prev_actions))
    own = imagined(batch.prev_actions) if by == "effect" else batch.z
    share = rearrange(tau / (1 - tau).clamp(min=1e-4), "b t -> b t 1 1 1")
    return torch.where(here, noise + share * (other - own), noise)


def changed_frames(tau: Times, every: int, rng: torch.Generator) -> Flags:
    """Half of the noisy frames, in the first of every so many samples."""
    half = torch.rand(*tau.shape, generator=rng, device=rng.device) < 0.5
    first = torch.arange(len(tau), device=rng.device) % every == 0
    return half & (tau < 1) & rearrange(first, "b -> b 1")


def with_changes(
    denoiser: VelocityFn,
    batch: Experience,
    tau: Times,
    noise: Latents,
    others: Actions,
    begun: Flags,
    rows: slice,
    by: Literal["frame", "effect"] = "frame",
) -> Latents:
    """The noise of a batch whose frames of `begun` were begun under other actions.

    The denoiser is asked about the rows alone that have such frames.
    """
    if not len(tau[rows]):  # a rank may have none
        return noise
    some = Experience(*(part[rows] for part in batch))
    noise = noise.clone()
    drawn = tau[rows], noise[rows], others[rows], begun[rows]
    noise[rows] = begun_otherwise(denoiser, some, *drawn, by)
    return noise


def reward_terms(
    model: RewardModel,
    batch: Experience,
    ranks: Ranks = Ranks(),  # noqa: B008  (frozen)
) -> tuple[dict[str, Term], dict]:
    """Errors of reward and end at every frame that an action of the segment led to."""
    reward, end_logits = model.split(model(batch.z)[0])
    led_to = batch.mask.clone()
    led_to[:, 0] = False
    target = shift_right(batch.reward, 0.0)
    ended = shift_right(batch.terminated, False).long()
    error = model.readout.error(reward, target)
    logits = rearrange(end_logits.float(), "b t two -> b two t")
    cross_entropy = F.cross_entropy(logits, ended, reduction="none")
    count = led_to.sum()
    terms = {
        "reward": Term((error * led_to).sum(), count),
        "end": Term((cross_entropy * led_to).sum(), count),
    }
    right = (end_logits.argmax(-1) == ended) & led_to
    real = (ended == 1) & led_to
    metrics = {
        "end_accuracy": ranks.mean(right.sum().float(), count),
        # Counts, since most batches of long episodes have no end to foresee.
        "ends": ranks.sum(real.sum().float()),
        "ends_foreseen": ranks.sum((right & real).sum().float()),
    }
    return terms, metrics


def shift_frames(
    z: Latents, cells: Int[Tensor, "batch 2"], mean: Float[Tensor, "channel height width"]
) -> Latents:
    """Every segment down and right by its cells; only what differs from the mean frame moves.

    At the border the mean frame comes in.
    """
    height, width = z.shape[-2:]
    down, right = (rearrange(by, "b -> b 1") for by in cells.unbind(1))
    row = rearrange(torch.arange(height, device=z.device) - down, "b h -> b 1 1 h 1")
    column = rearrange(torch.arange(width, device=z.device) - right, "b w -> b 1 1 1 w")
    outside = (row < 0) | (row >= height) | (column < 0) | (column >= width)
    moved = (z - mean).take_along_dim(row.clamp(0, height - 1), dim=-2)
    moved = moved.take_along_dim(column.clamp(0, width - 1), dim=-1)
    return mean + moved.masked_fill(outside, 0.0)


def varied_latents(
    model: RewardModel, cfg: WorldModelConfig, z: Latents, rng: torch.Generator
) -> Latents:
    """What the reward model learns from: segments shifted, then noisy, if the config says so."""
    if cfg.reward_shift:
        most, statistics = cfg.reward_shift, model.encoder.statistics
        cells = torch.randint(-most, most + 1, (len(z), 2), generator=rng, device=rng.device)
        z = shift_frames(z, cells, statistics.mean if statistics else torch.zeros_like(z[0, 0]))
    if cfg.reward_noise:
        z = z + cfg.reward_noise * uniform_noise(*z.shape, rng=rng)
    return z


def world_model_loss(
    denoiser: Denoiser | None,
    reward: RewardModel,
    cfg: WorldModelConfig,
    denoiser_cfg: DenoiserConfig,
    context: int,
    rng: torch.Generator,
    batch: Experience,
    ranks: Ranks = Ranks(),  # noqa: B008  (frozen)
) -> Losses:
    """Denoiser and reward model on the same clean segments; a frozen denoiser is left out."""
    reward.encoder.follow(batch.z, batch.mask)
    shown = batch._replace(z=varied_latents(reward, cfg, batch.z, rng))
    terms, metrics = reward_terms(reward, ranks.share(shown), ranks)
    if denoiser is not None:
        if denoiser.statistics:
            denoiser.statistics.update(batch.z, batch.mask)
        samples, length = batch.mask.shape
        tau = sample_training_times(samples, length, context, cfg, rng)
        noise = uniform_noise(*batch.z.shape, rng=rng)
        own, begun = ranks.share((batch, tau, noise)), None
        if cfg.change_every:
            begun = changed_frames(tau, cfg.change_every, rng)
            others = batch.prev_actions.roll(1, 0)  # of another sample
            begun, others = ranks.share((begun, others))
            first = -ranks.rows(samples).start % cfg.change_every
            rows = slice(first, None, cfg.change_every)
            changes = others, begun, rows, cfg.change_by
            own = *own[:2], with_changes(denoiser, *own, *changes)
        terms |= denoiser_terms(denoiser, denoiser_cfg, *own, cfg.noise_ahead, begun)
    means: dict[str, Tensor] = {
        name: ranks.mean(term.total, term.count) for name, term in terms.items()
    }
    return Losses(terms, means | metrics)
