"""What a suite will take, before anything is started."""

import dataclasses

from horizon_imagination.actions import ActionSpace
from horizon_imagination.config import Config
from horizon_imagination.costs import costs
from horizon_imagination.device import resolve_device
from horizon_imagination.envs.known import known_actions
from horizon_imagination.envs.look import look
from horizon_imagination.presets import replaced
from horizon_imagination.run.needs import Estimate, estimate, replay_bytes, snapshot_bytes
from horizon_imagination.scale.execute import Task
from horizon_imagination.wording import duration, number, size


def plan(tasks: list[Task], slots: int, threads: int, device: str = "auto") -> str:
    """Every run with its estimated hours and disk, and the sum."""
    known: dict[tuple[Config, ActionSpace], tuple[Estimate, int]] = {}
    lines, todo, where = [], [], resolve_device(device)
    for task in tasks:
        config = replaced(task.run.config, runtime={"threads": threads})
        key = _alike(config), actions_of(config)
        if key not in known:
            counted = costs(*key)
            bytes_ = replay_bytes(config) + snapshot_bytes(config, counted)
            known[key] = estimate(counted, key[1], where), bytes_
        found, disk = known[key]
        if task.state != "finished":
            todo.append(known[key])
        cost = "finished" if task.state == "finished" else f"{duration(found.seconds)} estimated"
        lines.append(f"  {task.run.name:<36} {cost:<18} {size(disk)}")
    total = sum(x.seconds for x, _ in todo)
    longest = max((x.seconds for x, _ in todo), default=0.0)
    done, slowdown = len(tasks) - len(todo), max((x.slowdown for x, _ in todo), default=1.0)
    lines.append(
        f"{len(tasks)} runs, {done} finished; {len(todo)} to do: about {duration(total)} of "
        f"work, {duration(max(longest, total / slots))} with {slots} at a time on {where} "
        f"(without the environments' own time), disk about {size(sum(x for _, x in todo))}"
    )
    if slowdown > 1:
        lines.append(
            "these are times on a quiet machine: other programs were busy here while this was "
            f"measured, and at such a load steps take {number(slowdown, 2)} times as long"
        )
    return "\n".join(lines)


def actions_of(config: Config) -> ActionSpace:
    """Of a world; known ones need not be installed."""
    return known_actions(config.env.id) or look(config.env).action_space


def _alike(config: Config) -> Config:
    """Runs that differ in world and seed alone cost the same."""
    env = dataclasses.replace(config.env, id="catch")
    return dataclasses.replace(config, env=env, seed=0)
