"""Imagination without a network: sampling schedules as text and figure, and a film strip of a world
whose velocity field is known, a falling dot.

The dot falls one line per frame and moves with the action, left, straight or right, around the
edges. Given a clean first frame and the actions, every later frame is certain, so the velocity
that a perfectly trained denoiser would learn is known: v = (z^1 - z) / (1 - tau).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from einops import rearrange, reduce
from jaxtyping import Float, Int
from torch import Tensor

from horizon_imagination.config import ScheduleKind
from horizon_imagination.figures import PALETTE, save_figure
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
from horizon_imagination.schedules import frames_in_flight, horizon_schedule
from horizon_imagination.stable_actions import roll
from horizon_imagination.types import NO_ACTION, Actions, Latents, Schedule, Times
from horizon_imagination.windows import frame_evaluations

SIZE = 8
MOVES = (-1, 0, 1)
"""Columns that each action moves the dot by."""


def render(
    line: Int[Tensor, "batch time"], column: Int[Tensor, "batch time"]
) -> Float[Tensor, "batch time 1 height width"]:
    """Frames of -1 with the dot at +1."""
    grid = torch.arange(SIZE, device=line.device)
    at_line = rearrange(line % SIZE, "b t -> b t 1 1 1") == rearrange(grid, "h -> h 1")
    at_column = rearrange(column % SIZE, "b t -> b t 1 1 1") == grid
    return (at_line & at_column).float() * 2 - 1


def locate(z: Latents) -> tuple[Int[Tensor, "batch time"], Int[Tensor, "batch time"]]:
    """Line and column of the brightest pixel."""
    brightest = rearrange(z, "b t 1 h w -> b t (h w)").argmax(-1)
    return brightest // SIZE, brightest % SIZE


def future(
    first: Float[Tensor, "batch 1 1 height width"], prev_actions: Actions
) -> Float[Tensor, "batch time 1 height width"]:
    """The true frames, from the first one and the actions that lead to those after it."""
    line, column = locate(first)
    moves = torch.tensor(MOVES, device=first.device)[prev_actions[:, 1:]]
    steps = torch.cat([torch.zeros_like(line), moves], dim=1).cumsum(1)
    return render(line + torch.arange(steps.shape[1], device=first.device), column + steps)


def exact_velocity(z: Latents, tau: Times, prev_actions: Actions) -> Latents:
    """The velocity field of the world, for sequences whose first frame is clean."""
    rest = rearrange(1 - tau, "b t -> b t 1 1 1")
    towards = future(z[:, :1], prev_actions).to(z.dtype) - z
    return torch.where(rest > 0, towards / rest.where(rest > 0, 1.0), 0.0)


def steer(z: Latents, tau: Times, *, target: int = SIZE // 2) -> Float[Tensor, "batch time action"]:
    """A policy that leads the dot to a column, as sure of it as it can see the dot.

    It believes in columns by their brightness, the more the cleaner the frame, and prefers the
    move that the believed column asks for.
    """
    brightness = reduce(z, "b t 1 h w -> b t w", "max")
    belief = torch.softmax(8 * rearrange(tau, "b t -> b t 1") * brightness, dim=-1)
    wanted = torch.sign(target - torch.arange(SIZE, device=z.device)) + 1
    prefers = torch.nn.functional.one_hot(wanted, len(MOVES)).to(belief)
    return 0.05 / len(MOVES) + 0.95 * belief @ prefers


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


def draw_strip(study: DotStudy, imagined: Imagined, path: Path) -> None:
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


def describe_schedule(
    kind: ScheduleKind, schedule: Schedule, context: int, decay_horizon: float
) -> str:
    """The matrix, how many frames each step moves, and what the denoiser must evaluate."""
    steps, horizon = len(schedule) - 1, schedule.shape[1]
    decays = f", decay horizon {decay_horizon:g}" if kind == "horizon" else ""
    moved = [*frames_in_flight(schedule).tolist(), ""]
    rows = [
        f"{row:4d} " + " ".join(f"{tau:4.2f}" for tau in times) + f"  {moved[row]:>4}"
        for row, times in enumerate(schedule.tolist())
    ]
    windowed, plain = frame_evaluations(schedule, context)
    return "\n".join(
        [
            f"{kind.capitalize()} schedule: {horizon} frames, budget {steps}{decays}",
            " row " + "time of each frame".ljust(5 * horizon - 1) + "  moving",
            *rows,
            f"frames that a step moves: {max(moved[:-1])} at most, {sum(moved[:-1]) / steps:.1f} "
            "on average",
            f"frame evaluations with {context} context frame{'s' * (context != 1)}: {windowed} "
            f"with the window, {plain} without ({plain / windowed:.1f} times as many)",
            "",
        ]
    )


def draw_schedules(panels: Sequence[Sequence[tuple[str, Tensor]]], path: Path) -> None:
    """A grid of matrices: one line per kind of schedule, one column per budget."""
    from matplotlib.figure import Figure

    width = max(5.0, 2.7 * len(panels[0]) + 1)
    figure = Figure(figsize=(width, 2.7 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), len(panels[0]), squeeze=False)
    image: Any = None
    for line, axes_line in zip(panels, grid, strict=True):
        for (title, schedule), axes in zip(line, axes_line, strict=True):
            image = axes.imshow(
                schedule.T.numpy(),
                aspect="auto",
                cmap="cividis",
                vmin=0,
                vmax=1,
                interpolation="nearest",
            )
            axes.set_title(title, fontsize=10)
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
            axes.yaxis.get_major_locator().set_params(integer=True, nbins=6)
        axes_line[0].set_ylabel("frame")
    for axes in grid[-1]:
        axes.set_xlabel("denoising step")
    bar = figure.colorbar(image, ax=grid, shrink=0.8, ticks=[0, 0.5, 1])
    bar.ax.set_yticklabels(["0 noise", "0.5", "1 clean"])
    save_figure(figure, path)
