"""Strips, pairs and grids of frames as pictures, drawn with pillow."""

import base64
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from einops import rearrange, repeat
from jaxtyping import UInt8
from torch import Tensor

from horizon_imagination.errors import UsageError
from horizon_imagination.report.strips import Row, Strip

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

Picture = UInt8[np.ndarray, "_tall _wide _colour"]

BLUE, INK, FAINT, PAPER = (0, 90, 200), (30, 34, 40), (125, 132, 140), (255, 255, 255)
GOOD, BAD = (0, 128, 90), (200, 60, 20)
BORDER, GAP, CAPTION, HEADER, LABEL = 3, 4, 15, 20, 158
LEAST = 64
"""Frames smaller than this are enlarged, by a whole number."""


def picture(frame: UInt8[Tensor, "channel height width"]) -> Picture:
    """A frame as height, width and three channels, enlarged to be seen."""
    scale = max(1, -(-LEAST // frame.shape[-1]))
    colours = 3 if len(frame) == 1 else 1
    return repeat(
        frame.numpy(),
        "c h w -> (h tall) (w wide) (c colours)",
        tall=scale,
        wide=scale,
        colours=colours,
    )


def cell_place(strip: Strip, row: int, column: int) -> tuple[int, int]:
    """Top and left of a frame in the picture of a strip."""
    size = picture(strip.rows[0].frames[0]).shape
    top = HEADER + row * (size[0] + CAPTION + 2 * GAP) + BORDER
    return top, LABEL + column * (size[1] + 2 * BORDER + GAP) + BORDER


def draw_strip(strip: Strip) -> Picture:
    """All rows: context in blue, time on top, actions and rewards below each frame."""
    image_module, font, small = _pillow()
    height, width, _ = picture(strip.rows[0].frames[0]).shape
    columns = len(strip.rows[0].frames)
    bottom, right = cell_place(strip, len(strip.rows), columns)
    canvas = image_module.new("RGB", (right, bottom), PAPER)
    from PIL import ImageDraw

    pen = ImageDraw.Draw(canvas)
    for column in range(columns):
        left = cell_place(strip, 0, column)[1]
        step = column + 1 - strip.context
        text = "context" if step == 0 else f"{step:+d}"
        pen.text((left + width / 2, 3), text, _tone(step <= 0), small, anchor="ma")
    for line, row in enumerate(strip.rows):
        top = cell_place(strip, line, 0)[0]
        pen.text((LABEL - 10, top + height / 2 - 1), row.label, INK, font, anchor="rm")
        if row.note:
            pen.text((LABEL - 10, top + height / 2 + 15), row.note, FAINT, small, anchor="rm")
        for column in range(columns):
            top, left = cell_place(strip, line, column)
            canvas.paste(image_module.fromarray(_cell(row, column)), (left, top))
            if column < strip.context:
                box = (left - BORDER, top - BORDER, left + width + 2, top + height + 2)
                pen.rectangle(box, outline=BLUE, width=BORDER)
            elif row.shown[column]:
                _caption(pen, row, column, (left + width / 2, top + height + 2), small)
    return np.asarray(canvas)


def draw_pairs(
    real: UInt8[Tensor, "batch channel height width"],
    decoded: UInt8[Tensor, "batch channel height width"],
) -> Picture:
    """Frames above their reconstructions."""
    lines = [np.stack([picture(frame) for frame in frames]) for frames in (real, decoded)]
    pairs = np.pad(np.stack(lines), ((0, 0), (0, 0), (0, 4), (0, 4), (0, 0)), constant_values=255)
    return rearrange(pairs, "line frame h w c -> (line h) (frame w) c")


def stacked(pictures: Sequence[Picture], gap: int = 14) -> Picture:
    """Pictures below one another, on white."""
    width = max(p.shape[1] for p in pictures)
    padded = [
        np.pad(p, ((0, gap), (0, width - p.shape[1]), (0, 0)), constant_values=255)
        for p in pictures
    ]
    return np.concatenate(padded)[: -gap or None]


def encode_png(image: Picture) -> bytes:
    """The picture as a PNG file."""
    image_module, _, _ = _pillow()
    file = io.BytesIO()
    image_module.fromarray(image).save(file, format="PNG", optimize=True)
    return file.getvalue()


def write_png(path: Path, image: Picture) -> None:
    """Replace the file by this picture, at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".tmp")
    draft.write_bytes(encode_png(image))
    os.replace(draft, path)


def data_address(content: bytes, kind: str) -> str:
    """Content as an address that a page can carry in itself."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _cell(row: Row, column: int) -> Picture:
    """A frame; what comes after the end is white in the real row and pale in others."""
    frame = picture(row.frames[column])
    if row.shown[column]:
        return frame
    blank = np.full_like(frame, 244)
    return blank if not row.frames[column].any() else (0.25 * frame + 0.75 * blank).astype(np.uint8)


def _caption(
    pen: "ImageDraw",
    row: Row,
    column: int,
    place: tuple[float, float],
    font: "FreeTypeFont | ImageFont",
) -> None:
    action, reward = int(row.prev_actions[column]), float(row.reward[column])
    text = "" if action < 0 else f"a{action}"
    if abs(reward) < 0.1:
        pen.text(place, text, FAINT, font, anchor="ma")
        return
    text, paid = f"{text}  ", f"{reward:+.1f}"
    left = place[0] - (pen.textlength(text, font) + pen.textlength(paid, font)) / 2
    pen.text((left, place[1]), text, FAINT, font, anchor="la")
    left += pen.textlength(text, font)
    pen.text((left, place[1]), paid, GOOD if reward > 0 else BAD, font, anchor="la")


def _tone(context: bool) -> tuple[int, int, int]:
    return BLUE if context else FAINT


def _pillow():
    try:
        from PIL import Image, ImageFont
    except ImportError as error:
        raise UsageError("pictures need pillow; install it with: pip install pillow") from error
    return Image, ImageFont.load_default(13), ImageFont.load_default(11)
