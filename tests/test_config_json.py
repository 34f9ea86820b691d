"""Configs survive JSON; unknown fields do not."""

import dataclasses

import pytest

from horizon_imagination.config import Config
from horizon_imagination.config_json import differences, from_json, to_json
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives(name):
    assert from_json(to_json(PRESETS[name][1])) == PRESETS[name][1]


def test_a_field_that_an_older_run_lacks_has_its_default():
    data = to_json(Config())
    del data["imagination"]["sampler"], data["seed"]
    assert from_json(data) == Config()


@pytest.mark.parametrize(
    "section,field,value,said",
    [
        ("imagination", "colour", 1, "config.imagination: unknown colour"),
        ("imagination", "budget", "many", "config.imagination.budget must be a whole number"),
        ("imagination", "sampler", "wild", "config.imagination.sampler must be one of"),
        ("imagination", "decay_horizon", 0.0, "decay_horizon must lie in"),
    ],
)
def test_what_does_not_fit_is_named(section, field, value, said):
    data = to_json(Config())
    data[section][field] = value
    with pytest.raises(UsageError, match=said):
        from_json(data)


def test_differences_are_named_by_their_flags():
    other = dataclasses.replace(Config(), seed=3)
    assert differences(Config(), other) == ["seed: 0 -> 3"]
