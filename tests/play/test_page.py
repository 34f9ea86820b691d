"""The page in a real browser, from the first step to the recording."""

import os
from pathlib import Path

import pytest
from chromium import Page, find

from horizon_imagination.data import Store, validate

pytestmark = [
    pytest.mark.alone,
    pytest.mark.slow,
    pytest.mark.skipif(find() is None, reason="NO CHROMIUM HERE: the page is not tested"),
]
PICTURES = Path(os.environ.get("HORIZON_PICTURES", "build/pages")).resolve()
"""Where screenshots are kept, to be looked at."""
MATRIX = "document.querySelector('#matrix').toDataURL()"
CUT_OFF = """[...document.querySelectorAll('.strip .label')]
    .filter((x) => x.scrollWidth > x.clientWidth).map((x) => x.textContent).join()"""
STEP = "document.querySelector('.screen figcaption .quiet').textContent"


def choose(page, name, value):
    page.get(f"document.querySelector('input[name={name}][value={value}]').click()")


@pytest.mark.timeout(300)
def test_a_newcomer_plays_imagines_and_records(served):
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Page(1280, 860) as page:
        page.open(served.url)
        page.wait("document.querySelector('#screens canvas')")
        page.wait("!document.body.classList.contains('watching')")
        for length in (7, 3):  # ten steps in two episodes: one of catch has seven
            page.press("r")
            page.wait(f"{STEP}.startsWith('step 0 ')")
            for step in range(1, length + 1):
                page.press("ArrowLeft" if step % 2 else "ArrowRight")
                page.wait(f"{STEP}.startsWith('step {step} ')")
        page.picture(PICTURES / "desktop-play.png")
        choose(page, "player", "policy")
        page.press("p")
        page.wait("document.querySelector('#run').getAttribute('aria-pressed') === 'true'")
        page.press("p")
        page.wait("document.querySelector('#run').getAttribute('aria-pressed') === 'false'")
        page.click("#tab-imagine")
        page.wait("document.querySelectorAll('.strip').length === 3")
        page.wait("document.querySelector('#row').value === document.querySelector('#row').max")
        before = page.get(MATRIX)
        page.slide("#row", 2)
        page.wait("document.querySelector('#row-value').textContent === 'step 2 of 4'")
        page.picture(PICTURES / "desktop-imagine.png")
        assert page.get(CUT_OFF) == "", "labels beside a strip are whole"
        page.slide("#budget", 9)
        page.wait("document.querySelector('#row').max === '9'")
        choose(page, "kind", "full")
        page.wait("document.querySelector('#matrix-note').textContent.startsWith('up to 7 of 7')")
        assert page.get(MATRIX) != before
        page.click("#tab-play")
        page.press("r")
        page.press("c")
        page.wait("document.querySelector('#record').getAttribute('aria-pressed') === 'true'")
        for _ in range(3):
            page.press("ArrowRight")
        page.wait(f"{STEP}.startsWith('step 3 ')")
        page.press("c")
        page.wait("document.querySelector('#recorded .dataset')")
        folder = served.cwd / page.get("document.querySelector('#recorded .dataset').textContent")
        assert validate(folder) == [] and Store.open(folder).num_steps == 3
        page.click("#tab-browse")
        page.wait("document.querySelectorAll('#episodes tr').length > 0")
        page.wait("document.querySelectorAll('#curves canvas').length > 3")
        page.picture(PICTURES / "desktop-browse.png", whole=True)
        assert page.complaints == []


@pytest.mark.timeout(300)
def test_the_page_fits_a_phone(served):
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Page(390, 844, touch=True, dark=False) as page:
        page.open(served.url)
        page.wait("document.querySelector('#screens canvas')")
        page.wait("!document.body.classList.contains('watching')")
        choose(page, "world", "both")
        page.wait("document.querySelectorAll('#screens canvas').length === 2")
        page.picture(PICTURES / "phone-play.png")
        wide = "document.documentElement.scrollWidth <= innerWidth"
        assert page.get(wide)
        page.click("#tab-imagine")
        page.wait("document.querySelectorAll('.strip').length === 3")
        assert page.get(wide)
        page.picture(PICTURES / "phone-imagine.png", whole=True)
        page.click("#tab-browse")
        page.wait("document.querySelectorAll('#episodes tr').length > 0")
        assert page.get(wide)
        page.picture(PICTURES / "phone-browse.png", whole=True)
        assert page.complaints == []
