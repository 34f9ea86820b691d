"""Draws docs/figures/play.gif: how two futures become clear on the page of `horizon play catch`.

python scripts/draw_play.py [PICTURES]

Needs Chromium. PICTURES is a folder in which every step is kept as it was, to look at.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
FIGURE = ROOT / "docs" / "figures" / "play.gif"
sys.path.insert(0, str(ROOT / "tests"))
from chromium import Page  # noqa: E402

WIDTH, SCALE = 720, 2
"""The page's width, which is that of the picture in the README, and its pixels' sharpness."""
COLOURS, APART = 56, 12
"""As many as keep the picture small, and how far from one another at least, of 255."""
PAUSE, LAST = 650, 3500
"""Milliseconds that a step, and the last one, stays."""
BUDGET, DECAY = 12, 3
SHOWN = """
html { overflow: hidden }
body > header, .panel, #origin, .time { display: none !important }
main { padding: 14px 16px 4px !important }
#imagine { display: block !important }
.strips { --cell: 75px !important; overflow: hidden !important }
.strip header .quiet { display: inline !important }
"""
"""What the picture leaves out: the controls, and all that surrounds the strips."""


def serve() -> tuple[subprocess.Popen[str], str]:
    """The server and its address."""
    words = [
        sys.executable,
        "-c",
        "from horizon_imagination.cli import main; raise SystemExit(main())",
    ]
    server = subprocess.Popen(
        [*words, "play", "catch", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    assert server.stdout is not None
    for line in server.stdout:
        if found := re.search(r"http://\S+", line):
            return server, found[0]
    raise SystemExit("horizon play has no address")


def steps(address: str, folder: Path) -> list[Path]:
    """A picture of every step of denoising."""
    pictures = []
    with Page(WIDTH, 800, dark=False, scale=SCALE) as page:
        page.open(address)
        page.wait("document.querySelector('#screens canvas')")
        page.wait("!document.body.classList.contains('watching')")
        page.get(
            "{ const sheet = new CSSStyleSheet();"
            f" sheet.replaceSync({SHOWN!r}); document.adoptedStyleSheets = [sheet]; }}"
        )
        page.get("document.querySelector('#tab-imagine').click()")
        page.wait("document.querySelectorAll('.strip').length === 3")
        page.get("document.querySelector('#samplers input[value=coupled]').click()")
        page.wait("document.querySelectorAll('.strip').length === 2")
        page.slide("#budget", BUDGET)
        page.slide("#decay", DECAY)
        page.wait(f"document.querySelector('#row').max === '{BUDGET}'")
        page.wait("!document.querySelector('#strips').classList.contains('stale')")
        for row in range(int(page.get("document.querySelector('#row').max")) + 1):
            page.slide("#row", row)
            pictures.append(folder / f"step-{row:02}.png")
            page.wait(f"document.querySelector('#row-value').textContent.startsWith('step {row} ')")
            page.picture(pictures[-1])
        high = page.get("document.querySelector('.lab').getBoundingClientRect().bottom")
    for path in pictures:
        Image.open(path).convert("RGB").crop((0, 0, WIDTH * SCALE, int(high) * SCALE)).save(path)
    return pictures


def palette(images: Sequence[Image.Image]) -> Image.Image:
    """The most frequent colours that are not nearly the same as a more frequent one."""
    pixels = np.concatenate([np.asarray(image).reshape(-1, 3) for image in images])
    found, counts = np.unique(pixels, axis=0, return_counts=True)
    left, kept = found[np.argsort(-counts)].astype(int), []
    while len(left) and len(kept) < COLOURS:
        kept.append(left[0])
        left = left[np.abs(left - left[0]).max(axis=1) >= APART]
    holder = Image.new("P", (1, 1))
    holder.putpalette(np.array(kept).ravel().tolist())
    return holder


def main() -> None:
    """Record, and write the film with one palette for all its pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    server, address = serve()
    try:
        images = [Image.open(path) for path in steps(address, folder)]
    finally:
        server.terminate()
        server.wait()
    chosen = palette(images)
    drawn = [image.quantize(palette=chosen, dither=Image.Dither.NONE) for image in images]
    pauses = [PAUSE] * (len(drawn) - 1) + [LAST]
    drawn[0].save(FIGURE, save_all=True, append_images=drawn[1:], duration=pauses, loop=0,
                  optimize=True)  # fmt: skip
    print(f"{FIGURE}: {FIGURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
