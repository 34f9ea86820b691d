"""The page of a world model whose actions are vectors: sliders, and the same numbers as torch."""

import pytest
import torch
from chromium import Page
from pages import BROWSER, PICTURES, STEP, check_same_as_torch, complaints, opened
from vector_worlds import WORLDS

from horizon_imagination.agent import Agent
from horizon_imagination.export.web import export_web
from horizon_imagination.presets import DEBUG, replaced

pytestmark = BROWSER
NAMES = {"Valves": ("cold", "hot"), "Lamp": ("colour", "switch")}
MOVED = {"Valves": (1.5, 20), "Lamp": (2, 1)}
LEVERS = "[...document.querySelectorAll('.lever output')].map((value) => value.textContent)"


@torch.no_grad()
def restless(world):
    """An untrained agent whose denoiser and actor are not constant."""
    config = replaced(DEBUG, env={"id": f"vector_worlds:{world}"}, imagination={"horizon": 4})
    agent = Agent(config, WORLDS[world], torch.device("cpu"))
    rng = torch.Generator().manual_seed(2)
    for network in (agent.imagination_denoiser, agent.actor):
        for weight in network.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=rng))
    agent.reward.head.bias[-1] = -9  # episodes do not end
    return agent


@pytest.fixture(scope="module", params=WORLDS)
def dream(request, tmp_path_factory):
    """The name of a world, its agent, and the page of its dream, opened."""
    folder, agent = tmp_path_factory.mktemp("web"), restless(request.param)
    export_web(agent, folder, starts=2, webgpu=False)
    with Page(1280, 860) as page:
        opened(page, folder)
        yield request.param, agent, page


def test_vectors_of_the_browser_are_those_of_torch(dream):
    _, agent, page = dream
    check_same_as_torch(page, agent, steps=4)


def test_a_visitor_moves_sliders_and_the_policy_moves_them_too(dream):
    world, agent, page = dream
    names = page.get("[...document.querySelectorAll('.lever input')].map((e) => e.ariaLabel)")
    assert tuple(names) == NAMES[world]
    for name, value in zip(names, MOVED[world], strict=True):
        page.slide(f".lever input[aria-label={name}]", value)
    assert page.get(LEVERS) == [str(value) for value in MOVED[world]]
    page.click("#take")
    page.wait(f"{STEP}.startsWith('step 1 ')")
    page.press("Enter")
    page.wait(f"{STEP}.startsWith('step 2 ')")
    taken = "horizon.model.space.toWorld(horizon.game.dream.actions.at(-1))"
    assert page.get(taken) == pytest.approx(MOVED[world], abs=1e-6)
    page.get("document.querySelector('input[name=player][value=policy]').click()")
    for step in range(3, 7):
        page.get("document.querySelector('#step').click()")
        page.wait(f"{STEP}.startsWith('step {step} ')")
    assert page.get(LEVERS) != [str(value) for value in MOVED[world]]
    assert not agent.action_space.problem(page.get(taken))
    page.click("#tab-imagine")
    page.wait("document.querySelectorAll('.cell:not(.now)').length === 4")
    chips = (
        "[...document.querySelectorAll('.chip')].every((chip) => chip.textContent.includes(' '))"
    )
    page.slide("#row", 4)
    page.wait(chips)
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.picture(PICTURES / f"desktop-dream-{world.lower()}.png")
    assert complaints(page) == []
