"""What a run's agent sees and imagines: parts of its report, files, strips during training."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from einops import rearrange

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.errors import UsageError, as_usage_error
from horizon_imagination.report import page
from horizon_imagination.report.draw import (
    Picture,
    action_labels,
    data_address,
    draw_pairs,
    draw_strip,
    encode_png,
    films_side_by_side,
    for_a_page,
    stacked,
    strip_film,
    strip_svg,
    write_png,
    write_video,
)
from horizon_imagination.report.strips import (
    Strip,
    make_scene,
    sampler_strips,
    schedule_strips,
)
from horizon_imagination.run.callbacks import Callback, RunStart
from horizon_imagination.run.folder import VIDEOS, strips_of
from horizon_imagination.run.read import Run
from horizon_imagination.schedules import check_schedule
from horizon_imagination.streams import derive_seed
from horizon_imagination.types import Schedule

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST_FILM = 4_000_000
"""Bytes up to which a film is carried in the page."""
KEY = (
    "Framed: the real context. Below each frame are the action that led to it{} and the reward, "
    "which is predicted in imagined rows. Frames after the predicted end are pale. All imagined "
    "rows start from the same context and noise."
)


def key(strip: Strip | None = None) -> str:
    """What a strip shows; if the names of its actions do not fit below frames, what they are."""
    if strip is None:
        return KEY.format("")
    if strip.actions and not action_labels(strip):
        return KEY.format(f" ({', '.join(f'a{i} {x}' for i, x in enumerate(strip.actions))})")
    return KEY.format("" if strip.actions else " (its number, or its first entries)")


def picture_sections(run: Run, folder: Path, *, examples: int, seed: int, device: str) -> list[str]:
    """Reconstructions and imagined futures; without an agent, the strips of its training.

    Strips are also written into `videos` in the folder. One line says why there is no agent: the
    run has just begun, or was copied without its weights.
    """
    title = page.heading("What it sees and imagines")
    path = folder / VIDEOS / "imagined.png"
    try:
        agent = Agent.load(run.folder, device)
        store = replay_of(run)
        strips = write_strips(agent, store, path, examples, seed)
        pairs = reconstructions(agent, store, seed)
    except UsageError as error:
        why = page.paragraph(f"No pictures of the agent as it is now: {error}", "soft")
        written = _written(run.folder)
        latest = [_after_epoch(strip, key()) for strip in written[-1:]]
        return [title, why, *latest, _fold(written[:-1])]
    large = [for_a_page(strip) for strip in strips]
    return [
        title,
        page.heading("Reconstructions", 3),
        page.image(
            data_address(encode_png(pairs), "image/png"),
            "stored frames above their reconstructions",
            "Stored frames above their reconstructions by the tokenizer.",
            fit=True,
        ),
        page.heading("Imagined futures", 3),
        page.strips([strip_svg(strip) for strip in large], key(large[0])),
        _film(path.with_suffix(".mp4")),
        _fold(_written(run.folder)),
    ]


def write_strips(agent: Agent, store: Store, path: Path, examples: int, seed: int) -> list[Strip]:
    """Strips of several moments, one row per sampler of actions, as a picture and a film."""
    horizon = agent.config.imagination.horizon
    scene = make_scene(agent, store, count=examples, horizon=horizon, seed=seed)
    strips = sampler_strips(agent, scene, seed=seed)
    save_strips(path, strips)
    return strips


def strips(
    agent: Agent,
    data: Path | str,
    *,
    schedules: dict[str, Schedule] | None = None,
    count: int = 1,
    seed: int = 0,
) -> "Image":
    """Futures that the agent imagines from moments of a run or a dataset, as a picture.

    Rows: what happened, its reconstruction, imagination under the recorded actions, and under those
    of each sampler; with `schedules`, a row for each of them under the recorded actions. It works
    with the agent's world model, whatever that is. A notebook shows the picture.
    """
    from PIL import Image

    folder = Path(data)
    store = Store.open(folder / "replay" if (folder / "replay").is_dir() else folder)
    try:
        horizon = agent.schedule.shape[1]
        if schedules:
            horizon = next(iter(schedules.values())).shape[1]
            for schedule in schedules.values():
                with as_usage_error():
                    check_schedule(schedule, horizon)
        scene = make_scene(agent, store, count=count, horizon=horizon, seed=seed)
        if schedules:
            made = schedule_strips(agent, scene, schedules, seed=seed)
        else:
            made = sampler_strips(agent, scene, seed=seed)
    finally:
        store.close()
    return Image.fromarray(stacked([draw_strip(strip) for strip in made]))


def save_strips(path: Path, strips: list[Strip]) -> list[Path]:
    """Write strips as one picture and, where PyAV is installed, as a film beside it."""
    write_png(path, stacked([draw_strip(strip) for strip in strips]))
    if not has_films():
        return [path]
    film = path.with_suffix(".mp4")
    write_video(film, films_side_by_side([strip_film(strip) for strip in strips]))
    return [path, film]


def reconstructions(agent: Agent, store: Store, seed: int, count: int = 16) -> Picture:
    """Frames of the store above what is left of them after encoder and decoder."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "reconstructions"))
    rows = torch.randperm(store.num_frames, generator=rng)[:count]
    frames = torch.from_numpy(store.frames[rows.numpy()])
    with torch.no_grad():
        z = agent.encode(frames.to(agent.device))
    decoded = agent.decode(rearrange(z, "b c h w -> b 1 c h w"))
    return draw_pairs(frames, rearrange(decoded.cpu(), "b 1 c h w -> b c h w"))


def replay_of(run: Run) -> Store:
    """The experience of a run: its replay, or the dataset it was trained on."""
    folder = Path(run.offline) if run.offline else run.folder / "replay"
    return Store.open(folder)


def has_films() -> bool:
    """Whether films can be written here."""
    try:
        import av  # noqa: F401
    except ImportError:
        return False
    return True


def _film(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > LARGEST_FILM:
        return ""
    return page.film(data_address(path.read_bytes(), "video/mp4"), "The same over time.")


def _fold(written: list[Path], most: int = 4) -> str:
    """Some of these strips, evenly spaced, oldest first, behind one line."""
    if not written:
        return ""
    places = sorted({round(i * (len(written) - 1) / (most - 1)) for i in range(most)})
    images = [_after_epoch(written[i]) for i in places]
    return page.folded("Film strips written during training", "".join(images))


def _written(run: Path) -> list[Path]:
    """Strips of the training, oldest first."""
    return sorted((run / VIDEOS).glob("epoch-*.png"))


def _after_epoch(strips: Path, caption: str = "") -> str:
    epoch = int(strips.stem.removeprefix("epoch-"))
    address = data_address(strips.read_bytes(), "image/png")
    return page.heading(f"After epoch {epoch}", 3) + page.image(address, strips.stem, caption)


class StripWriter(Callback):
    """Writes `videos/epoch-N.png` (and `.mp4`) every `training.strips_every` epochs.

    It draws from random numbers of its own: a run learns the same with and without it. What
    cannot be drawn or written costs one note and no training.
    """

    def __init__(self, *, examples: int = 2) -> None:
        self.examples = examples
        self._run: RunStart | None = None
        self._epoch = self._written = -1
        self._noted: set[str] = set()

    def on_start(self, run: RunStart) -> None:
        self._epoch = run.first_epoch - 1
        if not run.agent.config.training.strips_every:
            return
        if not _has_pillow():
            run.note("pillow is not installed: no film strips are written")
            return
        self._run = run
        if not has_films():
            run.note("av is not installed: film strips are pictures only")

    def on_metrics(self, epoch: int, metrics: dict[str, float]) -> None:
        self._epoch = epoch
        if self._run and (epoch + 1) % self._run.agent.config.training.strips_every == 0:
            self._write(self._run)

    def on_end(self) -> None:
        """Write the strips of the last epoch, whatever its number."""
        if self._run:
            self._write(self._run)

    def _write(self, run: RunStart) -> None:
        """Unless they are written, or the world model has not begun to learn."""
        epoch, config = self._epoch, run.agent.config
        if epoch <= self._written or epoch < config.world_model.learner.first_epoch:
            return
        self._written = epoch
        seed = derive_seed(config.seed, f"strips {epoch}") % 2**31
        path = strips_of(run.folder, epoch)
        try:
            write_strips(run.agent, run.store, path, self.examples, seed)
        except (UsageError, OSError) as error:
            text = f"no film strip: {error}"
            if text not in self._noted:
                self._noted.add(text)
                run.note(text)


def _has_pillow() -> bool:
    try:
        import PIL  # noqa: F401
    except ImportError:
        return False
    return True
