"""A page of a world model in Chromium, beside the same computation in torch."""

import json
import os
from pathlib import Path

import pytest
import torch
from chromium import find
from einops import rearrange

from horizon_imagination.actions import Box, Discrete, MultiDiscrete
from horizon_imagination.flow import uniform_noise
from horizon_imagination.imagination import Context, imagine, stable_actor
from horizon_imagination.schedules import autoregressive_schedule
from horizon_imagination.stable_actions import Dice
from horizon_imagination.types import NO_ACTION, NO_VECTOR

PICTURES = Path(os.environ.get("HORIZON_PICTURES", "build/pages")).resolve()
"""Where screenshots are kept, to be looked at."""
BROWSER = [
    pytest.mark.alone,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find() is None, reason="NO CHROMIUM HERE: the dream is not tested"),
]
STEP = "document.querySelector('#step-note').textContent"
PLAYED = "globalThis.horizon && document.querySelector('#loading').hidden"


def opened(page, folder, query="seed=3", seconds=120):
    """Open the page as a file, without a network, and wait until it can be played."""
    page.call("Network.enable")
    none = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.call("Network.emulateNetworkConditions", offline=True, **none)
    page.open(f"{(folder / 'index.html').as_uri()}?{query}")
    page.wait("document.querySelector('#toast')", 60)
    page.wait(f"{PLAYED} || !document.querySelector('#toast').hidden", seconds)
    assert page.get("document.querySelector('#toast').textContent") == ""


def complaints(page):
    """What the page complained of; a browser without a GPU says so itself."""
    return [text for text in page.complaints if not text.startswith("No available adapters")]


def mark(function):
    """Only in a browser."""
    for one in BROWSER:
        function = one(function)
    return function


def frames_of(z):
    """Latents of one episode as the page takes them."""
    return rearrange(z[0], "t c h w -> t (c h w)").tolist()


def none_of(space):
    """The action that led to the first frame of an episode: none."""
    absent = torch.tensor(NO_VECTOR if isinstance(space, Box) else NO_ACTION)
    return absent.expand(1, 1, *space.shape)


def dice_of(space, dice):
    """The dice of one episode as the page takes them."""
    omega, order = dice.omega[0].tolist(), dice.order[0].tolist()
    if isinstance(space, Box):
        return omega
    if isinstance(space, Discrete):
        return [{"omega": o, "order": n} for o, n in zip(omega, order, strict=True)]
    assert isinstance(space, MultiDiscrete)
    each = space._dice(Dice(dice.omega[0], dice.order[0]))
    columns = [dice_of(Discrete(2), Dice(*(x[None] for x in one))) for one in each]
    return [list(row) for row in zip(*columns, strict=True)]


@torch.no_grad()
def imagined_by_torch(agent, z, noise, dice):
    """The plain loop, from one frame."""
    space, (outputs, states) = agent.action_space, agent.actor(z)
    policy, state = space.policy(outputs[:, -1]), states.at(-1)
    first = space.stable(policy, Dice(dice.omega[:, 0], dice.order[:, 0]))
    actor = stable_actor(
        lambda seen, tau: agent.actor.policy(seen, tau, state),
        Dice(dice.omega[:, 1:], dice.order[:, 1:]),
        space.stable,
    )
    context = Context(z, none_of(space))
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
    found, led = z, none_of(agent.action_space)
    for t, action in enumerate(actions):
        one = imagine(
            agent.imagination_denoiser,
            lambda *_: None,  # type: ignore[arg-type, return-value]
            noise[:, t : t + 1],
            autoregressive_schedule(1, 2),
            context=Context(found, led),
            first_action=action[None],
        )
        found = torch.cat([found, one.z[-1]], dim=1)
        led = torch.cat([led, action[None, None]], dim=1)
    return found[:, 1:]


COMPARE = """(async (given) => {
  const { model, imagine, nextFrame, horizonSchedule, about } = horizon, { space } = model;
  const latents = (frames) => frames.map((z) => Float32Array.from(z));
  const [z] = latents(given.z);
  const seen = await model.act(z, 1, model.start().actor);
  const first = { action: space.stable(seen.policy, given.dice[0]), policy: seen.policy };
  const schedule = horizonSchedule(about.horizon, about.budget, about.decay_horizon);
  const rows = [], steps = [], noise = latents(given.noise);
  const context = { frames: [z], actions: [space.none] };
  for await (const row of imagine(model, {
    frames: noise, schedule, context, first, state: seen.state, dice: given.dice,
  })) rows.push({ z: row.frames.map((f) => [...f]), actions: row.actions });
  const before = { frames: [z], actions: [space.none] };
  for (const [t, action] of given.actions.entries()) {
    const next = await nextFrame(model, { z: noise[t], context: before, action, steps: 2 });
    before.frames.push(next);
    before.actions.push(action);
    steps.push([...next]);
  }
  return { rows, schedule, steps };
})(%s)"""


def check_same_as_torch(page, agent, steps):
    """A whole horizon and frames one by one: the page has torch's latents to 1e-3, and actions."""
    rng = torch.Generator().manual_seed(7)
    space, horizon = agent.action_space, agent.config.imagination.horizon
    size = agent.config.env.size
    frame = torch.randint(256, (1, 1, 3, size, size), generator=rng, dtype=torch.uint8)
    z = agent.tokenizer.encode(frame)
    noise = uniform_noise(1, horizon, *agent.latent_shape, rng=rng)
    dice, actions = space.roll(1, horizon, rng=rng), space.random(steps, rng=rng)
    given = {"z": frames_of(z), "noise": frames_of(noise), "actions": actions.tolist()}
    said = page.get(COMPARE % json.dumps(given | {"dice": dice_of(space, dice)}))
    assert torch.equal(torch.tensor(said["schedule"]), agent.schedule)
    ours = imagined_by_torch(agent, z, noise, dice)
    theirs = torch.tensor([row["z"] for row in said["rows"]])
    assert (theirs - rearrange(ours.z[:, 0], "r t c h w -> r t (c h w)")).abs().max() < 1e-3
    done = torch.tensor([row["actions"] for row in said["rows"]])
    assert (done - ours.actions[:, 0]).abs().max() < (1e-3 if isinstance(space, Box) else 0.5)
    assert len(done.flatten(0, 1).unique(dim=0)) > 1
    stepped = torch.tensor(frames_of(stepped_by_torch(agent, z, noise, actions)))
    assert (torch.tensor(said["steps"]) - stepped).abs().max() < 1e-3
    others = torch.tensor(frames_of(stepped_by_torch(agent, z, noise, space.another(actions, rng))))
    assert (others - stepped).abs().max() > 1e-2  # the actions matter
