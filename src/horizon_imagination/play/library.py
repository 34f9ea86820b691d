"""What there is to play with and to look at: agents, stored episodes, curves of training."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, UInt8

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.device import autocast
from horizon_imagination.envs.known import reference_scores
from horizon_imagination.envs.spaces import random_action
from horizon_imagination.errors import UsageError
from horizon_imagination.play.messages import Place
from horizon_imagination.play.worlds import Picture, PlayedAgent, Track
from horizon_imagination.run.folder import is_run
from horizon_imagination.run.read import load_run
from horizon_imagination.snapshots import BEST, find_agent, snapshots
from horizon_imagination.types import NO_ACTION
from horizon_imagination.world_model import WorldModel

FOLDER = Path(__file__).parent / "agents"
BUNDLED = ("catch", "fog")
"""Trained by the presets `demo` and `fog`; made by scripts/make_play_agents.py."""

CURVES = {
    "env/return": "return",
    "evaluation/return": "return in evaluation",
    "controller/imagined_return": "return in imagination",
    "controller/late_changes": "late changes of action",
    "controller/entropy": "entropy of the policy",
    "world_model/denoiser": "loss of the denoiser",
    "world_model/reward": "loss of the reward",
    "tokenizer/reconstruction": "loss of the tokenizer",
}
"""Metrics that the page draws, and what it calls them."""
PAGE, FRAMES, POINTS, FRESH = 50, 48, 300, 16
"""Episodes a page, frames a look, points a curve, episodes played where nothing is stored."""

Which = Literal["best", "newest"]


@dataclass(frozen=True)
class Player:
    """An agent to be played with, by the name the page knows it by."""

    name: str
    folder: Path
    bundled: bool

    def snapshot(self, which: Which = "best") -> Path:
        """The folder of the weights: the best evaluated ones, or the newest."""
        newest = snapshots(self.folder)
        if which == "newest" and newest:
            return newest[-1]
        return find_agent(self.folder)

    def label(self, snapshot: Path) -> str:
        """What to call a snapshot: its epoch, and whether it is the best one."""
        if self.bundled or snapshot == self.folder:
            return ""
        epoch = "".join(filter(str.isdigit, snapshot.name)).lstrip("0") or "0"
        return f"epoch {epoch}" + (", best" if snapshot.name.startswith(BEST) else "")

    @property
    def replay(self) -> Path | None:
        """What the run has stored, if it came along."""
        folder = self.folder / "replay"
        return folder if (folder / "dataset.json").is_file() else None


def bundled(name: Path) -> Path | None:
    """The folder of an agent that comes with the package, if its name is no path that is there."""
    return FOLDER / name if str(name) in BUNDLED and not name.exists() else None


def players(run: Path | None) -> dict[str, Player]:
    """The agent of a run; without one, those that come with the package."""
    if run is None or bundled(run) is not None:
        names = BUNDLED if run is None else (str(run),)
        return {name: Player(name, FOLDER / name, bundled=True) for name in names}
    find_agent(run)  # complains if there is none
    name = run.resolve().name[:64]
    return {name: Player(name, run, bundled=False)}


def load(
    player: Player, which: Which, device: str, world_model: WorldModel | None = None
) -> tuple[Agent, str]:
    """The agent, and what to call its snapshot."""
    for attempt in (1, 2):
        folder = player.snapshot(which)
        try:
            agent = Agent.load(folder, device, world_model=world_model)
            return agent, player.label(folder)
        except UsageError:
            # A run that is training drops its oldest snapshots; the newest may be gone by now.
            if attempt == 2 or folder == player.snapshot(which):
                raise
    raise AssertionError


def curves(player: Player) -> dict[str, Any]:
    """The curves of a run as far as it has come, thinned to what a screen shows.

    An agent without its run has none.
    """
    if not is_run(player.folder):
        nothing = {"curves": [], "horizontal": "", "epochs": 0, "of": 0, "landmarks": {}}
        return nothing | {"finished": True}
    run = load_run(player.folder)
    drawn = []
    for key, label in CURVES.items():
        x, y = run.series(key)
        keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).astype(int))
        if len(x) > 1:
            points = [[float(x[i]), float(f"{y[i]:.5g}")] for i in keep]
            drawn.append({"label": label, "points": points})
    return {
        "curves": drawn,
        "horizontal": "epochs" if run.offline else "environment steps",
        "epochs": run.epochs,
        "of": run.config.training.epochs,
        "finished": player.bundled or run.finished,
        "landmarks": reference_scores(run.config.env.id),
    }


@dataclass(frozen=True)
class EpisodeSource:
    """A dataset that can be looked at."""

    name: str
    folder: Path


@dataclass(frozen=True)
class Excerpt:
    """Some frames of a stored episode, what the tokenizer keeps of them, what is read off them."""

    frames: UInt8[np.ndarray, "time height width channel"]
    reconstruction: UInt8[np.ndarray, "time height width channel"]
    actions: list[Any]
    """The action that led to each frame: -1, or None of vectors, for the first of an episode."""
    rewards: list[float]
    """What the world paid with each frame."""
    predicted: list[float]
    """What the reward model reads off it."""
    values: list[float]
    ends: list[float]


@dataclass
class Library:
    """The stored episodes that fit an agent, by number."""

    networks: PlayedAgent
    sources: list[EpisodeSource] = field(default_factory=list)

    def add(self, name: str, folder: Path) -> None:
        """One more dataset; one of another world is left out."""
        with _opened(folder) as store:
            cfg = self.networks.agent.config.env
            shape = (cfg.frame_channels, cfg.size, cfg.size)
            if (store.frame_shape, store.action_space) == (shape, self.networks.agent.action_space):
                self.sources.append(EpisodeSource(name, folder))

    def listing(self) -> list[dict[str, Any]]:
        """Every source and its size."""
        lines = []
        for source in self.sources:
            with _opened(source.folder) as store:
                lines.append({"name": source.name, "episodes": len(store.starts)})
                lines[-1] |= {"steps": store.num_steps}
        return lines

    def episodes(self, number: int, offset: int) -> list[dict[str, Any]]:
        """A page of episodes, newest first."""
        with _opened(self._source(number).folder) as store:
            table = list(enumerate(store.episodes))[::-1][offset : offset + PAGE]
        return [
            {"episode": i, "steps": e.num_steps, "ended": e.ended, "return": e.total_reward}
            for i, e in table
        ]

    def look(self, place: Place) -> Excerpt:
        """Frames of an episode from `place.frame` on."""
        with _opened(self._source(place.source).folder) as store:
            first, last = _span(store, place)
            begin = int(store.starts[place.episode])
            stop = min(first + FRAMES, last)
            rows = np.arange(first, stop)
            frames, led = store.frames[first:stop].copy(), rows > begin
            before = np.maximum(rows - 1, 0)
            none = NO_ACTION if store.action.ndim == 1 else None
            taken = store.action[before].tolist()
            actions = [a if real else none for a, real in zip(taken, led, strict=True)]
            rewards = np.where(led, store.reward[before], 0.0).tolist()
        seen = _read(self.networks, torch.from_numpy(frames))
        return Excerpt(
            frames=rearrange(frames, "t c h w -> t h w c"),
            reconstruction=seen.pop("pictures"),
            actions=actions,
            rewards=rewards,
            **{name: values.tolist() for name, values in seen.items()},
        )

    def start(self, place: Place) -> tuple[Track, Picture]:
        """The episode up to a recorded frame, to be played or imagined on from there."""
        with _opened(self._source(place.source).folder) as store:
            now, _ = _span(store, place)
            begin = int(store.starts[place.episode])
            first = max(begin, now - self.networks.kept + 1)
            frames = store.frames[first : now + 1].copy()
            led = list(store.action[first:now].copy())
            before = store.action[first - 1].copy() if first > begin else None
        track = self.networks.track(torch.from_numpy(frames), (before, *led))
        return track, rearrange(frames[-1], "c h w -> h w c")

    def _source(self, number: int) -> EpisodeSource:
        if number >= len(self.sources):
            raise UsageError("there is no such dataset; reload the page")
        return self.sources[number]


def fresh_episodes(agent: Agent, env: gymnasium.Env, folder: Path, seed: int = 0) -> Path:
    """Play some episodes, every other one at random, so that there is something to look at."""
    folder = Path(tempfile.mkdtemp(prefix="episodes-", dir=folder)) / "dataset"
    cfg, dice = agent.config.env, np.random.default_rng(seed)
    shape = (cfg.frame_channels, cfg.size, cfg.size)
    store = Store.create(folder, shape, agent.action_space, cfg.id)
    for episode in range(FRESH):
        picture, _ = env.reset()
        agent.reset(seed + episode)
        store.begin(_channels_first(picture))
        for _ in range(200):
            random = episode % 2 == 1
            action = random_action(agent.action_space, dice) if random else agent.act(picture)
            picture, reward, terminated, truncated, _ = env.step(action)
            store.add(action, float(reward), terminated, truncated, _channels_first(picture))
            if terminated or truncated:
                break
    store.seal()
    store.close()
    return folder


def _channels_first(picture: Picture) -> UInt8[np.ndarray, "channel height width"]:
    return np.ascontiguousarray(rearrange(picture, "h w c -> c h w"))


@contextmanager
def _opened(folder: Path) -> Iterator[Store]:
    store = Store.open(folder)
    try:
        yield store
    finally:
        store.close()


def _span(store: Store, place: Place) -> tuple[int, int]:
    """The row of a place, and the row after its episode."""
    if place.episode >= len(store.starts):
        raise UsageError(f"there is no episode {place.episode}; there are {len(store.starts)}")
    first, last = int(store.starts[place.episode]), int(store.ends[place.episode])
    if place.frame >= last - first:
        raise UsageError(f"episode {place.episode} has {last - first} frames, no {place.frame}")
    return first + place.frame, last


@torch.no_grad()
def _read(networks: PlayedAgent, frames: UInt8[torch.Tensor, "time channel height width"]) -> dict:
    """Reconstruction, reward, end and value of frames in a row."""
    agent = networks.agent
    z = rearrange(agent.encode(frames.to(agent.device)), "t c h w -> 1 t c h w")
    with autocast(agent.config.runtime, agent.device):
        reward, end = (x[0].float() for x in agent.world_model.reward_and_end(z))
        value = agent.critic.readout.value(agent.critic(z)[0].float())[0]
    reward[0], end[0] = 0.0, 0.0  # the reward model has no step to judge there
    said: dict[str, Float[torch.Tensor, " time"]]
    said = {"predicted": reward, "ends": end, "values": value}
    return {k: v.cpu().numpy() for k, v in said.items()} | {"pictures": networks.decode(z)}
