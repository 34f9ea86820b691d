"""Strips and pairs of frames as pictures (pillow), as SVG for pages, and as films (PyAV)."""

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Literal

import numpy as np
from einops import rearrange, repeat
from jaxtyping import Shaped, UInt8
from torch import Tensor

from horizon_imagination.errors import UsageError
from horizon_imagination.files import replacing, write_bytes
from horizon_imagination.metrics.image_quality import in_colour
from horizon_imagination.report.strips import Row, Strip
from horizon_imagination.types import is_action

Picture = UInt8[np.ndarray, "_tall _wide _colour"]
"""RGB, or RGBA where the ground is transparent."""
Ink = Literal["ink", "faint", "context", "good", "bad"]
Colour = tuple[int, int, int]

ON_ANY: dict[Ink, Colour] = {
    "ink": (104, 113, 123),
    "faint": (118, 127, 137),
    "context": (45, 120, 220),
    "good": (18, 140, 96),
    "bad": (210, 78, 38),
}
"""Inks for a transparent ground: they can be read on white and on a dark page."""
ON_SCREEN: dict[Ink, Colour] = {
    "ink": (226, 230, 236),
    "faint": (160, 168, 178),
    "context": (90, 160, 255),
    "good": (80, 210, 150),
    "bad": (255, 140, 100),
}
"""Inks for films."""
SCREEN: Colour = (24, 28, 34)
"""The ground of films, which have no transparency: dark in a light page, too."""
BORDER, GAP, CAPTION, HEADER, LABEL = 3, 4, 17, 20, 168
TEXT, SMALL = 14, 12
"""Sizes of letters in pixels."""
PALE = 64
"""Opacity of frames after the predicted end, of 255."""
LEAST = 64
"""Frames smaller than this are enlarged, by a whole number."""
WIDE, LARGEST = 1120, 128
"""Width of a page, and of a frame in it that is enlarged to fill the page, in pixels."""
LETTER, REWARD = 6.2, 34
"""Mean width of a letter below a frame, and of the widest reward there, in pixels."""
ENCODERS = ("libx264", "libopenh264", "mpeg4")


@dataclass(frozen=True)
class Words:
    """A line of text in a strip, in one ink or in several."""

    x: float
    baseline: float
    parts: tuple[tuple[str, Ink], ...]
    size: int = SMALL
    anchor: Literal["middle", "end"] = "middle"


def picture(frame: UInt8[Tensor, "channel height width"], scale: int | None = None) -> Picture:
    """A frame as height, width and three channels, enlarged to be seen."""
    scale = scale or max(1, -(-LEAST // frame.shape[-1]))
    seen = in_colour(frame).numpy()
    return repeat(seen, "c h w -> (h tall) (w wide) c", tall=scale, wide=scale)


def frame_size(strip: Strip) -> tuple[int, int]:
    """Height and width of a frame in the picture of a strip."""
    height, width, _ = picture(strip.rows[0].frames[0], strip.scale).shape
    return height, width


def for_a_page(strip: Strip) -> Strip:
    """The strip with frames as large as a page has room for, by a whole number."""
    side, columns = strip.rows[0].frames.shape[-1], len(strip.rows[0].frames)
    room = (WIDE - LABEL) // columns - 2 * BORDER - GAP
    scale = min(room, LARGEST) // side
    return replace(strip, scale=scale) if scale * side > frame_size(strip)[1] else strip


def action_labels(strip: Strip) -> tuple[str, ...]:
    """What stands for the actions of a strip: their names, if they and a reward fit below a frame,
    else nothing, and numbers are written."""
    width = frame_size(strip)[1] + 2 * BORDER
    longest = max((len(name) for name in strip.actions), default=0)
    return strip.actions if LETTER * longest + REWARD <= width else ()


def cell_place(strip: Strip, row: int, column: int) -> tuple[int, int]:
    """Top and left of a frame in the picture of a strip."""
    height, width = frame_size(strip)
    top = HEADER + row * (height + CAPTION + 2 * GAP) + BORDER
    return top, LABEL + column * (width + 2 * BORDER + GAP) + BORDER


def draw_strip(strip: Strip, inks: dict[Ink, Colour] = ON_ANY) -> Picture:
    """All rows, on a transparent ground: context framed, time on top, actions and rewards below."""
    image_module = _pillow()
    from PIL import ImageDraw, ImageFont

    canvas = image_module.fromarray(_frames(strip, inks))
    pen = ImageDraw.Draw(canvas)
    fonts = {size: ImageFont.load_default(size) for size in (TEXT, SMALL)}
    for words in _words(strip):
        font = fonts[words.size]
        lengths = [pen.textlength(text, font) for text, _ in words.parts]
        left = words.x - sum(lengths) / (2 if words.anchor == "middle" else 1)
        for (text, ink), length in zip(words.parts, lengths, strict=True):
            pen.text((left, words.baseline), text, inks[ink], font, anchor="ls")
            left += length
    return np.asarray(canvas)


def strip_svg(strip: Strip) -> str:
    """The same for a page: frames as one picture, text as text in the colours of the page."""
    frames = _frames(strip, ON_ANY)
    height, width, _ = frames.shape
    address = data_address(encode_png(frames), "image/png")
    texts = "".join(
        f'<text x="{words.x:g}" y="{words.baseline:g}" font-size="{words.size}" '
        f'text-anchor="{words.anchor}">'
        + "".join(f'<tspan class="{ink}">{escape(text)}</tspan>' for text, ink in words.parts)
        + "</text>"
        for words in _words(strip)
    )
    return (
        f'<svg class="strip" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img"><image href="{address}" width="{width}" height="{height}"/>{texts}</svg>'
    )


def draw_pairs(
    real: UInt8[Tensor, "batch channel height width"],
    decoded: UInt8[Tensor, "batch channel height width"],
) -> Picture:
    """Frames above their reconstructions."""
    lines = [np.stack([opaque(picture(frame)) for frame in frames]) for frames in (real, decoded)]
    pairs = np.pad(np.stack(lines), ((0, 0), (0, 0), (0, 4), (0, 4), (0, 0)))
    return rearrange(pairs, "line frame h w c -> (line h) (frame w) c")


def opaque(image: Picture) -> Picture:
    """An RGB picture with full opacity as a fourth channel."""
    return np.concatenate([image, np.full_like(image[..., :1], 255)], axis=-1)


def stacked(pictures: Sequence[Picture], gap: int = 14) -> Picture:
    """Pictures below one another, on a transparent ground."""
    width = max(p.shape[1] for p in pictures)
    padded = [np.pad(p, ((0, gap), (0, width - p.shape[1]), (0, 0))) for p in pictures]
    return np.concatenate(padded)[: -gap or None]


def encode_png(image: Picture) -> bytes:
    """The picture as a PNG file."""
    file = io.BytesIO()
    _pillow().fromarray(image).save(file, format="PNG", optimize=True)
    return file.getvalue()


def write_png(path: Path, image: Picture) -> None:
    """Write a picture atomically."""
    write_bytes(path, encode_png(image))


def data_address(content: bytes, kind: str) -> str:
    """Content as an address that a page can carry in itself."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def strip_film(strip: Strip) -> list[Picture]:
    """The strip over time: labels stay, each row shows one frame after the other."""
    drawn = draw_strip(strip, ON_SCREEN).astype(np.float64)
    share = drawn[..., 3:] / 255
    whole = (share * drawn[..., :3] + (1 - share) * np.array(SCREEN)).round().astype(np.uint8)
    width = frame_size(strip)[1]
    first_left = cell_place(strip, 0, 0)[1]
    images = []
    for column in range(len(strip.rows[0].frames)):
        left = cell_place(strip, 0, column)[1]
        image = whole[:, : first_left + width + 6].copy()
        cell = whole[:, left - 3 : left + width + 6]
        image[:, first_left - 3 : first_left - 3 + cell.shape[1]] = cell
        images.append(image)
    return images + [images[-1]] * 4


def films_side_by_side(films: list[list[Picture]]) -> list[Picture]:
    """Several films of equal length as one."""
    return [np.concatenate(images, axis=1) for images in zip(*films, strict=True)]


def write_video(path: Path, frames: Sequence[Picture], fps: float = 4.0) -> None:
    """Write frames atomically as a film that browsers play."""
    try:
        import av
        from av.codec.codec import UnknownCodecError
    except ImportError as error:
        raise UsageError("films need PyAV; install it with: pip install av") from error
    # Encoders want even sides: the last line is repeated.
    height, width = (side + side % 2 for side in frames[0].shape[:2])
    with (
        replacing(path) as temporary,
        av.open(str(temporary), "w", options={"movflags": "faststart"}) as container,
    ):
        for name in ENCODERS:
            try:
                stream = container.add_stream(name, rate=Fraction(fps).limit_denominator(1000))
                break
            except UnknownCodecError:
                continue
        else:
            raise UsageError(f"this PyAV has none of the encoders {', '.join(ENCODERS)}")
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"  # type: ignore[attr-defined]
        for frame in frames:
            short = (height - frame.shape[0], width - frame.shape[1])
            even = np.pad(frame, ((0, short[0]), (0, short[1]), (0, 0)), mode="edge")
            packets = stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24"))  # type: ignore[attr-defined]
            container.mux(packets)
        container.mux(stream.encode(None))  # type: ignore[attr-defined]


def _frames(strip: Strip, inks: dict[Ink, Colour]) -> Picture:
    """All frames in their places, the context's with a border, on a transparent ground."""
    height, width = frame_size(strip)
    canvas = np.zeros((*cell_place(strip, len(strip.rows), len(strip.rows[0].frames)), 4), np.uint8)
    for line, row in enumerate(strip.rows):
        for column in range(len(row.frames)):
            top, left = cell_place(strip, line, column)
            if column < strip.context:
                frame = slice(top - BORDER, top + height + BORDER)
                canvas[frame, left - BORDER : left + width + BORDER] = (*inks["context"], 255)
            canvas[top : top + height, left : left + width] = _cell(row, column, strip.scale)
    return canvas


def _cell(row: Row, column: int, scale: int | None) -> Picture:
    """A frame; after the end it is pale, and nothing where there is no frame at all."""
    frame = opaque(picture(row.frames[column], scale))
    if not row.shown[column]:
        frame[..., 3] = PALE if row.frames[column].any() else 0
    return frame


def _words(strip: Strip) -> Iterator[Words]:
    """Steps on top, labels on the left, actions and rewards below each frame."""
    (height, width), names = frame_size(strip), action_labels(strip)
    for column in range(len(strip.rows[0].frames)):
        left = cell_place(strip, 0, column)[1]
        step = column + 1 - strip.context
        text, ink = ("context" if step == 0 else f"{step:+d}"), _step_ink(step)
        yield Words(left + width / 2, HEADER - 7, ((text, ink),))
    for line, row in enumerate(strip.rows):
        top = cell_place(strip, line, 0)[0]
        middle = top + height / 2
        yield Words(LABEL - 10, middle + 4, ((row.label, "ink"),), TEXT, "end")
        if row.note:
            yield Words(LABEL - 10, middle + 20, ((row.note, "faint"),), SMALL, "end")
        for column in range(strip.context, len(row.frames)):
            left = cell_place(strip, line, column)[1]
            if row.shown[column]:
                parts = _caption(row.prev_actions[column], float(row.reward[column]), names)
                yield Words(left + width / 2, top + height + SMALL + 1, parts)


def _step_ink(step: int) -> Ink:
    return "context" if step <= 0 else "faint"


def _caption(action: Tensor, reward: float, names: tuple[str, ...]) -> tuple[tuple[str, Ink], ...]:
    """The action that led to a frame, and a reward that is not about 0."""
    named: tuple[tuple[str, Ink], ...] = ()
    if bool(is_action(action).all()):
        named = ((action_words(action, names), "faint"),)
    if abs(reward) < 0.1:
        return named
    ink: Ink = "good" if reward > 0 else "bad"
    return *named, (f"{'  ' if named else ''}{reward:+.1f}", ink)


def action_words(action: Shaped[Tensor, " *entry"], names: tuple[str, ...] = ()) -> str:
    """The name of an action, or its number, or the first entries of a vector.

    >>> action_words(Tensor([0.51, -1.0])), action_words(Tensor([2]).long()[0])
    ('+0.5 -1.0', 'a2')
    """
    if action.ndim == 0:
        return names[int(action)] if names else f"a{int(action)}"
    form = "+.1f" if action.is_floating_point() else "d"
    return " ".join(f"{x:{form}}" for x in action.tolist()[:3])


def _pillow():
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError("pictures need pillow; install it with: pip install pillow") from error
    return Image
