"""What a person sees of long work: the display of a run that trains, and a count of other work.

Both say what is done, how fast, and how long the rest takes.
"""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from horizon_imagination.run.callbacks import Callback, RunStart, Stage
from horizon_imagination.run.folder import METRICS
from horizon_imagination.wording import clock, number, rate, time_left

RETURNS = {
    "return": "env/return",
    "evaluation": "evaluation/return",
    "imagined": "controller/imagined_return",
}
"""What the display calls a return, and the metric."""
OTHERS = {
    "reconstruction": "tokenizer/reconstruction",
    "perceptual": "tokenizer/perceptual",
    "denoiser": "world_model/denoiser",
    "reward": "world_model/reward",
    "end": "world_model/end",
    "action gap": "world_model/action_gap",
    "actor": "controller/actor",
    "critic": "controller/critic",
    "entropy": "controller/entropy",
    "mutual information": "controller/state_action_information",
    "late changes": "controller/late_changes",
}
"""The same for losses and diagnostics."""
ACTION_GAP = "world_model/action_gap"
LEAST_GAP = 0.01
"""Warn if `world_model/action_gap` is below this while the controller learns."""
BOTH_LEARN = {"world_model/denoiser", "controller/actor"}
"""Metrics of an epoch in which both denoiser and controller learn."""
INFORMATION = "controller/state_action_information"
LEAST_INFORMATION, PATIENCE = 1e-3, 10
"""Warn if `controller/state_action_information` is still below this after PATIENCE epochs."""
BORDER = 4
"""Columns that the panel's frame takes."""


class Pace:
    """Seconds per step of every stage, the recent ones counting more."""

    def __init__(
        self, plan: list[Stage], epochs: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self.plan, self.epochs, self.clock = plan, epochs, clock
        self.seconds: dict[str, float] = {}
        self._stage, self._steps, self._since = "", 0, clock()

    def stage(self, name: str) -> None:
        """A stage begins; the previous one is over."""
        self._close()
        self._stage, self._steps, self._since = name, 0, self.clock()

    def step(self, count: int = 1) -> None:
        """Steps of the stage are done."""
        self._steps += count

    def rate(self) -> float:
        """Steps per second of the current stage."""
        return self._steps / max(self.clock() - self._since, 1e-9)

    def epoch_over(self) -> None:
        """Nothing runs until the next stage."""
        self._close()
        self._stage, self._steps = "", 0

    def left(self, epoch: int) -> tuple[float, list[str]]:
        """Seconds for the epochs from `epoch` on, and the stages that have not run yet."""
        total, unknown = 0.0, []
        for stage in self.plan:
            steps = stage.steps_between(epoch, self.epochs)
            if steps and stage.name in self.seconds:
                total += steps * self.seconds[stage.name]
            elif steps:
                unknown.append(stage.name)
        return total, unknown

    def _close(self) -> None:
        if not self._stage or not self._steps:
            return
        now = (self.clock() - self._since) / self._steps
        before = self.seconds.get(self._stage, now)
        self.seconds[self._stage] = 0.7 * before + 0.3 * now


def notebook_console() -> Console:
    """A console whose lines are plain text in a notebook, too.

    Kernels set FORCE_COLOR, which Rich takes for a terminal, but no cursor can be moved there.
    """
    return Console(highlight=False, force_jupyter=False, force_terminal=sys.stdout.isatty())


class Display(Callback):
    """A live panel on a terminal, at any width; elsewhere a line per epoch, for log files."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.live: Live | None = None
        self.pace = Pace([], 0)
        self.headline, self.epochs, self.folder = "", 0, Path()
        self.latest: dict[str, float] = {}
        self.warned_of_gap, self.controlled = False, 0
        self.not_finite: set[str] = set()
        self.at, self.name, self.total, self.done, self.elapsed = 0, "", 0, 0, 0.0

    def on_start(self, run: RunStart) -> None:
        config = run.agent.config
        self.epochs, self.folder = config.training.epochs, run.folder
        self.headline = f"{config.env.id} on {run.agent.device}, in {run.folder}"
        self.pace = Pace(list(run.plan), self.epochs)
        self.at, self.elapsed = run.first_epoch, run.seconds
        self._since = self.pace.clock()
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self.live = Live(console=self.console, get_renderable=self._panel, refresh_per_second=4)
            self.live.start()
        else:
            self._say(self.headline)

    def on_stage(self, epoch: int, name: str, steps: int) -> None:
        self.pace.stage(name)
        self.at, self.name, self.total, self.done = epoch, name, steps, 0

    def on_step(self, count: int = 1) -> None:
        self.pace.step(count)
        self.done += count

    def on_metrics(self, epoch: int, metrics: dict[str, float]) -> None:
        """Take over the metrics; print them where there is no panel."""
        self.pace.epoch_over()
        self.at, self.name, self.elapsed = epoch + 1, "", metrics["time/seconds"]
        self._since = self.pace.clock()
        self.latest |= metrics
        if self.live is None:
            self._say(self._line(epoch, metrics))
        self._warn(epoch, metrics)

    def on_note(self, text: str) -> None:
        self._say(text)

    def on_end(self) -> None:
        """Leave the panel as it is."""
        self.close()
        self._say(f"trained for {clock(self.elapsed)}; the run is in {self.folder}")

    def close(self) -> None:
        """Give the terminal back, at the end or after an interrupt."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _say(self, text: str) -> None:
        # A log file keeps its lines whole; a terminal breaks them between words.
        self.console.print(Text(text), soft_wrap=not self.console.is_terminal)

    def _warn(self, epoch: int, metrics: dict[str, float]) -> None:
        """Say what is wrong with the metrics of an epoch, each thing once."""
        strange = {name for name, value in metrics.items() if not math.isfinite(value)}
        for name in sorted(strange - self.not_finite):
            self._say(f"epoch {epoch + 1}: {name} is not finite; it is null in {METRICS}")
        self.not_finite |= strange
        gap, both = metrics.get(ACTION_GAP, LEAST_GAP), metrics.keys() >= BOTH_LEARN
        if gap < LEAST_GAP and both and not self.warned_of_gap:
            self.warned_of_gap = True
            self._say(
                f"the world model ignores actions so far (action gap {gap:.2g}): a policy cannot "
                "learn in it yet; if this stays so, begin anew with a larger "
                "--controller.learner.first-epoch"
            )
        self.controlled += INFORMATION in metrics
        known = metrics.get(INFORMATION, LEAST_INFORMATION)
        if self.controlled == PATIENCE and known < LEAST_INFORMATION:
            self._say(
                f"the policy acts alike in every state (mutual information {known:.2g} nats after "
                f"{PATIENCE} epochs); --controller.network.normalize helps, if it is off"
            )

    def _left(self) -> tuple[str, str]:
        """The time left as far as stages have been timed, and the stages that have not been."""
        seconds, unknown = self.pace.left(self.at)
        if not self.pace.seconds:
            return "?", ""
        return f"about {clock(seconds)}", ", ".join(name.replace("_", " ") for name in unknown)

    def _line(self, epoch: int, metrics: dict[str, float]) -> str:
        figures = "  ".join(_figures(RETURNS | OTHERS, metrics))
        width = len(str(self.epochs))
        left, untimed = self._left()
        head = f"epoch {epoch + 1:>{width}}/{self.epochs}  {clock(self.elapsed)}, left {left}"
        return f"{head}{f' without {untimed} (not timed yet)' if untimed else ''}  {figures}"

    def _panel(self) -> Panel:
        elapsed = self.elapsed + self.pace.clock() - self._since
        left, untimed = self._left()
        bars = Table.grid(padding=(0, 1), expand=True)
        bars.add_column(no_wrap=True)
        bars.add_column(ratio=1, max_width=50)
        bars.add_column(no_wrap=True)
        bars.add_row(
            f"epoch {min(self.at + 1, self.epochs)}/{self.epochs}",
            ProgressBar(total=max(self.epochs, 1), completed=self.at),
            f"{clock(elapsed)}, left {left}",
        )
        speed = f"{self.done}/{self.total}, {rate(self.pace.rate())}" if self.name else ""
        bars.add_row(
            self.name.replace("_", " ") or "between epochs",
            ProgressBar(total=max(self.total, 1), completed=self.done),
            speed,
        )
        room = self.console.width - BORDER
        lines = [f"not timed yet: {untimed}"] if untimed else []
        for names in (RETURNS, OTHERS):
            lines += _filled(_figures(names, self.latest), room)
        body = Group(bars, *(Text(line, overflow="ellipsis", no_wrap=True) for line in lines))
        return Panel(body, title=Text(self.headline), title_align="left")


def _figures(names: dict[str, str], metrics: dict[str, float]) -> list[str]:
    """The metrics that there are, each with its name."""
    return [f"{name} {number(metrics[key])}" for name, key in names.items() if key in metrics]


def _filled(items: list[str], width: int) -> list[str]:
    """Items in as few lines as they fit in, none of them broken.

    >>> _filled(["return 0.5", "action gap 0.2", "end 1"], 27)
    ['return 0.5   action gap 0.2', 'end 1']
    """
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + 3 + len(item) <= width:
            lines[-1] += f"   {item}"
        else:
            lines.append(item)
    return lines


class Tally:
    """How many things are done, how fast steps are taken, how long the rest takes."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total = what, total
        self.done = self.steps = 0
        self.begun = monotonic()

    def add(self, done: int, steps: int) -> None:
        """Count what is done since the last call, and the steps that it took."""
        self.done += done
        self.steps += steps

    def __str__(self) -> str:
        said = [f"{self.done:,}/{self.total:,} {self.what}"]
        seconds = monotonic() - self.begun
        if self.steps and self.what != "steps":
            said.append(f"{self.steps:,} steps")
        if self.steps and seconds:
            said.append(rate(self.steps / seconds))
        if self.done:
            said.append(f"left about {clock(time_left(seconds, self.done, self.total))}")
        return ", ".join(said)


@contextmanager
def counted(what: str, total: int, seconds: float = 5.0) -> Iterator[Callable[[int, int], None]]:
    """A bar, or without a terminal a line every few seconds.

    Yields a function for what was done since the last call, and the steps that it took.
    """
    tally = Tally(what, total)
    if sys.stderr.isatty():
        from rich.progress import BarColumn, Progress, TextColumn

        columns = BarColumn(), TextColumn("{task.description}")
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(str(tally), total=total)

            def update(done: int, steps: int) -> None:
                tally.add(done, steps)
                bar.update(task, completed=tally.done, description=str(tally))

            yield update
        return
    last = monotonic()

    def report(done: int, steps: int) -> None:
        nonlocal last
        tally.add(done, steps)
        if monotonic() - last >= seconds:
            last = monotonic()
            print(tally, file=sys.stderr, flush=True)

    yield report
