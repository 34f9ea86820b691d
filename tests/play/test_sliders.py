"""Actions that are vectors, steered with sliders in a real browser."""

import os
from pathlib import Path

import pytest
import torch
from chromium import Page, find
from serving import Served

from horizon_imagination.agent import Agent
from horizon_imagination.data import Store
from horizon_imagination.envs.reach import Reach, SmallReach
from horizon_imagination.presets import DEBUG, replaced

pytestmark = [
    pytest.mark.alone,
    pytest.mark.slow,
    pytest.mark.skipif(find() is None, reason="NO CHROMIUM HERE: the page is not tested"),
]
PICTURES = Path(os.environ.get("HORIZON_PICTURES", "build/pages")).resolve()
STEP = "document.querySelector('.screen figcaption .quiet').textContent"
RUN = "document.querySelector('#run').getAttribute('aria-pressed')"
WIDE = "document.documentElement.scrollWidth <= innerWidth"


def lever(number):
    return f"document.querySelectorAll('.lever input')[{number}]"


def shown(page, number):
    return plain(page.get(f"document.querySelectorAll('.lever output')[{number}].textContent"))


def taken(page, number):
    """A number of the last action, as the server says."""
    said = page.get(f"document.querySelectorAll('#policy li')[{number}].title")
    return plain(said.removeprefix("taken: "))


def plain(text):
    return float(text.replace("−", "-"))


def drag(page, number, share):
    """Take a slider at its handle, with the pointer, to a share of its length."""
    page.get(f"{lever(number)}.scrollIntoView({{block: 'center'}})")
    left, wide, y, value, low, high = page.get(
        f"(() => {{ const s = {lever(number)}, r = s.getBoundingClientRect();"
        " return [r.x, r.width, r.y + r.height / 2, +s.value, +s.min, +s.max]; })()"
    )
    begin = left + 9 + (wide - 18) * (value - low) / (high - low)
    end = left + 9 + (wide - 18) * share
    about = {"y": y, "button": "left", "buttons": 1, "clickCount": 1}
    page.call("Input.dispatchMouseEvent", type="mousePressed", x=begin, **about)
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=(begin + end) / 2, **about)
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=end, **about)
    page.call("Input.dispatchMouseEvent", type="mouseReleased", x=end, **about)


def agent(folder, world, horizon):
    """An untrained agent: sliders do not ask for more."""
    folder.mkdir()
    ids = {SmallReach: "small-reach", Reach: "reach"}
    config = replaced(DEBUG, env={"id": ids[world]}, imagination={"horizon": horizon, "budget": 2})
    torch.manual_seed(0)
    Agent(config, world.ACTIONS, torch.device("cpu")).save(folder)
    return folder


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    folder = tmp_path_factory.mktemp("line")
    server = Served(str(agent(folder / "small-reach", SmallReach, 3)), cwd=folder)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plane")
    server = Served(str(agent(folder / "reach", Reach, 4)), cwd=folder)
    yield server
    server.stop()


def opened(page, served):
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.open(served.url)
    page.wait("document.querySelector('#screens canvas')")
    page.wait("!document.body.classList.contains('watching')")


@pytest.mark.timeout(300)
def test_a_number_is_steered_taken_held_and_imagined(line):
    with Page(1280, 860) as page:
        opened(page, line)
        page.get("document.querySelector('input[name=world][value=real]').click()")
        page.wait("document.querySelector('.screen[data-world=real]')")
        assert page.get("document.querySelectorAll('.lever').length") == 1
        drag(page, 0, 0.75)
        steered = page.get(f"+{lever(0)}.value")
        assert 0.4 < steered < 0.6
        assert shown(page, 0) == pytest.approx(steered, abs=0.006)
        page.press("Enter")
        page.wait(f"{STEP}.startsWith('step 1 ')")
        assert taken(page, 0) == pytest.approx(steered, abs=0.006)
        page.get(f"{lever(0)}.focus()")
        page.press("ArrowLeft")
        lower = page.get(f"+{lever(0)}.value")
        assert lower < steered
        page.press("Enter")  # also from the slider itself
        page.wait(f"{STEP}.startsWith('step 2 ')")
        assert taken(page, 0) == pytest.approx(lower, abs=0.006)
        drag(page, 0, 0.1)
        page.click("#take")
        page.wait("document.querySelector('.screen.ended')")
        assert page.get(STEP).startswith("step 3 ")
        assert taken(page, 0) == pytest.approx(-0.8, abs=0.1)
        page.picture(PICTURES / "desktop-slider.png")
        assert page.complaints == []


@pytest.mark.timeout(300)
def test_sliders_hold_while_the_world_runs_from_the_first_step_on(line):
    with Page(1280, 860) as page:
        opened(page, line)
        page.get("document.querySelector('input[name=world][value=real]').click()")
        page.wait("document.querySelector('.screen[data-world=real]')")
        page.press("r")
        page.wait(f"{STEP}.startsWith('step 0 ')")
        drag(page, 0, 0.2)
        steered = page.get(f"+{lever(0)}.value")
        page.press("c")
        page.wait("document.querySelector('#record').getAttribute('aria-pressed') === 'true'")
        page.press("p")
        page.wait(f"{RUN} === 'true'")
        page.wait("document.querySelector('.screen.ended')")
        page.wait(f"{RUN} === 'false'")
        page.press("c")
        page.wait("document.querySelector('#recorded .dataset')")
        folder = line.cwd / page.get("document.querySelector('#recorded .dataset').textContent")
        assert Store.open(folder).action[:3, 0].tolist() == pytest.approx([steered] * 3, abs=1e-3)
        assert page.complaints == []


@pytest.mark.timeout(300)
def test_strips_show_vectors(plane):
    with Page(1280, 860) as page:
        opened(page, plane)
        assert page.get("document.querySelectorAll('.lever').length") == 2
        page.get("document.querySelector('input[name=world][value=both]').click()")
        page.wait("document.querySelectorAll('#screens canvas').length === 2")
        drag(page, 0, 0.9)
        drag(page, 1, 0.3)
        page.click("#take")
        page.wait(f"{STEP}.startsWith('step 1 ')")
        page.picture(PICTURES / "desktop-sliders.png")
        page.click("#tab-imagine")
        page.wait("document.querySelectorAll('.strip').length === 2")
        page.wait("document.querySelector('#row').value === document.querySelector('#row').max")
        assert page.get("document.querySelector('#samplers input[value=coupled]').disabled")
        chips = page.get("[...document.querySelectorAll('.chip')].map((x) => x.textContent)")
        assert len(chips) == 2 * 4
        for chip in chips:
            assert all(-1 <= plain(x) <= 1 for x in chip.split()) and len(chip.split()) == 2
        page.picture(PICTURES / "desktop-vectors.png")
        page.click("#tab-browse")
        page.wait("document.querySelector('#reel-place').textContent === 'first frame'")
        page.slide("#frame", 1)
        page.wait("document.querySelector('#reel-place').textContent.startsWith('after ')")
        page.wait("document.querySelector('#training-note').textContent.startsWith('an agent')")
        page.picture(PICTURES / "desktop-vectors-browse.png")
        assert page.get("document.querySelector('#toast').hidden")
        assert page.complaints == []


@pytest.mark.timeout(300)
def test_sliders_and_vectors_fit_a_phone(plane):
    with Page(390, 844, touch=True, dark=False) as page:
        opened(page, plane)
        page.press("r")
        page.wait(f"{STEP}.startsWith('step 0 ')")
        drag(page, 0, 0.2)
        page.click("#take")
        page.wait(f"{STEP}.startsWith('step 1 ')")
        assert page.get(WIDE)
        page.picture(PICTURES / "phone-sliders.png")
        page.click("#tab-imagine")
        page.wait("document.querySelectorAll('.strip').length === 2")
        assert page.get(WIDE)
        page.wait("document.querySelector('#row').value === document.querySelector('#row').max")
        page.wait("getComputedStyle(document.querySelector('#strips')).opacity === '1'")
        for part in (".chip", ".said"):
            every = f"[...document.querySelectorAll('{part}')]"
            assert page.get(f"{every}.every((x) => x.scrollWidth <= x.clientWidth)"), part
        page.picture(PICTURES / "phone-vectors.png", whole=True)
        assert page.complaints == []
