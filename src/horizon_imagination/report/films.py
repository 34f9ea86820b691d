"""Which rows a strip has: samplers of actions side by side, or schedules side by side."""

from typing import Literal

import torch

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.engine.draws import Sampler
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.learn.streams import derive_seed
from horizon_imagination.report.strips import (
    Row,
    Scene,
    Strip,
    act_out,
    follow,
    imagined_rows,
    moments,
    real_row,
    reconstruction_row,
    scene,
)
from horizon_imagination.schedules import (
    full_sequence_schedule,
    horizon_schedule,
    pyramidal_schedule,
)
from horizon_imagination.types import Schedule

Kind = Literal["horizon", "pyramidal", "full"]
SAMPLERS: dict[Sampler, str] = {
    "naive": "naive actions",
    "naive_held": "naive, held once clean",
    "coupled": "coupled actions",
    "stable": "stable actions",
}
SHOWN: tuple[Sampler, ...] = ("naive", "naive_held", "stable")


def make_scene(agent: Agent, store: Store, *, count: int, horizon: int, seed: int) -> Scene:
    """Moments of the store, drawn by seed."""
    env = agent.config.env
    expected = (1 if env.grey else 3, env.size, env.size)
    if store.frame_shape != expected or store.num_actions != agent.num_actions:
        raise UsageError(
            f"{store.folder} has frames {store.frame_shape} and {store.num_actions} actions, "
            f"the agent expects {expected} and {agent.num_actions}; name data of its own world"
        )
    rng = torch.Generator().manual_seed(derive_seed(seed, "moments"))
    return scene(agent, store, moments(store, horizon, count, rng), horizon)


def sampler_strips(
    agent: Agent,
    scene: Scene,
    *,
    seed: int,
    schedule: Schedule | None = None,
    samplers: tuple[Sampler, ...] = SHOWN,
) -> list[Strip]:
    """Real, reconstructed, and imagined under recorded actions and those of each sampler."""
    schedule = agent.schedule if schedule is None else schedule
    noise = derive_seed(seed, "noise")
    recorded = follow(agent, scene, schedule, noise)
    columns = [imagined_rows(agent, scene, schedule, recorded, "recorded actions")]
    for sampler in samplers:
        imagined = act_out(agent, scene, schedule, sampler, noise)
        columns.append(imagined_rows(agent, scene, schedule, imagined, SAMPLERS[sampler]))
    return _strips(agent, scene, columns)


def schedule_strips(
    agent: Agent, scene: Scene, schedules: dict[str, Schedule], *, seed: int
) -> list[Strip]:
    """Real, reconstructed, and imagined under recorded actions by each schedule."""
    noise = derive_seed(seed, "noise")
    columns = [
        imagined_rows(agent, scene, schedule, follow(agent, scene, schedule, noise), label)
        for label, schedule in schedules.items()
    ]
    return _strips(agent, scene, columns)


def named_schedules(
    kinds: tuple[Kind, ...], horizon: int, budgets: tuple[int, ...], decays: tuple[float, ...]
) -> dict[str, Schedule]:
    """Schedules by a name that says all; a decay horizon matters to the Horizon schedule only.

    The pyramidal schedule is left out where the budget does not allow it, unless it is alone.
    """
    found: dict[str, Schedule] = {}
    with as_usage_error():
        for kind in kinds:
            for budget in budgets:
                if kind == "horizon":
                    for decay in decays:
                        name = f"budget {budget}, decay {decay:g}"
                        found[name] = horizon_schedule(horizon, budget, decay)
                elif kind == "pyramidal" and (budget >= horizon or kinds == ("pyramidal",)):
                    found[f"pyramidal, budget {budget}"] = pyramidal_schedule(horizon, budget)
                elif kind == "full":
                    found[f"full, budget {budget}"] = full_sequence_schedule(horizon, budget)
    return found


def _strips(agent: Agent, scene: Scene, columns: list[list[Row]]) -> list[Strip]:
    strips = []
    for example in range(len(scene.frames)):
        real = [real_row(scene, example), reconstruction_row(agent, scene, example)]
        strips.append(Strip(real + [column[example] for column in columns], scene.context))
    return strips
