"""Draws docs/figures/changed-actions.png: one future whose actions change on the way, twice.

python scripts/draw_changed_actions.py RUN [SEED] [HEEDING]

RUN is a run of the preset `demo` with --world-model.change-every 0, HEEDING an agent of 2, by
default the one that comes with the package. Both imagine the same moment of RUN's play, from the
same noise.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from horizon_imagination.agent import Agent
from horizon_imagination.figures import INK, PALETTE, save_figure
from horizon_imagination.play.library import FOLDER
from horizon_imagination.report.draw import picture
from horizon_imagination.report.names import names_of_actions
from horizon_imagination.report.pictures import replay_of
from horizon_imagination.report.strips import (
    Row,
    Scene,
    imagine_scene,
    imagined_rows,
    make_scene,
    real_row,
)
from horizon_imagination.run.read import load_run
from horizon_imagination.streams import derive_seed

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "changed-actions.png"
ARROWS = {"left": "←", "right": "→"}
CHANGED, GOOD, BAD = PALETTE[5], PALETTE[2], PALETTE[5]
WRONG = 2
"""The line whose frames show what the actions did not do."""


@dataclass(frozen=True)
class Shown:
    """A line of the figure."""

    label: str
    row: Row
    begun: list[int]
    """The action that each frame began under; shorter than the row where none changes."""


def imagined(
    agent: Agent, scene: Scene, seed: int, label: str, *, changing: bool
) -> tuple[Row, list[int]]:
    """A line of imagination, and the actions that its frames began under."""
    schedule = agent.schedule
    found = imagine_scene(agent, scene, schedule, derive_seed(seed, "noise"), changing=changing)
    moves = [int(torch.nonzero(schedule[1:, t] > 0)[0]) for t in range(schedule.shape[1])]
    begun = [int(found.actions[b, 0, t]) for t, b in enumerate(moves)]
    return imagined_rows(agent, scene, schedule, found, label)[0], begun


def lines_of(run: Path, heeding: Path, seed: int) -> tuple[list[Shown], tuple[str, ...]]:
    """All lines, and what the actions are called."""
    ordinary, other = Agent.load(run, "cpu"), Agent.load(heeding, "cpu")
    store = replay_of(load_run(run))
    horizon = ordinary.config.imagination.horizon
    scenes = [make_scene(a, store, count=1, horizon=horizon, seed=seed) for a in (ordinary, other)]
    store.close()
    found = [
        Shown("real", real_row(scenes[0], 0), []),
        Shown("actions from the start",
              imagined(ordinary, scenes[0], seed, "", changing=False)[0], []),
    ]  # fmt: skip
    for agent, scene, label in (
        (ordinary, scenes[0], "actions change,\nordinary world model"),
        (other, scenes[1], "actions change,\nchange_every"),
    ):
        found.append(Shown(label, *imagined(agent, scene, seed, "", changing=True)))
    return found, tuple(ARROWS.get(name, name) for name in names_of_actions(ordinary))


def draw_cell(axes: Axes, line: Shown, column: int, names: tuple[str, ...]) -> bool:
    """A frame, and below it its action and reward; returns whether the action has changed."""
    axes.imshow(picture(line.row.frames[column]), interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(visible=column == 0, color=PALETTE[0], linewidth=2.5)
    if column == 0:
        return False
    action, reward = int(line.row.prev_actions[column]), float(line.row.reward[column])
    changed = bool(line.begun) and line.begun[column - 1] != action
    said = f"{names[line.begun[column - 1]]}, then {names[action]}" if changed else names[action]
    axes.set_xlabel(
        said, fontsize=10, labelpad=3, color=CHANGED if changed else INK,
        fontweight="bold" if changed else "normal",
    )  # fmt: skip
    if abs(reward) >= 0.1:
        axes.text(
            0.95, 0.94, f"{reward:+.1f}", transform=axes.transAxes, ha="right", va="top",
            fontsize=11, fontweight="bold", color="white",
            bbox={"facecolor": GOOD if reward > 0 else BAD, "edgecolor": "none", "pad": 2},
        )  # fmt: skip
    return changed


def frame(figure: Figure, cells: list[Axes]) -> None:
    """A line around frames that stand beside one another, and what is said below them."""
    first, last = cells[0].get_position(), cells[-1].get_position()
    side, above, below = 0.005, 0.015, 0.052
    figure.add_artist(
        Rectangle(
            (first.x0 - side, first.y0 - below),
            last.x1 - first.x0 + 2 * side,
            last.y1 - first.y0 + above + below,
            fill=False,
            edgecolor=CHANGED,
            linewidth=2.2,
        )
    )


def draw(lines: list[Shown], names: tuple[str, ...]) -> Figure:
    """The lines below one another, time on top."""
    columns = len(lines[0].row.frames)
    figure = Figure(figsize=(1.03 * columns + 2.0, 1.32 * len(lines) + 0.3))
    grid = figure.subplots(len(lines), columns, squeeze=False)
    figure.subplots_adjust(left=0.185, right=0.99, top=0.94, bottom=0.055, wspace=0.08, hspace=0.4)
    for place, (row, line) in enumerate(zip(grid, lines, strict=True)):
        changed = [draw_cell(axes, line, column, names) for column, axes in enumerate(row)]
        row[0].set_ylabel(
            line.label, rotation=0, ha="right", va="center", labelpad=10, fontsize=11, color=INK
        )
        if place == WRONG and any(changed):
            frame(figure, list(row[changed.index(True) :]))
    for column, axes in enumerate(grid[0]):
        axes.set_title(f"+{column}" if column else "context", fontsize=10, color=INK, pad=5)
    return figure


def main() -> None:
    """Real, given from the start, and changed on the way in both world models."""
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 135
    heeding = Path(sys.argv[3]) if len(sys.argv) > 3 else FOLDER / "catch"
    save_figure(draw(*lines_of(Path(sys.argv[1]), heeding, seed)), FIGURE)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
