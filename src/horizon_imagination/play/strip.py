"""The whole horizon while it is denoised: every row of the schedule, for every sampler."""

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Shaped, UInt8
from torch import Tensor

from horizon_imagination.actions import ActionSpace, Box, Discrete
from horizon_imagination.agent import Agent
from horizon_imagination.config import ScheduleKind
from horizon_imagination.device import autocast
from horizon_imagination.engine.draws import Sampler
from horizon_imagination.engine.dream import Start, dream
from horizon_imagination.envs.spaces import to_world
from horizon_imagination.imagination import Imagined, difference
from horizon_imagination.play.worlds import PlayedAgent
from horizon_imagination.types import Schedule, is_action

SAMPLERS: tuple[Sampler, ...] = ("stable", "coupled", "naive")
MOVED = 0.1
"""Distance, of a range of 2, from which on a vector counts as changed."""
CONTEXT_SHOWN = 3


@dataclass(frozen=True)
class LiveStrip:
    """What a sampler made of the noise, row by row."""

    sampler: Sampler
    frames: UInt8[np.ndarray, "row time height width channel"]
    actions: Shaped[np.ndarray, "row time *entry"]
    """The action that leads to each frame, as the agent has it; none where it was not asked yet."""
    told: list[list[Any]]
    """The same as the page has it."""
    policy: Float[np.ndarray, "row time name"]
    """What that action was drawn from: the policy at the frame before, as noisy as it was."""
    changed: Bool[np.ndarray, "row time"]
    """The action differs from the row above, under which the frame was already denoised."""
    late: Bool[np.ndarray, "row time"]
    """The same, and the frame was clean: it shows what another action led to."""
    reward: Float[np.ndarray, " time"]
    end: Float[np.ndarray, " time"]
    value: Float[np.ndarray, " time"]
    """Read off the clean frames."""
    milliseconds: float
    engine: Literal["window", "plain"]


def budgets(horizon: int) -> dict[ScheduleKind, dict[str, int]]:
    """Least, most and step of the budget of every kind of schedule."""
    most = max(64, 2 * horizon)
    return {
        "horizon": {"least": 1, "most": most, "step": 1},
        "pyramidal": {"least": horizon, "most": most, "step": 1},
        "autoregressive": {"least": horizon, "most": most // horizon * horizon, "step": horizon},
        "full": {"least": 1, "most": most, "step": 1},
    }


@torch.no_grad()
def imagine_strip(
    networks: PlayedAgent, start: Start, schedule: Schedule, sampler: Sampler, seed: int
) -> LiveStrip:
    """Imagine what the policy does; noise and first dice depend on the seed alone."""
    agent = networks.agent
    rng = torch.Generator(agent.device).manual_seed(seed)
    _wait(agent)
    begun = time.perf_counter()
    with autocast(agent.config.runtime, agent.device):
        imagined = dream(
            agent.world_model,
            agent.actor,
            start,
            schedule,
            context=min(agent.config.imagination.context, start.z.shape[1]),
            sampler=sampler,
            window=sampler != "naive",  # which redraws actions of settled frames too
            rng=rng,
        )
    _wait(agent)
    milliseconds = 1000 * (time.perf_counter() - begun)
    actions = imagined.actions[:, 0].cpu()
    changed, late = _changes(actions, schedule)
    reward, end, value = _judged(agent, start, imagined)
    frames = agent.decode(imagined.z[:, 0]).cpu().numpy()
    return LiveStrip(
        sampler=sampler,
        frames=rearrange(frames, "row t c h w -> row t h w c"),
        actions=actions.numpy(),
        told=told_actions(agent.action_space, actions),
        policy=shares(agent.action_space, _policies(agent, start, imagined, schedule)).numpy(),
        changed=changed.numpy(),
        late=late.numpy(),
        reward=reward,
        end=end,
        value=value,
        milliseconds=milliseconds,
        engine="plain" if sampler == "naive" else "window",
    )


def _wait(agent: Agent) -> None:
    if agent.device.type == "cuda":
        torch.cuda.synchronize(agent.device)


def shares(
    space: ActionSpace, policy: Float[Tensor, "*batch output"]
) -> Float[Tensor, "*batch name"]:
    """A number from 0 to 1 per name: the probability of an action, or where in its range an entry
    of the policy's middle lies."""
    if isinstance(space, Discrete):
        return policy
    if isinstance(space, Box):
        return (policy.chunk(2, dim=-1)[0].tanh() + 1) / 2
    most = torch.tensor([max(1, n - 1) for n in space.factors])
    return space.greedy(policy) / most


def told_actions(space: ActionSpace, actions: Shaped[Tensor, "row time *entry"]) -> list[list[Any]]:
    """Actions of the agent as the page has them."""
    told = to_world(space, actions)
    if isinstance(space, Discrete):
        return told.tolist()
    absent = ~is_action(actions).all(-1)
    rounded = told.astype(np.float64).round(3).tolist()
    return [
        [None if gone else action for action, gone in zip(*row, strict=True)]
        for row in zip(rounded, absent.tolist(), strict=True)
    ]


def _changes(
    actions: Shaped[Tensor, "row time *entry"], schedule: Schedule
) -> tuple[Bool[Tensor, "row time"], Bool[Tensor, "row time"]]:
    """Changes of action once a frame has been denoised under another one, and once it is clean.

    A vector has changed where it has moved by more than a twentieth of the range.
    """
    before, now, tau = actions[:-1], actions[1:], schedule
    known = is_action(before)
    apart = difference(before[:, None], now[:, None])[:, 0]
    changed = torch.zeros_like(tau, dtype=torch.bool)
    known = known if known.ndim == 2 else known.all(-1)
    changed[1:] = (apart > (MOVED if actions.is_floating_point() else 0)) & known & (tau[1:] > 0)
    return changed, changed & (tau == 1)


def _policies(
    agent: Agent, start: Start, imagined: Imagined, schedule: Schedule
) -> Float[Tensor, "row time action"]:
    """The policy behind every action of every row; column 0 was taken on the last context frame."""
    z, rows = imagined.z[:, 0], len(schedule)
    with autocast(agent.config.runtime, agent.device):
        logits, states = agent.actor(start.z, None, None, start.mask)
        now = agent.action_space.policy(logits[:, -1].float())
        first = repeat(now, "1 a -> row 1 a", row=rows)
        state = type(states.at(-1))(*(repeat(s, "1 d -> row d", row=rows) for s in states.at(-1)))
        later = agent.actor.policy(z[:, :-1], schedule.to(z)[:, :-1], state)
    return torch.cat([first, later], dim=1).cpu()


def _judged(agent: Agent, start: Start, imagined: Imagined) -> tuple[np.ndarray, ...]:
    """Reward, end and value of the clean frames."""
    seen, first = torch.cat([start.z, imagined.z[-1]], dim=1), start.z.shape[1]
    with autocast(agent.config.runtime, agent.device):
        reward, end = agent.world_model.reward_and_end(seen)
        value = agent.critic.readout.value(agent.critic(seen)[0].float())
    return tuple(x[0, first:].float().cpu().numpy() for x in (reward, end, value))
