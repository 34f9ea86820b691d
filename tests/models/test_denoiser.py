"""The denoiser: nothing sees the future or padding, and the cache changes nothing."""

import pytest
import torch

from horizon_imagination.models.denoiser import Denoiser
from horizon_imagination.models.layers import time_features
from horizon_imagination.types import NO_ACTION

BATCH, FRAMES, CHANNELS, SIZE, ACTIONS = 2, 5, 2, 4, 3


def make(prediction="velocity", action_tokens=False, normalize=False, open_gates=True):
    torch.manual_seed(0)
    net = Denoiser(
        channels=CHANNELS, size=SIZE, action_space=ACTIONS, layers=2, heads=2, head_dim=12,
        patch_size=2, mlp_ratio=2, prediction=prediction, action_tokens=action_tokens,
        normalize=normalize,
    )  # fmt: skip
    for name, p in net.named_parameters():
        if open_gates and "modulate" in name:  # closed gates would hide everything
            torch.nn.init.normal_(p, std=0.5)
    return net


def inputs(frames=FRAMES, seed=1):
    rng = torch.Generator().manual_seed(seed)
    z = torch.rand(BATCH, frames, CHANNELS, SIZE, SIZE, generator=rng) * 2 - 1
    tau = torch.rand(BATCH, frames, generator=rng)
    actions = torch.randint(ACTIONS, (BATCH, frames), generator=rng)
    actions[:, 0] = NO_ACTION
    return z, tau, actions


def run(net, z, tau, actions, **kwargs):
    options = {"cache": None, "start": 0} | kwargs
    with torch.no_grad():
        return net.window(z, tau, actions, **options)


def frames_that_see(net, frame, real=None):
    """Which output frames change with an input frame, by the Jacobian."""
    z, tau, actions = inputs()
    z.requires_grad_()
    v = net.window(z, tau, actions, cache=None, start=0, real=real)
    seen = []
    for t in range(FRAMES):
        (grad,) = torch.autograd.grad(v[0, t].square().sum(), z, retain_graph=True)
        seen.append(bool(grad[0, frame].abs().sum() > 0))
    return seen


@pytest.mark.parametrize("frame", range(FRAMES))
def test_no_frame_sees_the_future(frame):
    assert frames_that_see(make(), frame) == [t >= frame for t in range(FRAMES)]


def test_padded_frames_are_unseen():
    real = torch.tensor([[False, False, True, True, True]]).expand(BATCH, -1)
    assert frames_that_see(make(), 0, real) == [True, False, False, False, False]
    assert frames_that_see(make(), 1, real) == [False, True, False, False, False]
    assert frames_that_see(make(), 2, real) == [False, False, True, True, True]


@pytest.mark.parametrize("action_tokens", [False, True])
@pytest.mark.parametrize("frame", [1, 3])
def test_a_previous_action_reaches_its_own_and_later_frames_only(frame, action_tokens):
    net, (z, tau, actions) = make(action_tokens=action_tokens), inputs()
    other = actions.clone()
    other[:, frame] = (actions[:, frame] + 1) % ACTIONS
    change = (run(net, z, tau, actions) - run(net, z, tau, other)).abs().amax((0, 2, 3, 4))
    assert (change[:frame] == 0).all() and (change[frame:] > 1e-4).all()


def test_no_action_has_an_embedding_of_its_own():
    net, (z, tau, actions) = make(), inputs()
    net(z, tau, actions).square().sum().backward()
    assert net.action.weight.grad is not None and net.action.weight.grad[-1].any(), "learned"
    none = run(net, z, tau, actions)
    for action in range(ACTIONS):
        other = actions.clone()
        other[:, 0] = action
        assert (run(net, z, tau, other) - none).abs().max() > 1e-4


def test_an_action_weighs_as_much_as_a_time_in_what_a_frame_is_told():
    # Times are sinusoids: their features have mean square 1/2, and so a norm of sqrt(dim / 2).
    torch.manual_seed(0)
    net = Denoiser(
        channels=CHANNELS, size=SIZE, action_space=64, layers=1, heads=8, head_dim=64,
        patch_size=2, mlp_ratio=1, prediction="velocity", action_tokens=False, normalize=False,
    )  # fmt: skip
    time = time_features(torch.rand(64), 512)
    assert time.norm(dim=1).mean().item() == pytest.approx(16, rel=1e-3)
    assert net.action.weight.norm(dim=1).mean().item() == pytest.approx(16, rel=0.02)


def test_a_time_reaches_its_own_and_later_frames_only():
    net, (z, tau, actions) = make(), inputs()
    other = tau.clone()
    other[:, 2] = 1 - tau[:, 2]
    change = (run(net, z, tau, actions) - run(net, z, other, actions)).abs().amax((0, 2, 3, 4))
    assert (change[:2] == 0).all() and (change[2:] > 1e-4).all()


@pytest.mark.parametrize("cuts", [(1,), (2,), (4,), (1, 2, 4), (1, 2, 3, 4)])
@pytest.mark.parametrize("padding", [0, 1, 3])
def test_frames_over_a_cache_equal_the_whole_sequence(cuts, padding):
    net, (z, tau, actions) = make().double(), inputs()
    z, tau, real = z.double(), tau.double(), None
    if padding:
        real = torch.ones(BATCH, FRAMES, dtype=torch.bool)
        real[0, :padding] = False
    whole = run(net, z, tau, actions, real=real)
    cache, parts = net.cache(FRAMES), []
    for start, stop in zip((0, *cuts), (*cuts, FRAMES), strict=True):
        window = z[:, start:stop], tau[:, start:stop], actions[:, start:stop]
        seen = None if real is None else real[:, :stop]
        parts.append(run(net, *window, cache=cache, start=start, real=seen))
    shown = torch.ones(BATCH, FRAMES, dtype=torch.bool) if real is None else real
    difference = (torch.cat(parts, dim=1) - whole)[shown]
    assert difference.abs().max() < 1e-12


def test_unsettled_frames_leave_no_trace_in_the_cache():
    net, (z, tau, actions) = make(), inputs()
    cache = net.cache(FRAMES)
    run(net, z[:, :4], tau[:, :4], actions[:, :4], cache=cache, start=0)
    cleaner, later = z.clone(), tau.clone()
    cleaner[:, 2:4] += 0.3
    later[:, 2:4] = 1
    again = cleaner[:, 2:], later[:, 2:], actions[:, 2:]
    part = run(net, *again, cache=cache, start=2)
    whole = run(net, cleaner, later, actions)
    torch.testing.assert_close(part, whole[:, 2:], atol=1e-5, rtol=1e-5)


def test_closed_gates_start_as_a_function_of_the_own_frame_alone():
    z, tau, actions = inputs()
    net = make(open_gates=False)
    later = actions.clone()
    later[:, 2] = (actions[:, 2] + 1) % ACTIONS
    assert torch.equal(run(net, z, tau, actions), run(net, z, 1 - tau, later))


def test_a_clean_prediction_becomes_the_velocity_that_leads_there():
    net, (z, tau, actions) = make(prediction="clean", normalize=True), inputs()
    assert net.statistics is not None
    net.statistics.update(torch.rand(BATCH, FRAMES, CHANNELS, SIZE, SIZE), tau > -1)
    v = run(net, z, tau, actions)
    landed = z + (1 - tau)[..., None, None, None] * v
    net.prediction, statistics, net.statistics = "velocity", net.statistics, None
    raw = run(net, statistics.normalize(z, tau), tau, actions)
    expected = raw * statistics.scale + statistics.mean
    torch.testing.assert_close(landed, expected, atol=1e-4, rtol=1e-4)


def test_padded_positions_do_not_matter_only_distances_do():
    """A short context behind padding says what it says alone."""
    net, (z, tau, actions) = make(), inputs()
    alone = run(net, z[:, 2:], tau[:, 2:], actions[:, 2:])
    real = torch.tensor([[False, False, True, True, True]]).expand(BATCH, -1)
    padded = run(net, z, tau, actions, real=real)[:, 2:]
    torch.testing.assert_close(padded, alone, atol=1e-5, rtol=1e-5)
