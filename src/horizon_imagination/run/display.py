"""What a person sees while a run trains: one live panel, or a plain line per epoch."""

from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from horizon_imagination.run.pace import Pace
from horizon_imagination.run.watch import Watcher

SHOWN = {
    "return": "env/return",
    "evaluation": "evaluation/return",
    "imagined": "controller/imagined_return",
    "reconstruction": "tokenizer/reconstruction",
    "perceptual": "tokenizer/perceptual",
    "denoiser": "world_model/denoiser",
    "reward": "world_model/reward",
    "end": "world_model/end",
    "action gap": "world_model/action_gap",
    "actor": "controller/actor",
    "critic": "controller/critic",
    "entropy": "controller/entropy",
    "sight": "controller/sight",
    "late changes": "controller/late_changes",
}
"""What the display calls a metric, and the metric."""
RETURNS = ("return", "evaluation", "imagined")
DEAF = 0.01
"""An action gap below it: actions make no difference in imagination yet."""
BLIND, PATIENCE = 1e-3, 10
"""A sight below it after so many epochs of the controller: it does the same whatever it sees."""


class Display(Watcher):
    """A live panel on a terminal; elsewhere a line per epoch, so that log files stay readable."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.live: Live | None = None
        self.pace = Pace([], 0)
        self.description: dict[str, Any] = {}
        self.latest: dict[str, float] = {}
        self.said_deaf, self.controlled = False, 0
        self.at, self.name, self.total, self.done, self.elapsed = 0, "", 0, 0, 0.0

    def start(self, description: dict[str, Any]) -> None:
        """Open the panel."""
        self.description = description
        self.pace = Pace(description["plan"], description["epochs"])
        self.at, self.elapsed = description["first_epoch"], description["seconds"]
        self._since = self.pace.clock()
        if self.console.is_terminal:
            self.live = Live(console=self.console, get_renderable=self._panel, refresh_per_second=4)
            self.live.start()
        else:
            self._say(_headline(description))

    def stage(self, epoch: int, name: str, steps: int) -> None:
        """A new bar."""
        self.pace.stage(name)
        self.at, self.name, self.total, self.done = epoch, name, steps, 0

    def step(self, count: int = 1) -> None:
        """Move the bar."""
        self.pace.step(count)
        self.done += count

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        """Take over the metrics; say them where nobody sees a panel."""
        self.pace.epoch_over()
        self.at, self.name, self.elapsed = epoch + 1, "", metrics["time/seconds"]
        self._since = self.pace.clock()
        self.latest |= metrics
        if self.live is None:
            self._say(self._line(epoch, metrics))
        gap = metrics.get("world_model/action_gap", DEAF)
        if gap < DEAF and "controller/actor" in metrics and not self.said_deaf:
            self.said_deaf = True
            self._say(
                f"the world model ignores actions so far (action gap {gap:.2g}): a policy cannot "
                "learn in it yet; train it longer before the controller begins"
            )
        self.controlled += "controller/sight" in metrics
        sight = metrics.get("controller/sight", BLIND)
        if self.controlled == PATIENCE and sight < BLIND:
            self._say(
                f"the policy does the same whatever it sees (sight {sight:.2g} nats after "
                f"{PATIENCE} epochs); without --controller.network.normalize that is no surprise"
            )

    def note(self, text: str) -> None:
        """A line above the panel."""
        self._say(text)

    def finish(self, folder: Path) -> None:
        """The panel stays as it was last."""
        self.close()
        self._say(f"trained for {clock(self.elapsed)}; the run is in {folder}")

    def close(self) -> None:
        """Give the terminal back, at the end or after an interrupt."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _say(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def _left(self) -> str:
        seconds, unknown = self.pace.left(self.at)
        if not self.pace.seconds:
            return "?"
        more = f" + {', '.join(x.replace('_', ' ') for x in unknown)}" if unknown else ""
        return f"about {clock(seconds)}{more}"

    def _line(self, epoch: int, metrics: dict[str, float]) -> str:
        found = {name: metrics[key] for name, key in SHOWN.items() if key in metrics}
        figures = "  ".join(f"{name} {value:.4g}" for name, value in found.items())
        width = len(str(self.description["epochs"]))
        head = f"epoch {epoch + 1:>{width}}/{self.description['epochs']}  {clock(self.elapsed)}"
        return f"{head}, left {self._left()}  {figures}"

    def _panel(self) -> Panel:
        elapsed = self.elapsed + self.pace.clock() - self._since
        epochs = self.description["epochs"]
        bars = Table.grid(padding=(0, 1))
        bars.add_row(
            f"epoch {min(self.at + 1, epochs)}/{epochs}",
            ProgressBar(total=max(epochs, 1), completed=self.at, width=40),
            f"{clock(elapsed)}, left {self._left()}",
        )
        stage = self.name.replace("_", " ") or "between epochs"
        rate = f"{self.done}/{self.total}, {self.pace.rate():.3g}/s" if self.name else ""
        bars.add_row(
            stage, ProgressBar(total=max(self.total, 1), completed=self.done, width=40), rate
        )
        figures = {n: self.latest[key] for n, key in SHOWN.items() if key in self.latest}
        returns = {n: v for n, v in figures.items() if n in RETURNS}
        losses = {n: v for n, v in figures.items() if n not in RETURNS}
        lines = [Text("   ".join(f"{n} {v:.4g}" for n, v in x.items())) for x in (returns, losses)]
        return Panel(Group(bars, *lines), title=_headline(self.description), title_align="left")


def _headline(description: dict[str, Any]) -> str:
    return f"{description['env']} on {description['device']}, in {description['folder']}"


def clock(seconds: float) -> str:
    """Minutes and seconds, hours when there are any.

    >>> clock(75), clock(3 * 3600 + 62)
    ('1:15', '3:01:02')
    """
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
