"""Sampling schedules as text and as a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from horizon_imagination.figures import save_figure
from horizon_imagination.schedules import frames_in_flight
from horizon_imagination.types import Schedule
from horizon_imagination.windows import frame_evaluations


def describe(name: str, schedule: Schedule, context: int) -> str:
    """The matrix, the frames in flight at each step, and what the denoiser must evaluate."""
    steps, horizon = len(schedule) - 1, schedule.shape[1]
    flight = [*frames_in_flight(schedule).tolist(), ""]
    rows = [
        f"{row:4d} " + " ".join(f"{tau:4.2f}" for tau in times) + f"  {flight[row]:>4}"
        for row, times in enumerate(schedule.tolist())
    ]
    windowed, plain = frame_evaluations(schedule, context)
    return "\n".join(
        [
            f"{name}: horizon {horizon}, budget {steps}",
            " row " + "time of each frame".ljust(5 * horizon - 1) + "  in flight",
            *rows,
            f"frames in flight: {max(flight[:-1])} at most, {sum(flight[:-1]) / steps:.1f} on "
            "average",
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
