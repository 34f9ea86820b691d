"""What was played, written down: a dataset for every world that was shown, and a film."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from einops import rearrange, repeat
from jaxtyping import UInt8

from horizon_imagination.actions import ActionSpace
from horizon_imagination.data import Store
from horizon_imagination.play.game import By, World
from horizon_imagination.play.worlds import Moment, Picture

MAX_FRAMES = 20_000
"""A recording that is forgotten ends here."""
WORLDS: tuple[World, ...] = ("model", "real")


@dataclass(frozen=True)
class Recorded:
    """Where a recording lies."""

    name: str
    datasets: dict[World, Path]
    film: Path
    steps: int


class Recorder:
    """Writes episodes as they are played; a killed program leaves all frames so far."""

    def __init__(
        self,
        folder: Path,
        frame_shape: tuple[int, int, int],
        action_space: ActionSpace | int,
        env_id: str,
    ) -> None:
        self.folder, self.about = folder, (frame_shape, action_space, env_id)
        self.name = _free_name(folder)
        self.stores: dict[World, Store] = {}
        self.cuts: list[dict[World, int]] = []
        """The row of every shown world, for every picture of the film."""
        self._shown: set[World] = set()
        self._first: dict[World, tuple[Moment, By]] = {}

    @property
    def frames(self) -> int:
        """Pictures so far."""
        return len(self.cuts)

    @property
    def steps(self) -> int:
        """Steps so far, in all worlds."""
        return sum(store.num_steps for store in self.stores.values())

    def see(self, world: World, moment: Moment, action: Any, by: By) -> None:
        """Write down a frame and the action that led to it; without one, an episode begins.

        It is begun on disk with its first step: episodes without any are not kept.
        """
        if action is None:
            self._first[world] = (moment, by)
            return
        for begun, (first, who) in self._first.items():
            self._store(begun).begin(_frame(first), {"world": begun, "player": who})
            self._cut(begun)
        self._first.clear()
        store = self._store(world)
        if store.is_open:  # it is not while an episode ends that had ended before the recording
            step = (action, moment.reward, moment.terminated, moment.truncated)
            store.add(*step, _frame(moment), {"player": by})
            self._cut(world)

    def _store(self, world: World) -> Store:
        if world not in self.stores:
            path = self.folder / f"{self.name}-{world}"
            self.stores[world] = Store.create(path, *self.about)
        return self.stores[world]

    def _cut(self, world: World) -> None:
        """The latest row of a world belongs to the picture that is being shown, or to the next."""
        if not self.cuts or world in self._shown:
            self.cuts.append(dict(self.cuts[-1]) if self.cuts else {})
            self._shown = set()
        self._shown.add(world)
        self.cuts[-1][world] = self.stores[world].num_frames - 1

    def stop(self) -> Recorded:
        """Seal the datasets; the film is written by `film`."""
        for store in self.stores.values():
            store.seal()
            store.close()
        paths: dict[World, Path] = {world: store.folder for world, store in self.stores.items()}
        return Recorded(self.name, paths, self.folder / f"{self.name}.mp4", self.steps)


class Film(Sequence[Picture]):
    """The pictures of a recording, side by side where two worlds were shown, made when asked."""

    def __init__(self, datasets: dict[World, Path], cuts: list[dict[World, int]]) -> None:
        self.frames = {world: Store.open(path).frames for world, path in datasets.items()}
        self.cuts = cuts
        self.zoom = max(1, 256 // next(iter(self.frames.values())).shape[-1])

    def __len__(self) -> int:
        return len(self.cuts)

    @overload
    def __getitem__(self, index: int) -> Picture: ...
    @overload
    def __getitem__(self, index: slice) -> list[Picture]: ...
    def __getitem__(self, index: int | slice) -> Picture | list[Picture]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        cut = self.cuts[index]
        shown = [self._picture(world, cut.get(world)) for world in WORLDS if world in self.frames]
        return np.concatenate(shown, axis=1)

    def _picture(self, world: World, row: int | None) -> Picture:
        frames = self.frames[world]
        frame = np.zeros_like(frames[0]) if row is None else np.asarray(frames[row])
        colours = 3 // frame.shape[0]  # a grey one is shown in three channels
        z = self.zoom
        return repeat(frame, "c h w -> (h zh) (w zw) (c cc)", zh=z, zw=z, cc=colours)


def write_film(recorded: Recorded, cuts: list[dict[World, int]], fps: float) -> None:
    """The recording as MP4."""
    from horizon_imagination.report.draw import write_video

    write_video(recorded.film, Film(recorded.datasets, cuts), fps=fps)


def _frame(moment: Moment) -> UInt8[np.ndarray, "channel height width"]:
    return np.ascontiguousarray(rearrange(moment.picture, "h w c -> c h w"))


def _free_name(folder: Path) -> str:
    """A name by date and time that nothing in the folder has."""
    stamp = time.strftime("play-%Y%m%d-%H%M%S")
    names = (stamp, *(f"{stamp}-{i}" for i in range(2, 100)))
    return next(
        n
        for n in names
        if not any(folder.glob(f"{n}-[mr]*")) and not (folder / f"{n}.mp4").exists()
    )
