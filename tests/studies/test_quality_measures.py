"""Measures and claims of the quality study: planted degradations, planted results."""

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from quality_setting import CPU, random_network, record

from horizon_imagination.data import Store
from horizon_imagination.metrics.frechet import frechet_distance
from horizon_imagination.metrics.i3d import MIN_FRAMES
from horizon_imagination.pretrained.cache import is_installed
from horizon_imagination.studies.quality import results as judging
from horizon_imagination.studies.quality.grid import GridPoint
from horizon_imagination.studies.quality.laboratory import (
    BEST_PSNR,
    closeness,
    find_lpips,
    i3d_extractor,
    watchable,
)
from horizon_imagination.studies.quality.results import ResampledEstimate, Results, claims, mean_of

NETWORKS = [
    "random",
    pytest.param(
        "i3d",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(not is_installed("i3d"), reason="needs: horizon weights get i3d"),
        ],
    ),
]


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Whole episodes of catch, eight frames each."""
    store = Store.open(record(tmp_path_factory.mktemp("measures") / "catch", episodes=16))
    index = np.array(store.starts)[:, None] + np.arange(8)
    return torch.from_numpy(store.frames[index])


def noisy(videos, amount):
    rng = torch.Generator().manual_seed(0)
    noise = torch.randn(videos.shape, generator=rng) * 255 * amount
    return (videos + noise).clamp(0, 255).round().byte()


def blurred(videos, width):
    flat = videos.flatten(0, 1).float()
    padded = F.pad(flat, [width // 2] * 4, mode="replicate")
    return F.avg_pool2d(padded, width, stride=1).round().byte().view(videos.shape)


def shuffled(videos):
    order = torch.randperm(videos.shape[1], generator=torch.Generator().manual_seed(1))
    return videos[:, order]


def frozen(videos):
    return videos[:, :1].expand_as(videos).contiguous()


@pytest.mark.parametrize("network", NETWORKS)
def test_planted_degradations_are_ordered_as_they_must_be(network, videos):
    slow = network == "i3d"
    features = i3d_extractor(None, CPU, 8).features if slow else random_network
    videos = videos[:8] if slow else videos
    real = features(videos)
    planted = {
        "some noise": noisy(videos, 0.02),
        "noise": noisy(videos, 0.1),
        "blur": blurred(videos, 3),
        "shuffled": shuffled(videos),
        "frozen": frozen(videos),
    }
    distance = {name: frechet_distance(features(x), real) for name, x in planted.items()}
    assert frechet_distance(real, real) < 1e-6 < min(distance.values())
    assert distance["some noise"] < distance["noise"]
    # Frames that are real ones, in a wrong order or standing still, are closer than spoilt ones.
    spoilt = distance["noise"]
    if slow:
        spoilt = min(spoilt, distance["blur"])
    else:  # on flat squares I3D finds a wide blur less strange than a narrow one
        assert distance["blur"] < frechet_distance(features(blurred(videos, 9)), real)
    assert max(distance["shuffled"], distance["frozen"]) < spoilt, distance


def test_errors_of_planted_degradations_are_ordered_as_they_must_be(videos):
    def close(changed):
        return closeness(changed, videos, device=CPU)

    ladder = [close(noisy(videos, amount)) for amount in (0.02, 0.1, 0.3)]
    for better, worse in pairwise(ladder):
        assert better.mse.mean() < worse.mse.mean()
        assert better.psnr > worse.psnr and better.ssim > worse.ssim
    assert close(blurred(videos, 3)).mse.mean() < close(blurred(videos, 9)).mse.mean()
    assert close(blurred(videos, 3)).ssim > close(blurred(videos, 9)).ssim
    held = close(frozen(videos))
    assert held.mse[:, 0].max() == 0 < held.mse[:, 1:].min()
    assert close(shuffled(videos)).mse.mean() > 0


def test_equal_videos_are_as_close_as_can_be(videos):
    same = closeness(videos, videos, device=CPU, batch=3)
    assert same.mse.shape == (16, 8) and same.mse.max() == 0
    assert same.psnr == BEST_PSNR and same.ssim == pytest.approx(1)
    assert same.lpips is None
    dark = torch.zeros(2, 3, 1, 8, 8, dtype=torch.uint8)
    found = closeness(dark, dark + 51, device=CPU)
    assert found.mse.mean().item() == pytest.approx(0.04) and found.ssim is None
    assert found.psnr == pytest.approx(10 * np.log10(25))


@pytest.mark.skipif(not is_installed("vgg16"), reason="needs: horizon weights get vgg16")
def test_lpips_is_zero_for_equal_videos_and_grows_with_noise_in_colour_and_in_grey(videos):
    network = find_lpips(CPU)
    for few in (videos[:2, :2], videos[:2, :2, :1]):
        found = [
            closeness(noisy(few, amount), few, device=CPU, lpips=network).lpips
            for amount in (0.0, 0.05, 0.3)
        ]
        assert found[0] == pytest.approx(0, abs=1e-6) and found[0] < found[1] < found[2]


def test_short_and_grey_videos_are_made_watchable():
    grey = torch.arange(6, dtype=torch.uint8).view(1, 6, 1, 1, 1).expand(2, 6, 1, 4, 4)
    shown = watchable(grey)
    assert shown.shape == (2, MIN_FRAMES, 3, 4, 4)
    assert shown[0, :, 1, 0, 0].tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 5]
    long = torch.zeros(1, 12, 3, 4, 4, dtype=torch.uint8)
    assert torch.equal(watchable(long), long)


def test_intervals_of_differences_are_paired_and_turn_around_the_value():
    noise = np.random.default_rng(0).normal(size=200) * 50
    a, b = ResampledEstimate(100.0, 100 + noise), ResampledEstimate(90.0, 90 + noise)
    wide, difference = a.interval(), (a - b).interval()
    assert wide.low < 60 and wide.high > 140
    assert [difference.low, difference.high] == pytest.approx([10, 10])
    skewed = ResampledEstimate(10.0, np.array([12.0, 14.0])).interval(level=1.0)
    assert (skewed.low, skewed.high) == (6.0, 8.0)
    assert mean_of([a, b]).value == 95 and mean_of([a, b]).interval().low == pytest.approx(
        wide.low - 5
    )
    alone = ResampledEstimate(3.0, np.zeros(0)).interval()
    assert (alone.low, alone.high) == (3.0, 3.0)


def planted_results(fvd, mse):
    """A study of the paper's grid whose numbers are those of two functions of a point."""
    settings = {"horizon": 32, "segments": 8, "features": "i3d"}
    points = [GridPoint("horizon", b, float(d)) for b in BUDGETS for d in (1, 2, 4, 8, 16, 32)]
    points += [GridPoint("pyramidal", b) for b in BUDGETS[2:]]
    lines = {}
    for point in points:
        found = {"fvd": fvd(point), "mse": mse(point), "mse_by_video": [mse(point)] * 8}
        lines[point] = {"settings": settings, "truth": found}
    return Results(lines)


BUDGETS = (8, 16, 32, 64, 128, 256)


def as_in_the_paper(point):
    """Distances that fall with the budget; parallel is better below 128, worse above."""
    if point.kind == "pyramidal":
        return 100.0 * point.budget
    gain = -40 if 4 <= point.decay_horizon <= 16 else 0
    if point.budget >= 128:
        return 60 + point.decay_horizon / 4
    return 100 + gain + 64 / point.budget


def test_claims_hold_on_results_as_the_paper_has_them():
    found = claims(planted_results(as_in_the_paper, lambda p: p.budget / 1e3), "truth")
    assert [claim.verdict for claim in found] == [judging.HOLDS] * 5
    assert "rank 1 of 6" in found[2].numbers[0]
    assert [line.split(":")[0] for line in found[0].numbers] == [f"budget {b}" for b in BUDGETS[:4]]


def test_claims_fail_on_the_opposite():
    found = claims(planted_results(lambda p: 1e4 - as_in_the_paper(p), lambda p: 0.1), "truth")
    # Where large distances become small ones, sub-frame budgets are close to all others.
    assert [claim.verdict for claim in found if "16 times" not in claim.text] == [judging.FAILS] * 4
    worse = claims(planted_results(lambda p: 1e4 / p.budget, lambda p: 1 / p.budget), "truth")
    assert worse[1].verdict == judging.FAILS


def test_claims_that_hold_at_some_budgets_hold_in_part():
    def mixed(point):
        flip = point.kind == "horizon" and point.budget in (8, 256)
        return 300 - as_in_the_paper(point) if flip else as_in_the_paper(point)

    found = claims(planted_results(mixed, lambda p: p.decay_horizon / p.budget), "truth")
    assert found[0].verdict == found[2].verdict == judging.PART
    assert found[3].verdict == judging.FAILS, "errors fall"


def test_an_error_that_stays_equal_while_distances_fall_decides_nothing():
    found = claims(planted_results(as_in_the_paper, lambda p: 0.1), "truth")
    assert found[3].verdict == judging.OPEN


def test_without_features_nothing_is_claimed():
    results = planted_results(as_in_the_paper, lambda p: 0.1)
    results.settings["features"] = "none"
    assert {claim.verdict for claim in claims(results, "truth")} == {judging.NONE}


def test_differences_within_their_intervals_are_undecided():
    wide = ResampledEstimate(-1.0, np.array([-5.0, 3.0])).interval(level=1.0)
    below = ResampledEstimate(-5.0, np.array([-6.0, -4.0])).interval(level=1.0)
    above = ResampledEstimate(5.0, np.array([6.0, 4.0])).interval(level=1.0)
    assert judging._verdict([wide, wide]) == judging.OPEN
    assert judging._verdict([below, wide]) == judging.PART
    assert judging._verdict([above, wide]) == judging.FAILS
    assert judging._verdict([below, below]) == judging.HOLDS
    assert judging._verdict([]) == judging.NONE
