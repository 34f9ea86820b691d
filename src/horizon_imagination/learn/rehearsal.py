"""Steps of a throw-away agent on random batches: what they take, and with how many threads.

Nothing is written, so a kill leaves nothing behind.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from horizon_imagination.actions import ActionSpace
from horizon_imagination.agent import Agent
from horizon_imagination.collect import decider
from horizon_imagination.config import Config
from horizon_imagination.costs import Costs
from horizon_imagination.device import autocast
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import BLOCKS
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.learn.together import Together
from horizon_imagination.streams import Streams
from horizon_imagination.timing import (
    CAPTURED,
    Seconds,
    ThreadTrial,
    call_seconds,
    choose_threads,
    most_threads,
    product,
)

ENCODE, ACT = "encode", "act"
SIDE, REACHED = 1024, 0.5
"""Side of the matrices whose product tells the speed, and the share of it that networks reach."""


@dataclass(frozen=True)
class Rehearsed:
    """Seconds of single calls, as on a machine with nothing else to do."""

    steps: dict[str, float]
    """One step of every learner."""
    encode: float
    """Encoding a stored frame."""
    act: float
    """Acting on a new frame."""
    together: float | None = None
    """One step of the controller with its share of the world model's, where they learn
    concurrently on a GPU."""
    slowdown: float = 1.0
    """How many times slower they were while they were measured, beside other programs."""
    trial: ThreadTrial | None = None
    """The trial of threads, if the config leaves their number open."""


def rehearse(config: Config, actions: ActionSpace | int, device: torch.device) -> Rehearsed:
    """Take steps and time them, with the config's threads or the fastest number.

    On a busy CPU the times are CPU times of one thread, which other programs hardly change.
    Nothing is compiled for it, which would take longer than all the rest.
    """
    config = replace(config, runtime=replace(config.runtime, compile=False))
    agent = Agent(config, actions, device)
    batches = RandomBatches(agent, torch.Generator(device).manual_seed(0))
    before, threads, trial = torch.get_num_threads(), config.runtime.threads, None
    probe = _probe(agent, batches)
    try:
        if device.type == "cpu" and not threads:
            trial = choose_threads(probe, most_threads())
            threads = trial.threads
        torch.set_num_threads(threads or before)
        probed = call_seconds(probe, device, warm_up=1)
        if device.type != "cpu" or not probed.busy:
            seconds = {name: x.wall for name, x in _seconds(agent, batches).items()}
            return _rehearsed(seconds, 1.0, trial)
        torch.set_num_threads(1)  # several threads spend CPU time waiting for each other
        seconds = {name: x.cpu for name, x in _seconds(agent, batches).items()}
        alone = call_seconds(probe, device, warm_up=1)
        return _rehearsed(seconds, probed.wall / alone.cpu, trial)
    finally:
        torch.set_num_threads(before)


def _probe(agent: Agent, batches: RandomBatches) -> Callable[[], object]:
    """A short piece of training: the denoiser on a batch of the world model, without gradient."""
    batch = batches.segments(agent.config.world_model.learner.batch_size)
    tau = torch.full(batch.mask.shape, 0.5, device=agent.device)

    def forward() -> object:
        with torch.no_grad(), autocast(agent.config.runtime, agent.device):
            return agent.denoiser(batch.z, tau, batch.prev_actions)

    return forward


def _seconds(agent: Agent, batches: RandomBatches) -> dict[str, Seconds]:
    """A step of every learner, encoding a frame, acting once."""
    device = agent.device
    guard = Guard(Path(), every=1 if device.type == "cpu" else 25, writes=False)
    learners = make_learners(agent, batches, Streams(agent.config.seed, device), guard)
    calls: dict[str, Callable[[], object]] = {x.name: x.step for x in learners.in_order()}
    late = [x for x in range(agent.config.training.epochs) if learners.overlaps(x)][-1:]
    if learners.together is not None and agent.captured and late:
        learners.together.begin(late[0], 0)
        calls[Together.name] = learners.together.step
    block = batches.frames(BLOCKS[device.type])
    calls |= {ENCODE: lambda: agent.encode(block), ACT: _acting(agent, block[:1])}
    warm_up = CAPTURED if agent.captured else 1
    found = {name: call_seconds(call, device, warm_up=warm_up) for name, call in calls.items()}
    return found | {ENCODE: Seconds(*(x / len(block) for x in found[ENCODE]))}


def _rehearsed(seconds: dict[str, float], slowdown: float, trial: ThreadTrial | None) -> Rehearsed:
    others = ENCODE, ACT, Together.name
    steps = {name: x for name, x in seconds.items() if name not in others}
    beside = seconds.get(Together.name)
    return Rehearsed(steps, seconds[ENCODE], seconds[ACT], beside, slowdown, trial)


def _acting(agent: Agent, frame: Tensor) -> Callable[[], object]:
    """Acting on a new frame, as a run does: the action is read, so the device is waited for."""
    decide = decider(agent, agent.actor, torch.Generator(agent.device).manual_seed(0))
    state = agent.actor.lstm.zero_state(1, torch.empty(0, device=agent.device))
    return lambda: decide((frame, state))[0].cpu()


def rehearsed_by_count(costs: Costs, device: torch.device) -> Rehearsed:
    """The same from the count of FLOPs, for networks too large to be tried."""
    step = product(device, torch.float32, SIDE)
    free = device.type == "cpu" and not costs.config.runtime.threads
    trial = choose_threads(step, most_threads()) if free else None
    found = call_seconds(step, device, warm_up=1)
    busy = device.type == "cpu" and found.busy
    seconds = found.cpu if busy else found.wall
    speed = REACHED * 2 * SIDE**3 / seconds
    return Rehearsed(
        steps={name: x.flops / speed for name, x in costs.steps.items()},
        encode=costs.encode.flops / speed,
        act=costs.act / speed,
        slowdown=found.wall / seconds,
        trial=trial,
    )
