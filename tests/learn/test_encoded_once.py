"""Actor and critic that share their encoder read the same features, with the same numbers."""

from dataclasses import fields, replace

import pytest
import torch
from numbered_world import config, learner, learners

from horizon_imagination.learn.controller import ControllerLoss, Features
from horizon_imagination.learn.learner import sum_terms

CONTEXT, HORIZON = 5, 6


class EncodedTwice(ControllerLoss):
    """Actor and critic encode for themselves."""

    def encode(self, start, acted, paid):
        seen = torch.cat([start.z, paid.z[-1]], dim=1)
        tau = seen.new_ones(seen.shape[:2])
        own = self.actor.encoder(seen[:, :-1], tau[:, :-1])
        return Features(own, self.critic.encoder(seen, tau))


def encoded_twice(loss):
    return EncodedTwice(**{part.name: getattr(loss, part.name) for part in fields(loss)})


def made(folder, shared, **changes):
    """Actor, critic and learners; there are noisy entries, and contexts of unequal length."""
    cfg = config()
    cfg = replace(cfg, controller=replace(cfg.controller, shared_encoder=shared, **changes))
    torch.manual_seed(0)
    agent, found = learners(folder, cfg)
    assert found.controller_loss.plan.frames
    return (agent.actor, agent.critic), found


def parameters(networks):
    return list(dict.fromkeys(p for network in networks for p in network.parameters()))


@pytest.mark.parametrize(
    "changes",
    [{"use_tau": True}, {"use_tau": False}, {"smooth_tau": True}, {"center_features": True}],
    ids=str,
)
@pytest.mark.parametrize("shared", [True, False])
def test_no_loss_no_figure_and_no_gradient_changes(shared, changes, tmp_path, monkeypatch):
    networks, found = made(tmp_path, shared, **changes)
    loss, start = found.controller_loss, found.controller.sample(8)
    assert not start.mask.all()
    for network in networks:
        torch.nn.init.normal_(network.head.weight, std=1.0)
        network.encoder.follow(start.z, start.mask)
    imagined = loss.imagine(start)
    outcome = loss.judge(start, imagined)
    for network in networks:
        monkeypatch.setattr(network.double().encoder, "follow", lambda *_: None)
    results = []
    for one in (loss, encoded_twice(loss)):
        one.imagine = lambda _: replace(imagined, z=imagined.z.double())
        one.judge = lambda *_: outcome
        one.return_scale = torch.tensor(torch.nan)
        terms, metrics = one(start._replace(z=start.z.double()))
        gradients = torch.autograd.grad(sum_terms(terms), parameters(networks))
        totals = {name: (term.total, term.count) for name, term in terms.items()}
        results.append((totals, metrics, gradients))
    torch.testing.assert_close(*results, atol=1e-6, rtol=1e-6)  # centring is in float32
    assert max(gradient.abs().max() for gradient in results[0][2]) > 1e-2


@pytest.mark.parametrize("half,rounding", [(False, 1e-6), (True, 1e-3)])
def test_a_step_in_pieces_has_the_same_gradients(half, rounding, tmp_path):
    results = []
    for twice in (False, True):
        networks, found = made(tmp_path / str(twice), True, learner=learner(micro_batches=2))
        one = found.controller
        one.precision = lambda: torch.autocast("cpu", dtype=torch.bfloat16, enabled=half)
        if twice:
            one.loss = encoded_twice(found.controller_loss)
        one.step()
        results.append([p.grad for p in parameters(networks)])
    torch.testing.assert_close(*results, atol=rounding, rtol=10 * rounding)


@pytest.mark.parametrize("shared", [True, False])
def test_a_shared_encoder_learns_from_every_clean_frame_once(shared, tmp_path):
    (actor, critic), found = made(tmp_path, shared)
    loss, start, seen = found.controller_loss, found.controller.sample(1), {}

    def count(encoder, _, out):
        if out.requires_grad:
            seen[encoder] = seen.get(encoder, 0) + out.shape[:2].numel()

    for encoder in {actor.encoder, critic.encoder}:
        encoder.register_forward_hook(count)
    loss(start)
    clean, noisy = CONTEXT + HORIZON, len(loss.plan.frames)
    if shared:
        assert seen == {actor.encoder: clean + noisy}
    else:
        assert seen == {actor.encoder: clean - 1 + noisy, critic.encoder: clean}
