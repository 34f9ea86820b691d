"""Acting and learning concurrently: the same steps, learned from one epoch later, bit for bit."""

import random
from collections import defaultdict
from dataclasses import replace

import pytest
import torch
from interrupted import Asks, FailsOnce, StopError, assert_same, files, metrics, run

import horizon_imagination.run.trainer as trainer_module
from horizon_imagination.config import TrainingConfig
from horizon_imagination.data import Replay, Store
from horizon_imagination.errors import EnvFailure
from horizon_imagination.learn.ranks import Ranks
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.run import start
from horizon_imagination.run.callbacks import Callback
from horizon_imagination.run.signals import Paused
from horizon_imagination.run.start import Request
from horizon_imagination.run.trainer import Trainer
from horizon_imagination.snapshots import read_state, snapshots


def learner(section, config=DEBUG, **changes):
    """A section of a config with another learner."""
    return {"learner": replace(getattr(config, section).learner, **changes)}


QUICK = replaced(
    DEBUG,
    tokenizer=learner("tokenizer", steps_per_epoch=1),
    world_model=learner("world_model", steps_per_epoch=5, early_until=3, early_steps=7),
    # A policy that changes fast: what it does tells which weights it acts with.
    controller=learner("controller", steps_per_epoch=3, first_epoch=1, learning_rate=0.05),
    training={"epochs": 5, "snapshot_every": 3, "evaluation_episodes": 2},
)
CONFIG = replaced(
    QUICK,
    tokenizer=learner("tokenizer", QUICK, rest_from=1, rest_every=3),
    training={"examine_every": 3, "overlap": True},
)
"""The tokenizer works in the epochs 0, 1 and 4; the others learn from epoch 1 on."""
APART = replaced(CONFIG, training={"overlap": False})
LEARNERS = ("tokenizer", "world_model", "controller")
STAGES = [
    ("collect", "tokenizer"),
    ("collect", *LEARNERS, "evaluate"),
    ("together",),
    ("together", "evaluate"),
    ("collect", *LEARNERS),
]
"""Of every epoch."""
ENV_STEPS = [80, 100, 120, 140, 160]
"""Steps in the world after every epoch: 60 at first, and 20 in each."""


class Steps(Callback):
    """The steps of every stage of every epoch, those that are planned and those that are taken."""

    def __init__(self):
        self.plan, self.at = (), None
        self.announced, self.taken = defaultdict(dict), defaultdict(dict)

    def on_start(self, run):
        self.plan = run.plan

    def on_stage(self, epoch, name, steps):
        self.at = epoch, name
        self.announced[epoch][name], self.taken[epoch][name] = steps, 0

    def on_step(self, count=1):
        epoch, name = self.at
        self.taken[epoch][name] += count


@pytest.fixture(scope="module")
def seen():
    return Steps()


@pytest.fixture(scope="module")
def reference(tmp_path_factory, seen):
    return run(tmp_path_factory.mktemp("overlap") / "run", seen, config=CONFIG)


def test_an_epoch_in_which_the_tokenizer_works_has_its_stages_one_after_the_other(reference, seen):
    assert [tuple(seen.announced[epoch]) for epoch in range(5)] == STAGES


def test_the_plan_is_what_the_trainer_does(reference, seen):
    for epoch in range(5):
        planned = {x.name: x.steps_in(epoch) for x in seen.plan if x.steps_in(epoch)}
        if epoch == 0:
            planned["collect"] += CONFIG.training.initial_steps  # told apart from every epoch's
        assert planned == seen.announced[epoch] == seen.taken[epoch]


def test_every_epoch_takes_its_steps_in_the_world_and_no_others(reference):
    assert [line["env/steps"] for line in metrics(reference)] == ENV_STEPS
    assert Store.open(reference / "replay").num_steps == ENV_STEPS[-1]
    assert all("env/episodes" in line for line in metrics(reference))


def test_the_world_model_is_measured_in_the_epochs_that_are_due_and_in_the_last(reference):
    for name in ("world_model/action_gap", "world_model/real_reward", "fresh/reward"):
        assert [line["epoch"] for line in metrics(reference) if name in line] == [3, 4], name


@pytest.mark.parametrize(
    "every,due", [(1, range(7)), (2, (0, 2, 4, 6)), (3, (0, 3, 6)), (4, (0, 4, 6)), (0, (6,))]
)
def test_the_epochs_that_are_due(every, due):
    training = TrainingConfig(epochs=7, examine_every=every)
    assert [epoch for epoch in range(7) if training.examines(epoch)] == list(due)


def test_a_run_that_is_asked_to_stop_beside_its_learners_goes_on_bit_for_bit(reference, tmp_path):
    folder, dice = tmp_path / "run", random.Random(3)
    points = [("collect", 1), ("controller", 1), ("together", 2), ("together", 3)]
    points += [("evaluate", 3), ("collect", 4), ("world_model", 4)]
    for stage, epoch in points:
        asks = Asks(stage, epoch, dice)
        with pytest.raises(Paused):
            run(folder, asks, config=CONFIG, stop=asks.stop)
        state = read_state(snapshots(folder)[-1])
        assert (state.epoch, state.unfinished.stage) == (epoch, stage)
        assert (state.unfinished.visible is not None) == (stage == "together")
    assert_same(run(folder, config=CONFIG), reference)


class Kills(Callback):
    """The end, before an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch(self, epoch):
        if epoch == self.epoch:
            raise StopError


def test_a_run_that_is_killed_between_epochs_goes_on_bit_for_bit(reference, tmp_path):
    """Between two that overlap, and after one that must be repeated."""
    for epoch in (3, 4):
        with pytest.raises(StopError):
            run(tmp_path / "run", Kills(epoch), config=CONFIG)
        assert snapshots(tmp_path / "run")[-1].name == "epoch-000003"
    assert_same(run(tmp_path / "run", config=CONFIG), reference)


def test_a_world_that_fails_beside_the_learners_loses_no_step(reference, tmp_path, monkeypatch):
    """Before the first step of the learners, and between two of them."""
    make = trainer_module.make_env
    for left in (ENV_STEPS[1] + 2, 10):
        FailsOnce.left = left
        with monkeypatch.context() as patch, pytest.raises(EnvFailure):
            patch.setattr(trainer_module, "make_env", lambda *of: FailsOnce(make(*of)))
            run(tmp_path / "run", config=CONFIG)
        assert read_state(snapshots(tmp_path / "run")[-1]).unfinished.stage == "together"
    assert_same(run(tmp_path / "run", config=CONFIG), reference)


def test_no_learner_sees_a_step_in_the_epoch_that_takes_it_beside(tmp_path, monkeypatch):
    """And every step is measured before any learner has seen it, in every epoch."""
    drawn, began, measured, trainer = defaultdict(int), {}, [], None
    sample, fresh = Replay._sample_rows, trainer_module.fresh_metrics

    def spied(replay, *arguments, **named):
        found = sample(replay, *arguments, **named)
        epoch = trainer.progress.epoch
        drawn[epoch] = max(drawn[epoch], int(found[0].max()))
        return found

    def spied_fresh(agent, replay, steps, epoch):
        assert max(drawn.values()) < replay.store.num_frames - steps, epoch
        measured.append(epoch)
        return fresh(agent, replay, steps, epoch)

    class Begins(Callback):
        def on_epoch(self, epoch):
            began[epoch] = trainer.store.num_frames

    monkeypatch.setattr(Replay, "_sample_rows", spied)
    monkeypatch.setattr(trainer_module, "fresh_metrics", spied_fresh)
    trainer = Trainer(replaced(CONFIG, training={"examine_every": 1}), tmp_path, Begins())
    trainer.run()
    trainer.close()
    assert measured == [2, 3, 4]
    for epoch in range(5):
        overlaps = "together" in STAGES[epoch]
        assert (drawn[epoch] < began[epoch]) == overlaps, epoch
    assert drawn[3] >= began[2]


def test_where_nothing_rests_a_run_with_overlap_is_one_without(tmp_path):
    short = replaced(QUICK, training={"epochs": 3})
    both = replaced(short, training={"overlap": True}), short
    mine, theirs = (files(run(tmp_path / str(i), config=cfg)) for i, cfg in enumerate(both))
    del mine["dataset.json"], theirs["dataset.json"]  # it has the name of the run
    assert mine == theirs


def test_a_run_with_overlap_differs_where_the_tokenizer_rests(reference, tmp_path):
    """The comparisons can fail, and env steps are counted as without."""
    apart = run(tmp_path / "run", config=APART)
    mine, theirs = files(reference), files(apart)
    assert all(mine[name] != theirs[name] for name in ("weights.safetensors", "frames.u8"))
    assert [line["env/steps"] for line in metrics(apart)] == ENV_STEPS


def test_without_a_tokenizer_to_train_the_first_epoch_acts_before_it_learns(tmp_path):
    config = replaced(
        CONFIG,
        tokenizer=learner("tokenizer", steps_per_epoch=0),
        world_model=learner("world_model", first_epoch=0),
        controller=learner("controller", first_epoch=0),
        training={"epochs": 2, "evaluate_every": 0},
    )
    seen = Steps()
    run(tmp_path / "run", seen, config=config)
    expected = [("collect", "world_model", "controller"), ("together",)]
    assert [tuple(seen.announced[epoch]) for epoch in range(2)] == expected


def paused(folder, stage, epoch, config):
    asks = Asks(stage, epoch, random.Random(3))
    with pytest.raises(Paused):
        run(folder, asks, config=config, stop=asks.stop)


def test_a_run_that_goes_on_without_overlap_sees_all_its_steps(tmp_path):
    """As with more ranks than before."""
    paused(tmp_path, "together", 2, CONFIG)
    trainer = Trainer(APART, tmp_path)
    trainer.resume()
    assert trainer.replay.visible is not None
    trainer.run()
    trainer.close()
    assert trainer.replay.visible is None and trainer.progress.env_steps == ENV_STEPS[-1]


def test_a_run_that_goes_on_with_overlap_acts_with_the_policy_that_it_has(tmp_path):
    """In the middle of a collection."""
    paused(tmp_path, "collect", 2, APART)
    trainer = Trainer(CONFIG, tmp_path)
    trainer.resume()
    trainer.close()
    own, acting = trainer.agent.actor.state_dict(), trainer.collector.actor.state_dict()
    assert trainer.collector.actor is not trainer.agent.actor
    assert all(torch.equal(own[name], acting[name]) for name in own)


def test_where_nothing_can_overlap_a_warning_says_so(tmp_path, monkeypatch):
    config = replaced(DEBUG, training={"overlap": True})
    request = Request(preset="debug", config=config, folder=tmp_path)
    assert start._warnings(request, config) == []
    monkeypatch.setattr(start, "current_ranks", lambda: Ranks(rank=0, world=2))
    assert ["overlap" in line for line in start._warnings(request, config)] == [True]
