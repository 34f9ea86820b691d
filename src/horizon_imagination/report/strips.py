"""Film strips as data: what really happened, what the tokenizer keeps, and what is imagined.

Every row of a strip starts from the same real context and, where it is imagined, from the same
noise. Column t of a row is a frame and the action and reward that led to it.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, Shaped, UInt8
from torch import Tensor

from horizon_imagination.agent import Agent
from horizon_imagination.config import ScheduleKind
from horizon_imagination.data import Store
from horizon_imagination.device import autocast
from horizon_imagination.engine.draws import Sampler, sample_draws
from horizon_imagination.engine.dream import (
    Start,
    changing_actions,
    dream,
    imagine_recorded,
)
from horizon_imagination.envs.spaces import from_world
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.imagination import Imagined, change_count
from horizon_imagination.report.names import names_of_actions
from horizon_imagination.returns import until_first_end
from horizon_imagination.schedules import changeable, schedule_of_kind
from horizon_imagination.streams import derive_seed
from horizon_imagination.types import Actions, Latents, Schedule, entrywise, no_action, zero_action

SAMPLERS: dict[Sampler, str] = {
    "naive": "naive actions",
    "naive_held": "naive, held once clean",
    "coupled": "coupled actions",
    "stable": "stable actions",
}
SHOWN: tuple[Sampler, ...] = ("naive", "naive_held", "stable")


@dataclass(frozen=True)
class Row:
    """One line of a strip: context, then what follows it."""

    label: str
    frames: UInt8[Tensor, "time channel height width"]
    prev_actions: Shaped[Tensor, " time *entry"]
    """The action that led to each frame, if any; vectors are scaled to [-1, 1]."""
    reward: Float[Tensor, " time"]
    """What came with each frame: received in the real row, predicted in imagined ones."""
    shown: Bool[Tensor, " time"]
    """False after the end of the episode, real or predicted."""
    note: str = ""

    def later(self, first: int) -> "Row":
        """The row without the frames before this one."""
        return replace(
            self,
            frames=self.frames[first:],
            prev_actions=self.prev_actions[first:],
            reward=self.reward[first:],
            shown=self.shown[first:],
        )


@dataclass(frozen=True)
class Strip:
    """Rows that share a context of `context` frames."""

    rows: list[Row]
    context: int
    actions: tuple[str, ...] = ()
    """What the world calls its actions, if that is known."""
    scale: int | None = None
    """How many pixels wide a pixel of a frame is drawn; None: enough for it to be seen."""


@dataclass(frozen=True)
class Scene:
    """Moments of real experience: what the agent had seen by then, and what came after."""

    start: Start
    """What actor and world model are given."""
    frames: UInt8[Tensor, "batch time channel height width"]
    """The world model's context and the real continuation."""
    prev_actions: Actions
    reward: Float[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]
    """False before the first and after the last frame of the episode."""
    context: int

    @property
    def horizon(self) -> int:
        """Frames after the context."""
        return self.frames.shape[1] - self.context


def moments(store: Store, horizon: int, count: int, rng: torch.Generator) -> list[int]:
    """Rows of the store with the longest futures, up to `horizon`: where imagination starts.

    None of them twice, and fewer than asked for where there are no more.
    """
    starts, ends = store.starts, store.ends
    left = ends - starts - 1
    if len(left) == 0 or left.max() < 1:
        raise UsageError(f"{store.folder} has no episode with a step in it yet; collect more")
    future = min(horizon, int(left.max()))
    rows = np.concatenate(
        [np.arange(s, e - future) for s, e in zip(starts, ends, strict=True) if e - s > future]
    )
    place = torch.randperm(len(rows), generator=rng)[:count].numpy()
    return [int(row) for row in rows[place]]


@torch.no_grad()
def scene(agent: Agent, store: Store, rows: list[int], horizon: int) -> Scene:
    """The experience around rows of the store; each is the last frame of a context."""
    cfg = agent.config
    context, seen = cfg.imagination.context, cfg.controller.context
    now = np.array(rows)
    episode = np.searchsorted(store.starts, now, side="right") - 1
    begin, end = store.starts[episode][:, None], store.ends[episode][:, None]
    index = now[:, None] + np.arange(1 - max(context, seen), horizon + 1)
    real = (index >= begin) & (index < end)
    index = np.where(real, index, begin)
    frames = torch.from_numpy(store.frames[index])
    frames[torch.from_numpy(~real)] = 0
    led = real & (index > begin)
    before = np.maximum(index - 1, 0)
    taken = from_world(store.action_space, store.action[before])
    was_led = entrywise(torch.from_numpy(led), taken)
    prev_actions = torch.where(was_led, taken, no_action(taken))
    reward = torch.from_numpy(np.where(led, store.reward[before], 0)).float()
    flat = agent.encode(rearrange(frames, "b t c h w -> (b t) c h w").to(agent.device))
    z = rearrange(flat, "(b t) c h w -> b t c h w", b=len(rows))
    mask, last = torch.from_numpy(real), index.shape[1] - horizon
    actions = from_world(store.action_space, store.action[index[:, :last]])
    first = last - context
    return Scene(
        start=Start(z[:, :last], actions.to(agent.device), mask[:, :last].to(agent.device)),
        frames=frames[:, first:],
        prev_actions=prev_actions[:, first:],
        reward=reward[:, first:],
        mask=mask[:, first:],
        context=context,
    )


def real_row(scene: Scene, example: int) -> Row:
    """What really happened."""
    return Row(
        "real",
        scene.frames[example],
        scene.prev_actions[example],
        scene.reward[example],
        scene.mask[example],
    )


@torch.no_grad()
def reconstruction_row(agent: Agent, scene: Scene, example: int) -> Row:
    """The same through encoder and decoder: the best imagination can look."""
    frames = scene.frames[example]
    z = agent.encode(frames.to(agent.device))
    decoded = agent.decode(rearrange(z, "t c h w -> 1 t c h w"))[0].cpu()
    row = real_row(scene, example)
    decoded[~row.shown] = 0
    return Row("reconstruction", decoded, row.prev_actions, row.reward, row.shown)


@torch.no_grad()
def imagine_scene(
    agent: Agent, scene: Scene, schedule: Schedule, seed: int, *, changing: bool = False
) -> Imagined:
    """Imagine under the actions that were recorded; after the end of an episode, action 0.

    If they are `changing`, frames begin under other actions, and end under the recorded ones.
    """
    rng = torch.Generator(agent.device).manual_seed(seed)
    shape = (len(scene.frames), scene.horizon, *agent.latent_shape)
    noise = sample_draws(shape, len(schedule), agent.action_space, "stable", rng).noise
    actions = scene.prev_actions[:, scene.context :].to(agent.device)
    context, real = scene.start.world_model_context(scene.context)
    given: Actions | list[Actions] = actions
    if changing:
        taken = zero_action(actions)
        other = agent.action_space.another(taken, torch.Generator().manual_seed(seed))
        given = changing_actions(schedule, other, taken)
    with autocast(agent.config.runtime, agent.device):
        return imagine_recorded(
            agent.world_model, context, given, noise, schedule, real=real, record=True
        )


@torch.no_grad()
def act_out(
    agent: Agent, scene: Scene, schedule: Schedule, sampler: Sampler, seed: int
) -> Imagined:
    """Imagine what the policy does; noise and first dice depend on the seed alone."""
    with autocast(agent.config.runtime, agent.device):
        return dream(
            agent.world_model,
            agent.actor,
            scene.start,
            schedule,
            context=scene.context,
            sampler=sampler,
            window=sampler != "naive",
            rng=torch.Generator(agent.device).manual_seed(seed),
        )


def imagined_rows(
    agent: Agent, scene: Scene, schedule: Schedule, imagined: Imagined, label: str
) -> list[Row]:
    """A row for every example: the real context, decoded, then the clean imagined frames."""
    k, z = scene.context, imagined.z[-1]
    seen = torch.cat([scene.start.z[:, -k:], z], dim=1)
    frames = agent.decode(seen).cpu()
    frames[:, :k] = scene.frames[:, :k]
    reward, ended = _judge(agent, scene, seen)
    shown = torch.cat([scene.mask[:, :k], until_first_end(ended)], dim=1)
    actions = torch.cat([scene.prev_actions[:, :k], imagined.actions[-1].cpu()], dim=1)
    rewards = torch.cat([scene.reward[:, :k], reward], dim=1)
    return [
        Row(label, frames[i], actions[i], rewards[i], shown[i], _changes(imagined, schedule, i))
        for i in range(len(frames))
    ]


def _changes(imagined: Imagined, schedule: Schedule, example: int) -> str:
    """How often the actions of one example changed while their frames were in flight."""
    one = Imagined(imagined.z[:, example, None], imagined.actions[:, example, None])
    changes = float(change_count(one, schedule))
    if one.actions.is_floating_point():
        return f"actions move by {changes:.2f}" if changes else ""
    return f"{changes:.1f} changes per action" if changes else ""


def _judge(
    agent: Agent, scene: Scene, seen: Latents
) -> tuple[Float[Tensor, "batch horizon"], Bool[Tensor, "batch horizon"]]:
    """Reward and end that the world model expects with every imagined frame."""
    k = scene.context
    ahead = scene.start.mask.new_ones(len(seen), scene.horizon)
    with autocast(agent.config.runtime, agent.device), torch.no_grad():
        real = torch.cat([scene.start.mask[:, -k:], ahead], dim=1)
        reward, end = agent.world_model.reward_and_end(seen, real)
    return reward[:, k:].cpu(), end[:, k:].cpu() > 0.5


def make_scene(agent: Agent, store: Store, *, count: int, horizon: int, seed: int) -> Scene:
    """Moments of the store, drawn by seed."""
    agent.check_fits(str(store.folder), store.frame_shape, store.action_space)
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
    """Real, reconstructed, and imagined: under recorded actions, under other ones that become the
    recorded ones while frames are denoised, and under those of each sampler."""
    schedule = agent.schedule if schedule is None else schedule
    noise = derive_seed(seed, "noise")
    recorded = imagine_scene(agent, scene, schedule, noise)
    columns = [imagined_rows(agent, scene, schedule, recorded, "recorded actions")]
    if changeable(schedule).any():
        changed = imagine_scene(agent, scene, schedule, noise, changing=True)
        columns.append(imagined_rows(agent, scene, schedule, changed, "others, then recorded"))
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
        imagined_rows(agent, scene, schedule, imagine_scene(agent, scene, schedule, noise), label)
        for label, schedule in schedules.items()
    ]
    return _strips(agent, scene, columns)


def named_schedules(
    kinds: tuple[ScheduleKind, ...],
    horizon: int,
    budgets: tuple[int, ...],
    decays: tuple[float, ...],
) -> dict[str, Schedule]:
    """Schedules by a name that says all; a decay horizon matters to the Horizon schedule only.

    The pyramidal schedule is left out where the budget does not allow it, unless it is alone.
    """
    found: dict[str, Schedule] = {}
    with as_usage_error():
        for kind in kinds:
            for budget in budgets:
                if kind == "pyramidal" and budget < horizon and kinds != ("pyramidal",):
                    continue
                for decay in decays if kind == "horizon" else (1.0,):
                    name = f"{kind}, budget {budget}"
                    name = f"budget {budget}, decay {decay:g}" if kind == "horizon" else name
                    found[name] = schedule_of_kind(kind, horizon, budget, decay)
    return found


def _strips(agent: Agent, scene: Scene, columns: list[list[Row]]) -> list[Strip]:
    """Without the first frames of the context that no example has."""
    missing = int((~scene.mask[:, : scene.context].any(0)).int().cumprod(0).sum())
    strips, names = [], names_of_actions(agent)
    for example in range(len(scene.frames)):
        real = [real_row(scene, example), reconstruction_row(agent, scene, example)]
        rows = [row.later(missing) for row in real + [column[example] for column in columns]]
        strips.append(Strip(rows, scene.context - missing, names))
    return strips
