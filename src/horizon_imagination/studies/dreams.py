"""Whether dreams pay what the world pays: the same contexts, the same policy, both worlds.

The agent of a run plays fresh episodes. From frames of these, the world model imagines how its
policy goes on, and the environment, put back into the same state, plays it. The reward model also
reads the environment's frames: if it is right there, imagined frames are at fault, else it is. The
dream is also repeated with its last actions given from the start: what is missing then was paid for
changing actions while frames were denoised (`learn/replayed_reward.py`).
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.collect import Collector
from horizon_imagination.config import EnvConfig
from horizon_imagination.data import Replay, Store
from horizon_imagination.device import autocast
from horizon_imagination.engine.dream import Start
from horizon_imagination.envs import make_env
from horizon_imagination.figures import PALETTE, save_figure
from horizon_imagination.files import write_text
from horizon_imagination.learn.batches import ReplayBatches
from horizon_imagination.learn.controller import ControllerLoss, Outcome
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.metrics.statistics import Interval
from horizon_imagination.provenance import provenance
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.streams import Streams
from horizon_imagination.studies.controller import PlayedLoss, Remembering
from horizon_imagination.types import Schedule

Rewards = Float[np.ndarray, "context frame"]
PARTS = 4
"""The horizon is cut into so many parts where single frames are too noisy."""
RESAMPLES = 2000


@dataclass(frozen=True)
class Futures:
    """What the steps after every context paid, up to the first end."""

    imagined: Rewards
    """By the reward model on imagined frames."""
    replayed: Rewards
    """The same, from the same noise, with the last actions given from the start."""
    read: Rewards
    """By the reward model on the environment's frames."""
    real: Rewards
    """By the environment."""
    ended: tuple[float, float]
    """Share of the futures that ended: imagined, real."""


def another_schedule(
    agent: Agent, budget: int | None, decay_horizon: float | None
) -> tuple[Schedule | None, str, dict[str, float]]:
    """A schedule with this budget or decay horizon, or none for the agent's own; a name for the
    results, and what they say of it: nothing of one that was given as a matrix."""
    own, asked = agent.config.imagination, (budget, decay_horizon) != (None, None)
    budget = own.budget if budget is None else budget
    decay = own.decay_horizon if decay_horizon is None else decay_horizon
    said = {"budget": budget, "decay_horizon": decay}
    if not asked:
        return None, "dreams", said if agent.given_schedule is None else {}
    return horizon_schedule(own.horizon, budget, decay), f"dreams-{decay:g}-{budget}", said


def play_and_imagine(
    agent: Agent,
    env: EnvConfig,
    folder: Path,
    *,
    contexts: int,
    steps: int,
    seed: int,
    progress: Callable[[str, int, int], None],
    schedule: Schedule | None = None,
) -> Futures:
    """Play fresh steps into `folder`, then follow contexts of them in both worlds.

    Dreams follow the agent's schedule, or another one.
    """
    cfg, device = agent.config, agent.device
    world = Remembering(make_env(env, seed=seed))
    height, width, channels = world.observation_space.shape  # type: ignore[misc]
    store = Store.create(folder, (channels, height, width), agent.num_actions, env.id)
    replay, streams = Replay(store, cfg.replay), Streams(seed, device)
    collector = Collector(world, store, replay, agent, streams["collect"])
    batch = min(contexts, cfg.controller.learner.batch_size)
    worlds = [make_env(env, seed=seed + i) for i in range(batch)]
    followed = agent.schedule if schedule is None else schedule
    parts = agent.actor, agent.critic, agent.world_model, followed
    settings = cfg.controller, cfg.imagination, streams["imagination"]
    dream = ControllerLoss(*parts, *settings)
    played = PlayedLoss(*parts, *settings, agent=agent, worlds=worlds, states=world.states)
    try:
        done = count(1)
        collector.collect(
            steps, trained=True, on_step=lambda: progress("playing", next(done), steps)
        )
        latents = LatentCache(store, agent.encode, device)
        latents.refresh()
        batches = ReplayBatches(agent, replay, latents, streams)
        found = []
        while len(found) * batch < contexts:
            rows = replay.context_rows(batch, cfg.controller.context, streams["replay"])
            played.rows = rows.rows.amax(1).tolist()
            found.append(_followed(agent, dream, played, batches.contexts_at(rows)))
            progress("imagining", min(len(found) * batch, contexts), contexts)
        return _joined(found, contexts)
    finally:
        store.close()
        for each in (world, *worlds):
            each.close()


class Followed(NamedTuple):
    """What came after the contexts of a batch."""

    dream: Outcome
    replayed: Outcome
    read: Tensor
    """Rewards read off the environment's frames."""
    real: Outcome


@torch.no_grad()
def _followed(agent: Agent, dream: ControllerLoss, played: PlayedLoss, start: Start) -> Followed:
    with autocast(agent.config.runtime, agent.device):
        imagined, frames = dream.imagine(start), played.imagine(start)
        return Followed(
            dream=dream.judge(start, imagined),
            replayed=dream.judge(start, dream.replay(start, imagined)),
            read=ControllerLoss.judge(played, start, frames).reward,
            real=played.judge(start, frames),
        )


def _joined(found: list[Followed], contexts: int) -> Futures:
    def rows(parts: Iterator[Tensor]) -> np.ndarray:
        return torch.cat([part.float().cpu() for part in parts]).numpy()[:contexts]

    def paid(outcomes: Iterator[Outcome]) -> np.ndarray:
        return rows(outcome.reward * outcome.valid for outcome in outcomes)

    return Futures(
        imagined=paid(x.dream for x in found),
        replayed=paid(x.replayed for x in found),
        read=rows(x.read * x.real.valid for x in found),
        real=paid(x.real for x in found),
        ended=(
            float(rows(x.dream.terminated.any(1) for x in found).mean()),
            float(rows(x.real.terminated.any(1) for x in found).mean()),
        ),
    )


def ratio_interval(
    paid: Float[np.ndarray, " context"], real: Float[np.ndarray, " context"], seed: int = 0
) -> Interval | None:
    """Sum of `paid` over sum of `real`, contexts resampled together; none where nothing was real.

    >>> ratio_interval(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    Interval(estimate=0.5, low=0.5, high=0.5)
    """
    if not real.sum():
        return None
    drawn = np.random.default_rng(seed).integers(len(real), size=(RESAMPLES, len(real)))
    above, below = paid[drawn].sum(1), real[drawn].sum(1)
    ratios = above[below != 0] / below[below != 0]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Interval(float(paid.sum() / real.sum()), float(low), float(high))


def summary(futures: Futures) -> dict[str, Any]:
    """Means by frame, and the ratios to the real reward: over all frames, and by parts."""
    horizon = futures.real.shape[1]
    found: dict[str, Any] = {"contexts": len(futures.real), "horizon": horizon}
    edges = np.linspace(0, horizon, min(PARTS, horizon) + 1).astype(int)
    pieces = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    for name in ("imagined", "replayed", "read"):
        paid = getattr(futures, name)
        found[f"{name}_over_real"] = _plain(ratio_interval(paid.sum(1), futures.real.sum(1)))
        found[f"{name}_over_real_by_part"] = [
            _plain(ratio_interval(paid[:, a:b].sum(1), futures.real[:, a:b].sum(1)))
            for a, b in pieces
        ]
    found["parts"] = [[a + 1, b] for a, b in pieces]
    for name in ("imagined", "replayed", "read", "real"):
        paid = getattr(futures, name)
        found[name], found[f"{name}_by_frame"] = float(paid.sum(1).mean()), paid.mean(0).tolist()
    found["ended"] = dict(zip(("imagined", "real"), futures.ended, strict=True))
    return found


def _plain(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.estimate, interval.low, interval.high]


def describe(found: dict[str, Any]) -> list[str]:
    """The findings in words."""
    lines = [
        f"reward of {found['horizon']} steps after {found['contexts']} fresh contexts: "
        f"imagined {found['imagined']:.4g} (its last actions given from the start "
        f"{found['replayed']:.4g}), real {found['real']:.4g}, "
        f"read off the real frames {found['read']:.4g}"
    ]
    if found["imagined_over_real"] is None:
        return [
            *lines,
            "the environment paid nothing: more --steps may meet a reward",
        ]
    for name in ("imagined", "replayed", "read"):
        ratio, low, high = found[f"{name}_over_real"]
        parts = ", ".join(
            f"{a} to {b}: {'-' if part is None else format(part[0], '.2f')}"
            for (a, b), part in zip(found["parts"], found[f"{name}_over_real_by_part"], strict=True)
        )
        lines.append(f"{name} / real {ratio:.2f} [{low:.2f}, {high:.2f}]; by frames {parts}")
    ended = found["ended"]
    lines.append(f"futures that end: imagined {ended['imagined']:.0%}, real {ended['real']:.0%}")
    return lines


def write(found: dict[str, Any], folder: Path) -> list[str]:
    """Write figures and picture; the findings in words."""
    write_text(folder / "dreams.json", json.dumps(found | provenance(), indent=2) + "\n")
    lines = describe(found)
    try:
        draw(found, folder / "dreams.png")
        lines.append(f"figure: {folder / 'dreams.png'}")
    except ImportError:
        lines.append("no figure: matplotlib is not installed")
    return lines


def draw(found: dict[str, Any], path: Path) -> None:
    """The mean reward that has come together up to each frame, of both worlds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.subplots()
    shown = {
        "real": "environment",
        "imagined": "dream",
        "replayed": "dream, last actions given",
        "read": "reward model on real frames",
    }
    frames = range(1, found["horizon"] + 1)
    for color, style, (name, label) in zip(
        PALETTE, ("-", "-", ":", "--"), shown.items(), strict=False
    ):
        total = np.cumsum(found[f"{name}_by_frame"])
        axes.plot(frames, total, style, color=color, label=label)
    axes.set(xlabel="frame of the horizon", ylabel="mean reward up to it")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save_figure(figure, path)
