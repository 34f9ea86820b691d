"""The page that holds a world model: complete, and in a real browser the same as torch."""

import json
import os
import re
from pathlib import Path

import pytest
import torch
from chromium import Page, find
from einops import rearrange

from horizon_imagination.export.web import MODULES, export_web, joined, packed, runtime
from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import Context, imagine, stable_actor
from horizon_imagination.schedules import autoregressive_schedule
from horizon_imagination.stable_actions import Dice, roll, stable_action
from horizon_imagination.types import NO_ACTION

PICTURES = Path(os.environ.get("HORIZON_PICTURES", "build/pages")).resolve()
"""Where screenshots are kept, to be looked at."""
browser = [
    pytest.mark.alone,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find() is None, reason="NO CHROMIUM HERE: the dream is not tested"),
]
STEP = "document.querySelector('#step-note').textContent"
PLAYED = "globalThis.horizon && document.querySelector('#loading').hidden"


@pytest.fixture(scope="module")
def folder(agent, tmp_path_factory):
    """The dream of catch, exported."""
    out = tmp_path_factory.mktemp("web")
    export_web(agent, out, starts=3)
    return out


def opened(page, folder):
    """Open the page as a file, without a network, and wait until it can be played."""
    page.call("Network.enable")
    none = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.call("Network.emulateNetworkConditions", offline=True, **none)
    page.open(f"{(folder / 'index.html').as_uri()}?seed=3")
    page.wait("document.querySelector('#toast')", 60)
    page.wait(f"{PLAYED} || !document.querySelector('#toast').hidden", 120)
    assert page.get("document.querySelector('#toast').textContent") == ""


def mark(function):
    """Only in a browser."""
    for one in browser:
        function = one(function)
    return function


@mark
def test_a_visitor_plays_and_watches_a_horizon_become_clear(folder):
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Page(1280, 860) as page:
        opened(page, folder)
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
        page.wait("document.querySelectorAll('.cell').length === 7")
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
        assert page.complaints == []


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
        assert page.complaints == []


def frames_of(z):
    """Latents of one episode as the page takes them."""
    return rearrange(z[0], "t c h w -> t (c h w)").tolist()


@torch.no_grad()
def imagined_by_torch(agent, z, noise, dice):
    """The plain loop, from one frame."""
    logits, states = agent.actor(z)
    first = stable_action(logits[:, -1].softmax(-1), Dice(dice.omega[:, 0], dice.order[:, 0]))
    state = states.at(-1)
    actor = stable_actor(
        lambda seen, tau: agent.actor.policy(seen, tau, state),
        Dice(dice.omega[:, 1:], dice.order[:, 1:]),
    )
    context = Context(z, torch.full((1, 1), NO_ACTION))
    return imagine(
        agent.imagination_denoiser,
        actor,
        noise,
        agent.schedule,
        context=context,
        first_action=first,
    )


@torch.no_grad()
def stepped_by_torch(agent, z, noise, actions):
    """Frame after frame, each in two denoising steps."""
    found, led = z, [NO_ACTION]
    for t, action in enumerate(actions):
        context = Context(found, torch.tensor([led]))
        one = imagine(
            agent.imagination_denoiser,
            lambda *_: None,  # type: ignore[arg-type, return-value]
            noise[:, t : t + 1],
            autoregressive_schedule(1, 2),
            context=context,
            first_action=torch.tensor([action]),
        )
        found, led = torch.cat([found, one.z[-1]], dim=1), [*led, action]
    return found[:, 1:]


COMPARE = """(async (given) => {
  const { model, imagine, nextFrame, horizonSchedule, stableAction, about } = horizon;
  const latents = (frames) => frames.map((z) => Float32Array.from(z));
  const [z] = latents(given.z);
  const seen = await model.act(z, 1, model.start().actor);
  const first = { action: stableAction(seen.probs, given.dice[0]), probs: seen.probs };
  const schedule = horizonSchedule(about.horizon, about.budget, about.decay_horizon);
  const rows = [], steps = [], noise = latents(given.noise);
  const context = { frames: [z], actions: [-1] };
  for await (const row of imagine(model, {
    frames: noise, schedule, context, first, state: seen.state, dice: given.dice,
  })) rows.push({ z: row.frames.map((f) => [...f]), actions: row.actions });
  const before = { frames: [z], actions: [-1] };
  for (const [t, action] of given.actions.entries()) {
    const next = await nextFrame(model, { z: noise[t], context: before, action, steps: 2 });
    before.frames.push(next);
    before.actions.push(action);
    steps.push([...next]);
  }
  return { rows, schedule, steps };
})(%s)"""


@mark
def test_latents_and_actions_of_the_browser_are_those_of_torch(agent, folder):
    rng = torch.Generator().manual_seed(7)
    horizon, shape = agent.config.imagination.horizon, agent.latent_shape
    frame = torch.from_numpy(agent.make_env(seed=9).reset(seed=9)[0].copy())
    z = agent.tokenizer.encode(rearrange(frame, "h w c -> 1 1 c h w"))
    noise = uniform_noise(1, horizon, *shape, rng=rng)
    dice, actions = roll(1, horizon, num_actions=3, rng=rng), [0, 2, 1, 2, 0]
    given = {
        "z": frames_of(z),
        "noise": frames_of(noise),
        "actions": actions,
        "dice": [
            {"omega": omega.tolist(), "order": order.tolist()}
            for omega, order in zip(dice.omega[0], dice.order[0], strict=True)
        ],
    }
    with Page(800, 600) as page:
        opened(page, folder)
        said = page.get(COMPARE % json.dumps(given))
    assert torch.equal(torch.tensor(said["schedule"]), agent.schedule)
    ours = imagined_by_torch(agent, z, noise, dice)
    theirs = torch.tensor([row["z"] for row in said["rows"]])
    assert (theirs - rearrange(ours.z[:, 0], "r t c h w -> r t (c h w)")).abs().max() < 1e-3
    assert [row["actions"] for row in said["rows"]] == ours.actions[:, 0].tolist()
    steps = torch.tensor(frames_of(stepped_by_torch(agent, z, noise, actions)))
    assert (torch.tensor(said["steps"]) - steps).abs().max() < 1e-3


def test_the_page_is_complete_and_names_no_address(folder):
    text = (folder / "index.html").read_text()
    code = re.sub(r'<script type="text/plain".*?</script>|<!--.*?-->', "", text, flags=re.DOTALL)
    assert not re.search(r"https?://|fetch\(|src=", code)
    assert all(f'id="{name}"' in text for name in ("denoise", "decode", "act", "judge", "wasm"))
    assert "{{" not in code and "MIT" in runtime().licence
    card = json.loads((folder / "card.json").read_text())
    assert card["files"]["index.html"]["bytes"] == len(text.encode()) < 12e6


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
