"""Imagination in a solved world, as a film strip: frames clear up while the policy acts in them."""

from dataclasses import dataclass
from pathlib import Path

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor

from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import (
    Context,
    Imagined,
    change_count,
    imagine,
    late_change_rate,
    naive_actor,
    stable_actor,
)
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.stable_actions import roll
from horizon_imagination.studies.analytic_world import MOVES, SIZE, exact_velocity, render, steer
from horizon_imagination.studies.results import PALETTE, save_figure
from horizon_imagination.types import NO_ACTION, Schedule


@dataclass(frozen=True, kw_only=True)
class DotStudy:
    """A batch of falling dots, steered while their future is imagined."""

    horizon: int = 8
    budget: int = 10
    decay_horizon: float = 3.0
    batch: int = 256
    seed: int = 0

    @property
    def schedule(self) -> Schedule:
        """The schedule imagination runs over."""
        return horizon_schedule(self.horizon, self.budget, self.decay_horizon)


def run(study: DotStudy, sampler: str) -> Imagined:
    """Imagine every dot's future with stable or naive actions."""
    rng = torch.Generator().manual_seed(study.seed)
    line = torch.randint(SIZE, (study.batch, 1), generator=rng)
    frames = render(torch.zeros_like(line), line)
    context = Context(frames, torch.full((study.batch, 1), NO_ACTION))
    first = torch.randint(len(MOVES), (study.batch,), generator=rng)
    noise = uniform_noise(study.batch, study.horizon, 1, SIZE, SIZE, rng=rng)
    rows = (study.budget + 1,) if sampler == "naive" else ()
    dice = roll(*rows, study.batch, study.horizon - 1, num_actions=len(MOVES), rng=rng)
    actor = naive_actor(steer, dice) if sampler == "naive" else stable_actor(steer, dice)
    return imagine(
        exact_velocity, actor, noise, study.schedule, context=context, first_action=first
    )


def columns(imagined: Imagined) -> Int[Tensor, "batch time"]:
    """The column of the dot in every clean frame."""
    return rearrange(imagined.z[-1], "b t 1 h w -> b t w h").amax(-1).argmax(-1)


def summary(study: DotStudy, imagined: Imagined) -> dict[str, float]:
    """Changes per action, late changes, and how far from its target the dot ends."""
    distance = (columns(imagined)[:, -1] - SIZE // 2).abs().float().mean()
    return {
        "changes": round(change_count(imagined, study.schedule).item(), 4),
        "late_changes": round(late_change_rate(imagined, study.schedule).item(), 4),
        "final_distance": round(distance.item(), 4),
    }


def draw(study: DotStudy, imagined: Imagined, path: Path) -> None:
    """The dot that starts farthest from its target: lines are denoising steps, columns frames."""
    from matplotlib.figure import Figure

    example = int((columns(imagined)[:, 0] - SIZE // 2).abs().argmax())
    last = len(imagined.z) - 1
    rows = sorted({round(place * last / 5) for place in range(6)})
    size = (1.05 * study.horizon + 0.4, 1.15 * len(rows) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(
        "Below each frame: the action that leads to it (bold: changed since the line above), "
        "and its time",
        fontsize=9,
    )
    grid = figure.subplots(len(rows), study.horizon, squeeze=False)
    for place, row in enumerate(rows):
        above = rows[max(place - 1, 0)]
        for frame, axes in enumerate(grid[place]):
            picture = imagined.z[row, example, frame, 0].numpy()
            axes.imshow(picture, cmap="cividis", vmin=-1, vmax=1)
            axes.set(xticks=[], yticks=[])
            action = int(imagined.actions[row, example, frame])
            changed = action != int(imagined.actions[above, example, frame])
            axes.set_xlabel(
                f"{'←↓→'[action]}  {float(study.schedule[row, frame]):.2f}",
                fontsize=9,
                labelpad=1,
                color=PALETTE[5] if changed else "0.2",
                fontweight="bold" if changed else "normal",
            )
        grid[place, 0].set_ylabel(f"step {row}", fontsize=9)
    for frame, axes in enumerate(grid[0]):
        axes.set_title(f"frame {frame + 1}", fontsize=9)
    save_figure(figure, path)
