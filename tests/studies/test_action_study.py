"""The action study: exact where it says so, in agreement with thrown dice, and written whole."""

import csv
import json
import math
from itertools import pairwise

import pytest
import torch
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg

from horizon_imagination.cli import main
from horizon_imagination.stable_actions import change_probability, total_variation
from horizon_imagination.studies.actions import (
    ENTROPIES,
    SAMPLERS,
    ActionStudy,
    gaussian_paths,
    movements,
    orders,
    path_changes,
    policies,
    ratios,
)
from horizon_imagination.studies.actions_report import action_figure

SMALL = ActionStudy(sizes=(2, 4), pairs=60, path_pairs=40)
DICE = ActionStudy(sizes=(2, 4), pairs=60, path_pairs=40, monte_carlo=2000)


def test_all_orders_are_taken_where_there_are_no_more_than_asked_for():
    rng = torch.Generator().manual_seed(0)
    every = orders(3, 4, 200, rng)
    assert every.shape == (3, 24, 4) and len(torch.unique(every[0], dim=0)) == 24
    drawn = orders(3, 8, 200, rng)
    assert drawn.shape == (3, 200, 8) and (drawn.sort(-1).values == torch.arange(8)).all()
    assert not torch.equal(drawn[0], drawn[1]), "each pair has its own"


def test_policies_have_the_entropy_their_names_promise():
    entropy = {}
    for name, concentration in ENTROPIES.items():
        probs = policies(2000, 10, concentration, seed=0)
        torch.testing.assert_close(probs.sum(1), torch.ones(2000, dtype=torch.float64))
        entropy[name] = -torch.xlogy(probs, probs).sum(1).mean()
    assert entropy["low"] < entropy["uniform"] < entropy["high"] < math.log(10)


def test_two_actions_reach_the_bound_and_more_do_not():
    two, four = ratios(SMALL, 2), ratios(SMALL, 4)
    torch.testing.assert_close(two.values, torch.ones(60, dtype=torch.float64))
    assert (four.values >= 1 - 1e-9).all() and four.mean > 1.1
    assert two.standard_error == four.standard_error == 0, "all orders: nothing is sampled"


def test_the_ratio_of_a_pair_is_the_mean_over_orders_in_units_of_the_total_variation():
    p, q = policies(120, 4, 1.0, SMALL.seed).split(60)
    every = orders(1, 4, 24, torch.Generator())[0]
    by_hand = torch.stack([change_probability(p, q, order.expand(60, -1)) for order in every]).mean(
        0
    )
    torch.testing.assert_close(ratios(SMALL, 4).values, by_hand / total_variation(p, q))


def test_a_path_moves_for_seven_steps_and_then_stays():
    """Coupled: the pieces of a straight path add up to the distance of its ends."""
    ends = policies(80, 10, ENTROPIES["low"], SMALL.seed)
    distance = total_variation(*ends.split(40))
    torch.testing.assert_close(path_changes(SMALL, "low", "coupled").values, distance)


def test_naive_changes_of_a_pair_by_a_plain_loop():
    source, target = (x[0] for x in policies(80, 10, 1.0, SMALL.seed).split(40))
    path = [source + min(1, i / 7) * (target - source) for i in range(16)]
    expected = sum(1 - float((p * q).sum()) for p, q in pairwise(path))
    got = path_changes(SMALL, "uniform", "naive").values[0].item()
    assert got == pytest.approx(expected)


@pytest.mark.parametrize("num_actions", [4, 16])
def test_thrown_dice_agree_with_integration_on_the_change_of_a_pair(num_actions):
    exact, thrown = ratios(SMALL, num_actions), ratios(DICE, num_actions)
    error = math.hypot(exact.standard_error, thrown.standard_error)
    assert 0 < thrown.standard_error < 0.02
    assert abs(exact.mean - thrown.mean) < 4 * error


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("entropy", ENTROPIES)
def test_thrown_dice_agree_with_integration_along_a_path(entropy, sampler):
    exact, thrown = path_changes(SMALL, entropy, sampler), path_changes(DICE, entropy, sampler)
    error = math.hypot(exact.standard_error, thrown.standard_error)
    assert abs(exact.mean - thrown.mean) < 4 * error


def test_the_command_writes_everything_and_ends_with_json(capsys, tmp_path):
    assert main(["study", "actions", "--smoke", "--out", str(tmp_path), "--json"]) == 0
    said = capsys.readouterr().out
    found = json.loads(said.splitlines()[-1])
    assert list(found["ratio"]) == ["2", "4", "8"]
    assert list(found["changes"]) == ["low", "uniform", "high"]
    for entropy in found["changes"].values():
        assert list(entropy) == ["stable", "coupled", "naive"]
        assert entropy["coupled"] < entropy["stable"] < entropy["naive"]
    header, *records = map(json.loads, (tmp_path / "actions.jsonl").read_text().splitlines())
    assert header["settings"]["pairs"] == 100 and len(records) == 3 + 9 + 12
    rows = list(csv.DictReader((tmp_path / "actions.csv").open()))
    assert float(rows[1]["mean"]) == pytest.approx(found["ratio"]["4"], abs=1e-6)
    assert float(rows[1]["mean"]) == pytest.approx(sum(records[1]["values"]) / 100, abs=1e-5)
    for measure in ("squared_movement", "length"):
        for moved in found[measure].values():
            assert 2 * moved["stable"] < moved["naive"]
    text = (tmp_path / "actions.txt").read_text()
    assert text.strip() in said
    for words in (
        "very close",
        "at most one",
        "changes in most steps",
        "high-entropy",
        "fixed noise",
    ):
        assert words in text
    assert (tmp_path / "actions.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "actions.svg").read_text()
    assert len(list(tmp_path.iterdir())) == 5, "no drafts are left"


def test_the_same_seed_gives_the_same_numbers():
    study = ActionStudy(sizes=(8,), pairs=20, seed=3)
    assert torch.equal(ratios(study, 8).values, ratios(study, 8).values)
    assert not torch.equal(ratios(ActionStudy(pairs=20), 8).values, ratios(study, 8).values)


def test_the_exact_movement_of_a_gaussian_path_agrees_with_sampled_noise():
    study = ActionStudy(path_pairs=5, seed=1)
    path = gaussian_paths(5, 2, 1)
    noise = torch.randn(16, 20_000, 1, 2, generator=torch.Generator().manual_seed(0)).double()
    for sampler, drawn in (("stable", noise[:1].expand_as(noise)), ("naive", noise)):
        squared, _ = movements(study, 2, sampler)
        actions = path.mean[:, None] + path.std[:, None] * drawn
        sampled = (actions[1:] - actions[:-1]).square().sum(-1).mean(1).sum(0)
        torch.testing.assert_close(sampled, squared.values, rtol=0.05, atol=0.01)


def test_a_gaussian_path_moves_for_seven_steps_and_then_stays():
    path = gaussian_paths(3, 2, 0)
    assert path.mean.shape == path.std.shape == (16, 3, 2)
    assert not torch.equal(path.mean[6], path.mean[7])
    assert torch.equal(path.std[7:], path.std[7].expand(9, 3, 2))
    assert float(path.std.min()) >= 0.1


def test_no_title_of_the_figure_is_cut():
    found = [ratios(SMALL, 2), ratios(SMALL, 4)]
    found += [path_changes(SMALL, name, way) for name in ENTROPIES for way in SAMPLERS]
    with rc_context({"font.size": 10, "axes.titlesize": 12}):
        figure = action_figure(found)
        FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        box = axes.title.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height
