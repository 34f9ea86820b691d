"""Small MP4 files, written with PyAV where it is installed."""

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from horizon_imagination.errors import UsageError
from horizon_imagination.report.draw import Picture, cell_place, draw_strip, picture
from horizon_imagination.report.strips import Strip

ENCODERS = ("libx264", "libopenh264", "mpeg4")


def write_video(path: Path, frames: Sequence[Picture], fps: float = 4.0) -> None:
    """Write frames as a film that browsers play, at once or not at all."""
    try:
        import av
        from av.codec.codec import UnknownCodecError
    except ImportError as error:
        raise UsageError("films need PyAV; install it with: pip install av") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    # Encoders want even sides; a line of white costs nothing.
    height, width = (side + side % 2 for side in frames[0].shape[:2])
    draft = path.with_name(f".{path.stem}.tmp{path.suffix}")
    with av.open(str(draft), "w", options={"movflags": "faststart"}) as container:
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
            even = np.pad(frame, ((0, short[0]), (0, short[1]), (0, 0)), constant_values=255)
            packets = stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24"))  # type: ignore[attr-defined]
            container.mux(packets)
        container.mux(stream.encode(None))  # type: ignore[attr-defined]
    os.replace(draft, path)


def strip_film(strip: Strip) -> list[np.ndarray]:
    """The strip as time passes: labels stay, each row shows one frame after the other."""
    whole = draw_strip(strip)
    width = picture(strip.rows[0].frames[0]).shape[1]
    first_left = cell_place(strip, 0, 0)[1]
    images = []
    for column in range(len(strip.rows[0].frames)):
        left = cell_place(strip, 0, column)[1]
        image = whole[:, : first_left + width + 6].copy()
        image[:, first_left - 3 :] = whole[:, left - 3 : left + width + 6]
        images.append(image)
    return images + [images[-1]] * 4


def films_side_by_side(films: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Several films of equal length as one."""
    return [np.concatenate(images, axis=1) for images in zip(*films, strict=True)]
