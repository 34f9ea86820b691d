"""What a run's agent sees and imagines, as parts of its report and as files beside it."""

from pathlib import Path

import torch
from einops import rearrange

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.errors import UsageError
from horizon_imagination.learn.streams import derive_seed
from horizon_imagination.report import page
from horizon_imagination.report.draw import (
    Picture,
    data_address,
    draw_pairs,
    draw_strip,
    encode_png,
    stacked,
    write_png,
)
from horizon_imagination.report.films import make_scene, sampler_strips
from horizon_imagination.report.records import RunRecord
from horizon_imagination.report.strips import Strip
from horizon_imagination.report.video import films_side_by_side, strip_film, write_video

VIDEOS = "videos"
LARGEST_FILM = 4_000_000
"""Bytes up to which a film is carried in the page."""
KEY = (
    "Blue: the real context. Below each frame the action that led to it (a0, a1, …) and the "
    "reward, predicted in imagined rows. Pale frames come after the predicted end. All imagined "
    "rows start from the same context and noise."
)


def picture_sections(record: RunRecord, *, examples: int, seed: int, device: str) -> list[str]:
    """Reconstructions and imagined futures; without an agent, the strips of its training.

    One line says why there is no agent: a run that has just begun, or was copied without weights.
    """
    title = page.heading("What it sees and imagines")
    try:
        agent = Agent.load(record.folder, device)
        with_store = replay_of(record)
        strips = write_strips(agent, with_store, record.folder, "imagined", examples, seed)
        pairs = reconstructions(agent, with_store, seed)
    except UsageError as error:
        why = page.paragraph(f"No pictures of the agent as it is now: {error}", "soft")
        written = _written(record.folder)
        return [
            title,
            why,
            *(_after_epoch(path, KEY) for path in written[-1:]),
            _fold(written[:-1]),
        ]
    return [
        title,
        page.heading("Reconstructions", 3),
        page.image(
            data_address(encode_png(pairs), "image/png"),
            "stored frames above their reconstructions",
            "Stored frames, and below them what the tokenizer makes of them.",
            fit=True,
        ),
        page.heading("Imagined futures", 3),
        page.image(
            data_address(encode_png(stacked([draw_strip(strip) for strip in strips])), "image/png"),
            "film strips: real, reconstructed and imagined futures",
            KEY,
        ),
        _film(record.folder / VIDEOS / "imagined.mp4"),
        _fold(_written(record.folder)),
    ]


def write_strips(
    agent: Agent, store: Store, run: Path, name: str, examples: int, seed: int
) -> list[Strip]:
    """Strips of several moments, samplers of actions side by side, in the run's videos."""
    horizon = agent.config.imagination.horizon
    scene = make_scene(agent, store, count=examples, horizon=horizon, seed=seed)
    strips = sampler_strips(agent, scene, seed=seed)
    save_strips(run / VIDEOS / f"{name}.png", strips)
    return strips


def save_strips(path: Path, strips: list[Strip]) -> list[Path]:
    """Write strips as one picture and, where PyAV is installed, as a film beside it."""
    write_png(path, stacked([draw_strip(strip) for strip in strips]))
    if not has_films():
        return [path]
    film = path.with_suffix(".mp4")
    write_video(film, films_side_by_side([strip_film(strip) for strip in strips]))
    return [path, film]


def reconstructions(agent: Agent, store: Store, seed: int, count: int = 12) -> Picture:
    """Frames of the store above what is left of them after encoder and decoder."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "reconstructions"))
    rows = torch.randint(store.num_frames, (count,), generator=rng)
    frames = torch.from_numpy(store.frames[rows.numpy()])
    with torch.no_grad():
        z = agent.encode(frames.to(agent.device))
    decoded = agent.decode(rearrange(z, "b c h w -> b 1 c h w"))
    return draw_pairs(frames, rearrange(decoded.cpu(), "b 1 c h w -> b c h w"))


def replay_of(record: RunRecord) -> Store:
    """The experience of a run: its replay, or the dataset it was trained on."""
    folder = Path(record.offline) if record.offline else record.folder / "replay"
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
    return page.film(data_address(path.read_bytes(), "video/mp4"), "The same, as time passes.")


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
