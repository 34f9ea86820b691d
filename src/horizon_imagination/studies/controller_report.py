"""What the study of the controller writes: lines, a figure, a sentence."""

import json
from pathlib import Path
from typing import Any

from horizon_imagination.report.records import read_record
from horizon_imagination.studies.results import (
    PALETTE,
    provenance,
    save_figure,
    write_jsonl,
    write_text,
)

IMAGINED = "controller/imagined_return"
SHOWN = {"return": IMAGINED, "entropy": "controller/entropy", "value": "controller/value"}


class Report:
    """Results so far, and those of the run in its own dreams."""

    def __init__(self, folder: Path, run: Path) -> None:
        self.folder = folder
        self.epochs: list[dict[str, float]] = []
        self.dreamed: list[float] = read_record(run).series(IMAGINED)[1].tolist()

    def add(self, figures: dict[str, float]) -> str:
        """Keep an epoch on disk; a line for people."""
        self.epochs.append(figures)
        write_jsonl(self.folder / "controller.jsonl", self.epochs)
        text = ", ".join(f"{name} {figures[key]:.4g}" for name, key in SHOWN.items())
        played = f", played {figures['env/return']:.4g}" if "env/return" in figures else ""
        return f"epoch {len(self.epochs)}: within the horizon {text}{played}"

    def summary(self) -> dict[str, Any]:
        """First and last return within the horizon, in the game and in the run's dreams."""
        played = [epoch[IMAGINED] for epoch in self.epochs]
        found: dict[str, Any] = {"epochs": len(played), "game": [played[0], played[-1]]}
        same = self.dreamed[: len(played)]
        if same:
            found["dreams"] = [same[0], same[-1]]
        return found | provenance()

    def finish(self) -> list[str]:
        """Write the figure and the summary; what was found, in words."""
        found = self.summary()
        write_text(self.folder / "controller.json", json.dumps(found, indent=2) + "\n")
        lines = [
            f"with the game as its dream the return within the horizon went from "
            f"{found['game'][0]:.4g} (first epoch) to {found['game'][1]:.4g}"
        ]
        if "dreams" in found:
            lines.append(
                f"in the run's own dreams, over as many epochs, from {found['dreams'][0]:.4g} "
                f"to {found['dreams'][1]:.4g}"
            )
        try:
            self._draw(self.folder / "controller.png")
            lines.append(f"figure: {self.folder / 'controller.png'}")
        except ImportError:
            lines.append("no figure: matplotlib is not installed")
        return lines

    def _draw(self, path: Path) -> None:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(5.2, 3.2), layout="constrained")
        axes = figure.subplots()
        played = [epoch[IMAGINED] for epoch in self.epochs]
        axes.plot(range(1, len(played) + 1), played, color=PALETTE[0], label="in the game itself")
        same = self.dreamed[: len(played)]
        if same:
            axes.plot(range(1, len(same) + 1), same, color=PALETTE[1], label="in the run's dreams")
        axes.set(xlabel="epochs of the controller", ylabel="return within the horizon")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        save_figure(figure, path)
