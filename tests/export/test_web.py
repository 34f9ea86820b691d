"""The page that holds a world model: complete, and in a real browser the same as torch."""

import base64
import json
import os
import re
import subprocess

import pytest
from chromium import Page
from pages import PICTURES, STEP, check_same_as_torch, complaints, mark, opened

from horizon_imagination.export.web import MODULES, STATIC, export_web, joined, packed, runtime
from horizon_imagination.export.web import page as page_of
from horizon_imagination.provenance import provenance


@pytest.fixture(scope="module")
def folder(agent, tmp_path_factory):
    """The dream of catch, exported."""
    out = tmp_path_factory.mktemp("web")
    export_web(agent, out, starts=3)
    return out


@mark
def test_a_visitor_plays_and_watches_a_horizon_become_clear(folder):
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Page(1280, 860) as page:
        opened(page, folder)
        pace = "document.querySelector('#pace')"
        assert page.get(f"{pace}.textContent") == "on WebAssembly"
        assert page.get(f"{pace}.title") == "WebGPU is not used: no adapter"
        for step in range(1, 5):
            page.press("ArrowLeft" if step % 2 else "ArrowRight")
            page.wait(f"{STEP}.startsWith('step {step} ')")
        page.picture(PICTURES / "desktop-dream.png")
        page.get("document.querySelector('input[name=player][value=policy]').click()")
        page.press("r")
        page.wait(f"{STEP}.startsWith('step 0 ')")
        page.press("p")
        page.wait("!document.querySelector('#over').hidden", 60)  # an episode has seven steps
        page.press("p")
        page.click("#tab-imagine")
        page.wait("document.querySelectorAll('.cell:not(.now)').length === 7")
        rows = page.get("[...document.querySelectorAll('.now .label')].map((x) => x.innerText)")
        assert rows[:3] == ["action", "policy", "τ"] and rows[3].split() == ["reward", "end"]
        began = page.get("document.querySelector('.now canvas').toDataURL()")
        assert began == page.get("document.querySelector('#view').toDataURL()"), (
            "the frame of before"
        )
        page.wait("document.querySelector('#row').value === '4'")
        page.slide("#row", 2)
        page.wait("document.querySelector('#row-value').textContent === 'step 2 of 4'")
        times = page.get("[...document.querySelectorAll('.tau b')].map((b) => b.textContent)")
        assert times == ["1", "1", "1", "0.50", "0", "0", "0"]
        page.picture(PICTURES / "desktop-dream-strip.png")
        assert page.get("horizon.game.dream.steps") == 0  # nothing is imagined after an end
        page.slide("#budget", 9)
        page.wait("document.querySelector('#row').max === '9'")
        assert page.get("performance.getEntriesByType('resource').length") == 0
        assert complaints(page) == []


@mark
def test_the_dream_fits_a_phone(folder):
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Page(390, 844, touch=True, dark=False) as page:
        opened(page, folder)
        page.click(".action[aria-label=right]")
        page.wait(f"{STEP}.startsWith('step 1 ')")
        wide = "document.documentElement.scrollWidth <= innerWidth"
        assert page.get(wide)
        page.get("scrollTo(0, 0)")
        page.picture(PICTURES / "phone-dream.png")
        page.click("#tab-imagine")
        page.wait("document.querySelector('#row').value === '4'")
        assert page.get(wide)
        page.picture(PICTURES / "phone-dream-strip.png", whole=True)
        assert complaints(page) == []


@mark
def test_latents_and_actions_of_the_browser_are_those_of_torch(agent, folder):
    with Page(800, 600) as page:
        opened(page, folder, "backend=wasm")
        check_same_as_torch(page, agent, steps=5)
        assert page.complaints == []  # nobody asked for a GPU


CHOICES = """import('data:text/javascript;base64,%s').then(async ({ chosen }) => {
  const session = (value, wait) => ({ run: async () => {
    await new Promise((done) => setTimeout(done, wait));
    return { out: { data: Float32Array.of(0.5, value) } };
  } });
  const networks = (value, wait) => ({ denoise: session(value, wait), decode: session(0, wait) });
  const cases = {
    faster: [0.2505, 0], slower: [0.25, 400], off: [0.252, 0], broken: [NaN, 0],
    forced: [0.25, 400, "webgpu"], forced_off: [0.252, 0, "webgpu"],
  };
  const said = {};
  for (const [name, [value, wait, wanted]] of Object.entries(cases)) {
    const cpu = { ...networks(0.25, 100), act: "act" }, gpu = networks(value, wait);
    const { sessions, label } = await chosen(cpu, gpu, {}, wanted);
    said[name] = [label, sessions.denoise === gpu.denoise, sessions.act];
  }
  return said;
})"""


@mark
def test_a_gpu_that_is_wrong_or_slower_is_not_used():
    code = base64.b64encode((STATIC / "backend.js").read_bytes()).decode()
    with Page(800, 600) as page:
        said = page.get(CHOICES % code)
    assert said == {
        "faster": ["WebGPU", True, "act"],
        "slower": ["WebAssembly (WebGPU is slower here)", False, "act"],
        "off": ["WebAssembly (denoise on WebGPU is off by 0.0020)", False, "act"],
        "broken": ["WebAssembly (denoise on WebGPU is off by Infinity)", False, "act"],
        "forced": ["WebGPU", True, "act"],
        "forced_off": ["WebAssembly (denoise on WebGPU is off by 0.0020)", False, "act"],
    }


@mark
@pytest.mark.timeout(1200)
@pytest.mark.skipif(
    not os.environ.get("HORIZON_WEBGPU"),
    reason="HORIZON_WEBGPU is not set: in software, WebGPU takes minutes",
)
def test_a_page_that_tried_webgpu_in_software_computes_what_torch_computes(
    agent, folder, monkeypatch
):
    start = subprocess.Popen
    flags = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]

    def popen(command, **options):
        kept = [word for word in command if word != "--disable-gpu"]
        return start([kept[0], *flags, *kept[1:]], **options)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", popen)
        page = Page(800, 600)
    with page:
        opened(page, folder, "backend=webgpu", seconds=900)
        # Either it agrees, or the page has seen that it does not; both need WebGPU to have run.
        label = page.get("horizon.model.label")
        assert label == "WebGPU" or "on WebGPU is off by" in label
        check_same_as_torch(page, agent, steps=2)


def test_the_page_is_complete_and_names_no_address(folder):
    text = (folder / "index.html").read_text()
    code = re.sub(r'<script type="text/plain".*?</script>|<!--.*?-->', "", text, flags=re.DOTALL)
    assert not re.search(r"https?://|fetch\(|src=", code)
    assert all(f'id="{name}"' in text for name in ("denoise", "decode", "act", "judge", "wasm"))
    assert "{{" not in code and "MIT" in runtime().licence and "Tint Authors" in text
    card = json.loads((folder / "card.json").read_text())
    assert card["files"]["index.html"]["bytes"] == len(text.encode()) < 18e6


def test_a_page_without_webgpu_is_smaller():
    card = {"world": "catch", "made": provenance()}
    small, full = ({"": runtime()}, {"": runtime(), "-webgpu": runtime("webgpu")})
    sizes = [len(page_of(card, {}, {}, runtimes)) for runtimes in (small, full)]
    assert sizes[0] < 5.5e6 < sizes[1] - sizes[0] + 0.5e6 < 6.5e6
    assert 'id="wasm-webgpu"' not in page_of(card, {}, {}, small)


def test_modules_become_one_script_without_imports_and_exports():
    script = joined(MODULES)
    assert not re.search(r"^(import|export) ", script, flags=re.MULTILINE)
    assert script.index("function horizonSchedule") < script.index("class Dream")
    assert packed(b"same") == packed(b"same")


def test_two_modules_of_the_page_may_not_share_a_name(tmp_path):
    for name in ("a.js", "b.js"):
        (tmp_path / name).write_text("export function shared() {}\n")
    with pytest.raises(AssertionError, match="shared"):
        joined((tmp_path / "a.js", tmp_path / "b.js"))
