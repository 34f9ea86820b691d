"""What a run learns from changes in which epochs its learners work."""

from dataclasses import replace

from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.run.sources import in_phases, resting

DEBUG = PRESETS["debug"][1]


def rests(config):
    """The world model begins in epoch 3 and works in every second epoch from the fifth on."""
    own = replace(config.world_model.learner, first_epoch=3, rest_from=5, rest_every=2)
    return replaced(config, world_model={"learner": own})


def early(config):
    """The world model begins in epoch 3 and takes 9 steps in each epoch before the sixth."""
    own = replace(config.world_model.learner, first_epoch=3, early_until=6, early_steps=9)
    return replaced(config, world_model={"learner": own})


def test_with_a_frozen_tokenizer_early_epochs_come_earlier_too():
    found = resting(early(DEBUG), frozenset({"tokenizer"}))
    steps = DEBUG.world_model.learner.steps_per_epoch
    assert found.tokenizer.learner.steps_in(0) == 0
    assert [found.world_model.learner.steps_in(x) for x in range(5)] == [9, 9, 9, steps, steps]


def test_offline_every_epoch_of_a_learner_has_the_steps_of_the_plan():
    offline = {"tokenizer_epochs": 1, "world_model_epochs": 3, "world_model_steps": 5}
    found = in_phases(replaced(early(DEBUG), offline=offline))
    assert [found.world_model.learner.steps_in(epoch) for epoch in range(5)] == [0, 5, 5, 5, 0]


def test_with_a_frozen_tokenizer_a_learner_rests_as_much_earlier():
    found = resting(rests(DEBUG), frozenset({"tokenizer"})).world_model.learner
    assert [found.works_in(epoch) for epoch in range(6)] == [True, True, True, False, True, False]


def test_offline_no_learner_rests_in_its_phase():
    offline = {"tokenizer_epochs": 4, "world_model_epochs": 4, "world_model_steps": 5}
    found = in_phases(replaced(rests(DEBUG), offline=offline))
    assert [found.world_model.learner.steps_in(epoch) for epoch in range(4, 8)] == [5, 5, 5, 5]
