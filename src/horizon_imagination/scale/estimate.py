"""What a suite will take, before anything is started."""

import dataclasses
from dataclasses import dataclass

import torch

from horizon_imagination.config import Config
from horizon_imagination.device import resolve_device
from horizon_imagination.envs import env_names, make_env
from horizon_imagination.run.costs import costs
from horizon_imagination.run.needs import (
    replay_bytes,
    size,
    snapshot_bytes,
    span,
    stage_seconds,
)
from horizon_imagination.scale.execute import Task


@dataclass(frozen=True)
class Estimate:
    """Of one run."""

    seconds: float
    disk: int


def plan(tasks: list[Task], slots: int, threads: int, device: str = "auto") -> str:
    """Every run with its estimated hours and disk, and the sum."""
    known: dict[tuple[Config, int], Estimate] = {}
    before, lines, todo = torch.get_num_threads(), [], []
    torch.set_num_threads(threads)
    try:
        for task in tasks:
            key = _alike(task.run.config), num_actions(task.run.config)
            if key not in known:
                known[key] = estimate(task.run.config, key[1], device)
            found = known[key]
            if task.state != "finished":
                todo.append(found)
            cost = "finished" if task.state == "finished" else f"{span(found.seconds)} estimated"
            lines.append(f"  {task.run.name:<36} {cost:<18} {size(found.disk)}")
    finally:
        torch.set_num_threads(before)
    total = sum(x.seconds for x in todo)
    longest = max((x.seconds for x in todo), default=0.0)
    disk = sum(x.disk for x in todo)
    done, where = len(tasks) - len(todo), resolve_device(device)
    return "\n".join(
        [
            *lines,
            f"{len(tasks)} runs, {done} finished; {len(todo)} to do: about {span(total)} of work, "
            f"{span(max(longest, total / slots))} with {slots} at a time on {where} "
            f"(without the environments' own time), "
            f"disk about {size(disk)}",
        ]
    )


def estimate(config: Config, actions: int, device: str) -> Estimate:
    """Seconds and bytes of a run."""
    counted = costs(config, actions)
    seconds = stage_seconds(config, counted, actions, resolve_device(device))
    return Estimate(sum(seconds.values()), replay_bytes(config) + snapshot_bytes(config, counted))


def num_actions(config: Config) -> int:
    """Of a world; known ones need not be installed."""
    known = {info.name: info.num_actions for info in env_names()}
    if config.env.id in known:
        return known[config.env.id]
    env = make_env(config.env, 0)
    env.close()
    return int(env.action_space.n)  # type: ignore[attr-defined]


def _alike(config: Config) -> Config:
    """Runs that differ in world and seed alone cost the same."""
    env = dataclasses.replace(config.env, id="catch")
    return dataclasses.replace(config, env=env, seed=0)
