"""What a person sees of a suite: what it will take, before anything is started; then a live table,
or a line whenever something changes.
"""

import dataclasses
import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from horizon_imagination.actions import ActionSpace
from horizon_imagination.config import Config
from horizon_imagination.costs import costs
from horizon_imagination.device import resolve_device
from horizon_imagination.envs.known import known_actions
from horizon_imagination.envs.look import look
from horizon_imagination.presets import replaced
from horizon_imagination.run.needs import Estimate, estimate, replay_bytes, snapshot_bytes
from horizon_imagination.run.read import Standing, standing
from horizon_imagination.scale.execute import Task
from horizon_imagination.wording import clock, duration, number, size

REFRESH = 2.0
"""Seconds between two looks at the metrics of running tasks."""
QUIET = 60.0
"""Seconds after which plain output tells where the running tasks are."""
SHOWN = 12
"""Waiting and finished runs that have a line of their own."""
ORDER = ("failed", "running", "busy", "waiting", "finished")


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


class SuiteTable:
    """Watches the tasks of a suite."""

    def __init__(self, slots: int, console: Console | None = None) -> None:
        self.slots = slots
        self.console = console or Console(highlight=False)
        self.live: Live | None = None
        self.seen: dict[str, Standing] = {}
        self._said: dict[str, tuple[str, str]] = {}
        self._looked, self._told = -REFRESH, time.monotonic()

    def __enter__(self) -> "SuiteTable":
        if self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=2, transient=False)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def __call__(self, tasks: list[Task]) -> None:
        """Look, and show what there is to see."""
        now = time.monotonic()
        changed = [t for t in tasks if self._said.get(t.run.name) != (t.state, t.reason)]
        if now - self._looked >= REFRESH or changed:
            self._looked = now
            fresh = [t for t in tasks if t.state in ("running", "busy") or t in changed]
            for task in fresh:
                self.seen[task.run.name] = standing(task.folder, task.run.config)
            if self.live is not None:
                self.live.update(self.table(tasks))
        if self.live is None:
            self._say(tasks, changed, now)
        self._said |= {t.run.name: (t.state, t.reason) for t in changed}

    def table(self, tasks: list[Task]) -> Group:
        """States, rates and time left, one line a run; below, a line for every reason."""
        table = Table(title=self.summary(tasks), title_justify="left", box=None, pad_edge=False)
        for column in ("run", "state", "epochs", "s/epoch", "time", "left", "retries"):
            table.add_column(column, no_wrap=True)
        reasons = []
        room = {"waiting": SHOWN, "finished": SHOWN}
        for task in sorted(tasks, key=lambda task: ORDER.index(task.state)):
            room[task.state] = room.get(task.state, len(tasks)) - 1
            if room[task.state] >= 0:
                *cells, reason = self._row(task)
                table.add_row(*map(Text, cells))
                if reason:
                    said = Text(f"{task.run.name}: {' '.join(reason.split())}")
                    said.no_wrap, said.overflow = True, "ellipsis"
                    reasons.append(said)
        return Group(table, *reasons)

    def summary(self, tasks: list[Task]) -> str:
        """One line about all of them."""
        counts = [(state, sum(task.state == state for task in tasks)) for state in ORDER]
        states = ", ".join(f"{count} {state}" for state, count in counts if count)
        left = self.left(tasks)
        return f"{len(tasks)} runs: {states}" + (f"; about {duration(left)} left" if left else "")

    def left(self, tasks: list[Task]) -> float | None:
        """Seconds until all is done; none before any pace is known."""
        open_tasks = [task for task in tasks if task.state not in ("finished", "failed")]
        known = [s for s in self.seen.values() if s.pace is not None]
        if not known or not open_tasks:
            return None
        whole = sum(s.seconds + (s.left or 0.0) for s in known) / len(known)
        parts = []
        for task in open_tasks:
            left = self.seen[task.run.name].left if task.run.name in self.seen else None
            parts.append(whole if left is None else left)
        return max(max(parts), sum(parts) / self.slots)

    def _row(self, task: Task) -> list[str]:
        seen = self.seen.get(task.run.name)
        retries = str(task.attempts) if task.attempts else ""
        if seen is None or not seen.epochs:
            return [task.run.name, task.state, "", "", "", "", retries, task.reason]
        left = clock(seen.left) if task.state == "running" and seen.left is not None else ""
        pace = number(seen.pace, 3) if seen.pace is not None else ""
        epochs = f"{seen.epochs}/{seen.total}"
        time_spent = clock(seen.seconds)
        return [task.run.name, task.state, epochs, pace, time_spent, left, retries, task.reason]

    def _say(self, tasks: list[Task], changed: list[Task], now: float) -> None:
        started = not self._said
        # At the start only what is special: nobody wants a line for all that waits.
        lines = [t for t in changed if not (started and t.state in ("waiting", "finished"))]
        if now - self._told >= QUIET:
            lines += [t for t in tasks if t.state == "running" and t not in lines]
        if started or lines:
            self._told = now
        if started:
            self._print(self.summary(tasks))
        for task in lines:
            cells = self._row(task)
            names = ("", "", "epochs ", "s/epoch ", "", "left ", "retries ", "")
            said = [f"{name}{cell}" for name, cell in zip(names, cells, strict=True) if cell]
            self._print("  ".join(said))
        if lines and not started:
            self._print(self.summary(tasks))

    def _print(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)
