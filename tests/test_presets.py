"""Presets, and the suites that begin with them."""

from pathlib import Path

import pytest
import torch

from horizon_imagination.config_json import differences
from horizon_imagination.networks import build_networks
from horizon_imagination.presets import PRESETS
from horizon_imagination.run.sources import in_phases
from horizon_imagination.scale.suite import read_file, runs_of

ROOT = Path(__file__).parents[1]
PAPER, FAST = PRESETS["paper"][1], PRESETS["fast"][1]


def count_parameters(config) -> int:
    with torch.device("meta"):
        networks = build_networks(config, 18)
    return sum({id(p): p.numel() for n in networks for p in n.parameters()}.values())


def changed_fields() -> list[str]:
    return [line.split(":")[0] for line in differences(PAPER, FAST)]


def test_fast_is_small_enough_to_hand_around():
    assert count_parameters(FAST) < 40e6 < count_parameters(PAPER)


@pytest.mark.parametrize("field", changed_fields())
def test_every_change_of_fast_is_explained(field):
    assert f"`{field}`" in (ROOT / "docs" / "fast.md").read_text()


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks" / "suites").glob("*.toml")), ids=lambda path: path.stem
)
def test_suites_of_benchmarks_make_runs(path):
    suite = read_file(path)
    runs = runs_of(suite)
    assert suite.name == path.stem
    assert len(runs) == len(suite.worlds) * len(suite.settings) * len(suite.seeds)
    assert len({str(run.config) for run in runs}) == len(runs), "two runs of one config"


@pytest.mark.parametrize("name", ["demo", "small-catch", "small-reach", "fog", "small-fog"])
def test_small_presets_take_no_more_steps_on_stored_data_than_online(name):
    config = PRESETS[name][1]
    phases = in_phases(config)
    for part in ("tokenizer", "world_model", "controller"):
        online, offline = (
            sum(getattr(one, part).learner.steps_in(epoch) for epoch in range(one.training.epochs))
            for one in (config, phases)
        )
        assert 0 < offline <= online, part
