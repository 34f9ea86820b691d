"""World model and controller in one stage: each learns what it would have learned alone."""

from dataclasses import replace

import pytest
import torch
from numbered_world import ACTIONS, config, learner, learners

from horizon_imagination.agent import Agent
from horizon_imagination.config import TrainingConfig
from horizon_imagination.learn.batches import RandomBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.presets import replaced
from horizon_imagination.run.epoch import Epoch
from horizon_imagination.streams import Streams

STEPS = 4


def overlapping(world_model=1, controller=1, **tokenizer):
    """A config with so many steps of both in an epoch."""
    cfg = config(training=TrainingConfig(overlap=True))
    changes = {
        "tokenizer": learner(**tokenizer),
        "world_model": learner(steps_per_epoch=world_model),
        "controller": learner(steps_per_epoch=controller),
    }
    return replace(
        cfg, **{name: replace(getattr(cfg, name), learner=own) for name, own in changes.items()}
    )


def made(folder, world_model=1, controller=1):
    """The agent and both learners as one, the same weights every time."""
    torch.manual_seed(0)
    agent, found = learners(folder, overlapping(world_model, controller))
    assert found.together is not None
    return agent, found.together


@pytest.mark.parametrize("both", [(4, 4), (8, 4), (3, 4), (5, 2)], ids=str)
def test_both_take_the_steps_of_an_epoch_spread_over_the_stage(tmp_path, both):
    together = made(tmp_path, *both)[1]
    for stage in (0, 1):
        together.begin(1, 0)
        for done in range(1, both[1] + 1):
            together.step()
            shares = both[0] * done // both[1], done
            taken = together.world_model.steps, together.controller.steps
            assert taken == tuple(stage * all_ + x for all_, x in zip(both, shares, strict=True))
    assert together.steps == 2 * both[1]


def test_each_takes_the_steps_of_an_early_epoch_in_one(tmp_path):
    cfg = overlapping(2, 3)
    more = replace(cfg.world_model.learner, early_until=2, early_steps=7)
    torch.manual_seed(0)
    together = learners(tmp_path, replaced(cfg, world_model={"learner": more}))[1].together
    taken = []
    for epoch in (1, 2):
        together.begin(epoch, 0)
        for _ in range(together.steps_in(epoch)):
            together.step()
        taken.append((together.world_model.steps, together.controller.steps))
    assert taken == [(7, 3), (9, 6)]


@pytest.mark.parametrize("both", [(3, 4), (5, 2)], ids=str)
def test_a_stage_that_was_interrupted_goes_on_with_the_steps_that_are_left(tmp_path, both):
    together = made(tmp_path, *both)[1]
    for done in range(both[1]):
        together.begin(1, done)
        together.step()
    assert (together.world_model.steps, together.controller.steps) == both


@pytest.mark.parametrize("both", [(3, 4), (5, 2)], ids=str)
def test_figures_are_means_over_the_steps_of_their_own_learner(tmp_path, both):
    together, epoch, own = made(tmp_path, *both)[1], Epoch(), {}
    for one in (together.world_model, together.controller):
        one.step = noted(one.step, own.setdefault(one.name, []))
    together.begin(1, 0)
    for _ in range(both[1]):
        epoch.add(together.step())
    for count, (name, steps) in zip(both, own.items(), strict=True):
        assert len(steps) == count
        for key in steps[0]:
            expected = torch.stack([step[key].float() for step in steps]).mean()
            assert key.startswith(f"{name}/")
            torch.testing.assert_close(epoch.sums[key] / both[1], expected, msg=key)
    assert len(epoch.sums) == sum(len(steps[0]) for steps in own.values())


def noted(step, steps):
    def run():
        steps.append(step())
        return steps[-1]

    return run


def apart(one, loops):
    """Give a learner the same batches whatever others draw."""
    batches = [one.sample(8) for _ in range(loops)]
    left = iter(batches)
    one.sample = lambda count: next(left)


def controller_after(folder, world_model, between=lambda copies: None):
    """Weights of actor and critic after a stage with so many steps of the world model."""
    agent, together = made(folder, world_model, STEPS)
    apart(together.controller, STEPS)
    together.begin(1, 0)
    for _ in range(STEPS):
        between(together.copies)
        together.step()
    assert together.world_model.steps == world_model
    networks = agent.networks()
    return [x.detach().clone() for name in ("actor", "critic") for x in networks[name].parameters()]


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_controller_learns_the_same_whatever_the_world_model_learns_beside_it(tmp_path):
    found = [controller_after(tmp_path / str(each), each) for each in (0, 4, 9)]
    assert equal(found[0], found[1]) and equal(found[0], found[2])


def test_copies_that_follow_within_a_stage_would_be_noticed(tmp_path):
    """The planted bug: refreshed at every step."""
    refresh = [controller_after(tmp_path / str(n), n, lambda x: x.refresh()) for n in (0, 9)]
    assert not equal(*refresh)
    assert equal(refresh[0], controller_after(tmp_path / "none", 0))


def test_the_world_model_learns_what_it_learns_alone(tmp_path):
    agents = []
    for name in ("together", "alone"):
        agent, together = made(tmp_path / name, STEPS, STEPS)
        apart(together.world_model, STEPS)
        together.begin(1, 0)
        for _ in range(STEPS):
            together.step() if name == "together" else together.world_model.step()
        agents.append(agent)
    found = [list(a.denoiser.parameters()) + list(a.reward.parameters()) for a in agents]
    assert equal(*found)
    assert not equal(*(list(a.actor.parameters()) for a in agents))


def test_a_new_stage_imagines_in_what_the_world_model_has_learned(tmp_path):
    agent, together = made(tmp_path)
    for stage in range(2):
        together.begin(1, 0)
        copied, own = together.copies.state(), agent.reward.state_dict()
        assert all(torch.equal(copied[f"reward.{name}"], own[name]) for name in own), stage
        together.step()
        assert any(not torch.equal(copied[f"reward.{name}"], own[name]) for name in own), stage


def test_learners_overlap_while_the_tokenizer_rests_and_not_in_the_first_epoch(tmp_path):
    cfg = overlapping(rest_from=1, rest_every=4, first_epoch=1)
    found = learners(tmp_path / "resting", cfg)[1]
    assert [found.overlaps(epoch) for epoch in range(6)] == [False, False, True, True, True, False]
    names = [[one.name for one in found.active(epoch)] for epoch in range(3)]
    both = ["world_model", "controller"]
    assert names == [both, ["tokenizer", *both], ["together"]]
    assert not any(map(learners(tmp_path / "never")[1].overlaps, range(6)))


def test_several_ranks_learn_one_after_the_other(tmp_path):
    cfg = overlapping()
    agent = Agent(cfg, ACTIONS, torch.device("cpu"))
    batches = RandomBatches(agent, torch.Generator().manual_seed(0))
    given = agent, batches, Streams(0, agent.device), Guard(tmp_path, every=1)
    assert make_learners(*given).together is not None
    assert make_learners(*given, ranks=Ranks(0, 2)).together is None
