"""The one thread that owns the model: it plays, imagines and reads, one thing at a time.

Jobs come from the server through a bounded queue; what is to be shown goes back through `post`,
which never waits. So nobody who watches can slow the model down.
"""

import contextlib
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from horizon_imagination.actions import Discrete
from horizon_imagination.envs import EnvFailure, action_names, make_env
from horizon_imagination.errors import UsageError
from horizon_imagination.play import answers
from horizon_imagination.play import messages as m
from horizon_imagination.play.answers import Answer
from horizon_imagination.play.game import Game, World
from horizon_imagination.play.library import (
    Library,
    curves,
    fresh_episodes,
    load,
    players,
)
from horizon_imagination.play.recording import MAX_FRAMES, Recorded, Recorder, write_film
from horizon_imagination.play.strip import CONTEXT_SHOWN, budgets, imagine_strip
from horizon_imagination.play.worlds import Moment, PlayedAgent, take_threads
from horizon_imagination.schedules import schedule_of_kind
from horizon_imagination.timing import most_threads
from horizon_imagination.world_model import WorldModel

MAX_JOBS = 128
NEWEST_COUNTS = (m.Imagine, m.Look, m.Episodes, m.Sources, m.Curves, m.Hold, m.Choose)
"""Of these only the newest of a client is done: a slider sends many."""
PAUSE_AT_END = 1.0
"""Seconds until the policy begins another episode."""


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    run: Path | None
    out: Path
    data: tuple[Path, ...] = ()
    device: str = "auto"
    seed: int = 0
    trust: bool = False
    """Whether the environment that an agent names as `module:Name` is imported."""
    world_model: WorldModel | None = None  # that the run's agent was given, if it was


Post = Callable[[Answer, int | None], None]
"""Shows an answer to one client, or to all; never waits."""


class Jobs:
    """What clients have asked for, in order, with a limit."""

    def __init__(self, most: int = MAX_JOBS) -> None:
        self.most, self.waiting = most, threading.Condition()
        self.jobs: OrderedDict[Any, tuple[int, m.Message]] = OrderedDict()
        self.count = 0

    def put(self, client: int, message: m.Message) -> bool:
        """Queue a job; False if there are too many."""
        with self.waiting:
            self.count += 1
            key: Any = (client, type(message))
            if not isinstance(message, NEWEST_COUNTS) or _partial(self.jobs.get(key), message):
                key = self.count
            if key not in self.jobs and len(self.jobs) >= self.most:
                return False
            self.jobs[key] = (client, message)
            self.waiting.notify()
            return True

    def get(self, until: float | None) -> tuple[int, m.Message] | None:
        """The next job; none once the clock has reached `until`."""
        with self.waiting:
            while not self.jobs:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self.waiting.wait(left)
            return self.jobs.popitem(last=False)[1]


def _partial(before: tuple[int, m.Message] | None, message: m.Message) -> bool:
    """Whether a choice would lose what an earlier one chose of something else."""
    if before is None or not isinstance(message, m.Choose):
        return False
    set_by = {k for k, v in vars(before[1]).items() if v is not None}
    return set_by != {k for k, v in vars(message).items() if v is not None}


class Worker(threading.Thread):
    """Plays an agent; every change of what is seen is posted."""

    def __init__(self, settings: Settings, post: Post) -> None:
        super().__init__(name="model", daemon=True)
        self.settings, self.post, self.jobs = settings, post, Jobs()
        self.players, self.most_threads = players(settings.run), most_threads()
        self.films: dict[str, Path] = {}
        """Films made since the start, by name; the only files that can be fetched."""
        self.stopping = threading.Event()
        self.watched = False
        self.recorder: Recorder | None = None
        self.held: m.Action | None = None
        """The action of every step while the world runs."""
        self.tapped: m.Action | None = None
        """The action of the next step alone."""
        self.next_tick, self.pace = time.monotonic(), 0.0
        self.temporary = Path(tempfile.mkdtemp(prefix="horizon-play-"))
        self.load(next(iter(self.players)), "best")

    def load(self, name: str, which: Any) -> None:
        """Take up an agent and begin an episode."""
        if name not in self.players:
            raise UsageError("there is no such agent; reload the page")
        self.stop_recording()
        self.player, asked, self.held = self.players[name], self.settings, None
        agent, self.snapshot = load(self.player, which, asked.device, asked.world_model)
        self.networks = PlayedAgent(agent)
        self.library = Library(self.networks)
        if self.player.replay is not None:
            self.library.add("replay of the run", self.player.replay)
        for folder in self.settings.data:
            self.library.add(folder.resolve().name, folder)
        cfg, self.no_env = agent.config.env, ""
        self.env_config = cfg.trusted() if self.settings.trust else cfg
        space = agent.action_space
        count = space.n if isinstance(space, Discrete) else space.shape[0]
        names = tuple(str(action) for action in range(count))
        try:
            env = make_env(self.env_config, self.settings.seed)
            names = action_names(env, cfg.id)
        except UsageError as error:
            env, self.no_env = None, str(error)
        self.game = Game(self.networks, env, names, self.settings.seed)
        self.game.on_moment = self._on_moment
        self._reset(None)
        take_threads(self.networks, self.game.track, self.most_threads)
        self._say_hello()

    def run(self) -> None:
        """Do what is asked, and step the world when it is time."""
        try:
            while not self.stopping.is_set():
                ticking = self.game.choices.running and self.watched
                job = self.jobs.get(self.next_tick if ticking else time.monotonic() + 1.0)
                with self._reported(job):
                    if job is not None:
                        self._do(*job)
                    if ticking and time.monotonic() >= self.next_tick:
                        self._tick()
        finally:
            self.stop_recording()
            shutil.rmtree(self.temporary, ignore_errors=True)

    def stop(self) -> None:
        """End the thread; what is being recorded is sealed first."""
        self.stopping.set()
        with self.jobs.waiting:
            self.jobs.waiting.notify()
        self.join(timeout=10)

    @contextlib.contextmanager
    def _reported(self, job: tuple[int, m.Message] | None) -> Iterator[None]:
        """What goes wrong is said to the one who asked, and the game goes on."""
        try:
            yield
        except (ValueError, OSError, EnvFailure) as error:  # UsageError is a ValueError
            self.post(answers.notice(str(error), bad=True), _who(job))
        except Exception:
            traceback.print_exc(file=sys.stderr)
            text = "something went wrong; the server's log says what"
            self.post(answers.notice(text, bad=True), _who(job))

    def _do(self, client: int, message: m.Message) -> None:
        match message:
            case m.Act(action) | m.Hold(action) if self._unknown(action):
                raise UsageError(self._unknown(action))
            case m.Act(action) if self.game.choices.running and not self.game.ended:
                self.tapped = action
            case m.Act(action):
                self._step(action)
            case m.Hold(action):
                self.held = action
            case m.Step():
                self._step(None)
            case m.Run(on):
                self._choose(running=on)
            case m.Reset(place):
                self._reset(place)
                self._say_state()
                self._show()
            case m.Choose():
                self._chosen(message)
            case m.Record(on):
                self.start_recording() if on else self.stop_recording()
            case m.Imagine():
                self._imagine(message)
            case m.Load(name, which):
                self.load(name, which)
            case m.Curves():
                said = curves(self.player) | {"newest": self._newest()}
                self.post(Answer("curves", said), client)
            case _:
                self._browse(client, message)

    def _browse(self, client: int, message: m.Message) -> None:
        match message:
            case m.Sources():
                if not self.library.sources and self.game.real is not None:
                    with contextlib.closing(self._second_env()) as env:
                        folder = fresh_episodes(self.networks.agent, env, self.temporary)
                    self.library.add("episodes played just now", folder)
                self.post(Answer("sources", {"sources": self.library.listing()}), client)
            case m.Episodes(source, offset):
                said = {"episodes": self.library.episodes(source, offset)}
                self.post(Answer("episodes", vars(message) | said), client)
            case m.Look(place):
                self.post(answers.look(place, self.library.look(place)), client)

    def _second_env(self):
        return make_env(self.env_config, self.settings.seed + 1)

    def _newest(self) -> str:
        """The newest snapshot of the run, if it is another than the one that plays."""
        newest = self.player.label(self.player.snapshot("newest"))
        return "" if newest == self.snapshot else newest

    def _tick(self) -> None:
        game, now = self.game, time.monotonic()
        self.next_tick = max(self.next_tick + 1 / game.choices.speed, now)
        if not game.ended:
            meant = self.held if self.tapped is None else self.tapped
            self.tapped = None
            self._step(meant)
            return
        if game.choices.player == "policy":
            self._reset(None)
            self._show()
        else:
            self._choose(running=False)

    def _unknown(self, action: m.Action | None) -> str:
        space = self.game.space
        if action is not None and not isinstance(space, Discrete) and isinstance(action, int):
            return f"action {action} is not {space.words().removesuffix(' as actions')} in a list"
        if action is None or not space.problem(action):
            return ""
        if isinstance(space, Discrete):
            return f"action {action} is unknown: there are {len(self.game.names)}"
        return space.problem(action)

    def _step(self, action: m.Action | None) -> None:
        begun = time.perf_counter()
        if self.game.step(action):
            took = time.perf_counter() - begun
            self.pace = took if not self.pace else 0.9 * self.pace + 0.1 * took
            self._show()
            if self.game.ended:
                self.next_tick = time.monotonic() + PAUSE_AT_END
            if self.recorder is not None and self.recorder.frames >= MAX_FRAMES:
                self.stop_recording()

    def _reset(self, place: m.Place | None) -> None:
        self.tapped = None
        if place is None and self.game.real is not None:
            self.game.reset()
        else:
            place = place or self._any_place()
            self.game.reset_from(*self.library.start(place))

    def _any_place(self) -> m.Place:
        """Somewhere to begin where there is no real world."""
        if not self.library.sources:
            raise UsageError(f"nothing to begin from: no replay, and no world ({self.no_env})")
        episodes = self.library.episodes(0, 0)
        dice = torch.randint(len(episodes), (1,), generator=self.game.dice)
        return m.Place(0, episodes[int(dice)]["episode"], 0)

    def _chosen(self, message: m.Choose) -> None:
        game = self.game
        if message.world is not None:
            if message.world != "model" and game.real is None:
                raise UsageError(f"the real world is not here: {self.no_env}")
            game.show(message.world)  # type: ignore[arg-type]
            self._show()
        if message.steps is not None:
            game.model.steps = message.steps
        chosen = {"player": message.player, "speed": message.speed}
        self._choose(**{k: v for k, v in chosen.items() if v is not None})

    def _choose(self, **chosen: Any) -> None:
        if chosen.get("running") and self.game.ended:
            self._reset(None)
            self._show()
        self.game.choices = replace(self.game.choices, **chosen)
        kept = self.game.choices.running and "player" not in chosen
        self.held, self.tapped, self.next_tick = self.held if kept else None, None, time.monotonic()
        self._say_state()

    def _imagine(self, wish: m.Imagine) -> None:
        if wish.place is None:
            track = self.game.track
        else:
            track, _ = self.library.start(wish.place)
        cfg = self.networks.agent.config
        kind: Any = wish.kind
        decay = min(wish.decay_horizon, float(cfg.imagination.horizon))
        limits = budgets(cfg.imagination.horizon)[kind]
        budget = min(wish.budget, limits["most"])
        schedule = schedule_of_kind(kind, cfg.imagination.horizon, budget, decay)
        start = track.start(cfg.controller.context)
        strips = [
            imagine_strip(self.networks, start, schedule, sampler, wish.seed)  # type: ignore[arg-type]
            for sampler in wish.samplers
        ]
        context = self.networks.decode(track.z[:, -CONTEXT_SHOWN:])
        wish = replace(wish, decay_horizon=decay)
        self.post(answers.strips(wish, schedule, strips, context), None)

    def start_recording(self) -> None:
        """Write down what is played from now on."""
        if self.recorder is None:
            agent, cfg = self.networks.agent, self.networks.agent.config.env
            shape = (cfg.frame_channels, cfg.size, cfg.size)
            self.recorder = Recorder(self.settings.out, shape, agent.action_space, cfg.id)
            for world in self.game.worlds:
                moment = self.game.moments[world]
                if not moment.ended:
                    self.recorder.see(world, moment, None, self.game.choices.player)
        self._say_state()

    def stop_recording(self) -> None:
        """Seal what was recorded, and have its film made beside the game."""
        recorder, self.recorder = self.recorder, None
        if recorder is None:
            return
        recorded = recorder.stop()
        self._say_state()
        for world, path in recorded.datasets.items():
            self.library.add(f"{recorded.name}, {world}", path)
        arguments = (recorded, recorder.cuts, self.game.choices.speed)
        threading.Thread(target=self._film, args=arguments, name="film").start()

    def _film(self, recorded: Recorded, cuts: list[dict[World, int]], fps: float) -> None:
        said = {
            "name": recorded.name,
            "steps": recorded.steps,
            "datasets": [str(path) for path in recorded.datasets.values()],
            "film": "",
        }
        if recorded.datasets:
            with self._reported(None):
                write_film(recorded, cuts, fps)
                self.films[recorded.name] = recorded.film
                said["film"] = str(recorded.film)
        self.post(Answer("recorded", said), None)

    def _on_moment(self, world: World, moment: Moment, action: Any, by: Any) -> None:
        if self.recorder is None:
            return
        try:
            self.recorder.see(world, moment, action, by)
        except (OSError, ValueError) as error:
            self.recorder = None  # the game goes on without it
            self._say_state()
            self.post(answers.notice(f"the recording stopped: {error}", bad=True), None)

    def _say_hello(self) -> None:
        agent, said = self.networks.agent, (self.snapshot, self.game, self.no_env)
        self.post(answers.hello(agent, list(self.players), self.player, *said), None)
        self._say_state()
        self._show()

    def _say_state(self) -> None:
        self.post(answers.state(self.game, self.recorder is not None), None)

    def _show(self) -> None:
        recorded = self.recorder.steps if self.recorder else 0
        self.post(answers.frame(self.game, 1000 * self.pace, recorded), None)


def _who(job: tuple[int, m.Message] | None) -> int | None:
    return job[0] if job else None
