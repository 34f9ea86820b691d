"""The published data, against numbers that are known of them."""

import gzip
from importlib import resources

import numpy as np
import pytest

from horizon_imagination.errors import UsageError
from horizon_imagination.metrics.published import (
    published_at,
    published_configs,
    published_curve,
    published_scores,
)

KNOWN = [
    ("CrazyClimber", "hi-4-16", 20_000, 11_975, 4_135),
    ("CrazyClimber", "hi-4-16", 30_000, 53_322, 15_790),
    ("Gopher", "hi-4-16", 20_000, 961, 149),
    ("Gopher", "hi-4-16", 30_000, 1_547, 288),
    ("KungFuMaster", "hi-4-16", 20_000, 6_252, 2_532),
    ("KungFuMaster", "hi-4-16", 30_000, 12_647, 3_716),
    ("Boxing", "hi-4-16", 20_000, -2.8, 2.1),
    ("Boxing", "hi-4-16", 30_000, -2.5, 2.9),
    ("CrazyClimber", "naive-4-16", 30_000, 15_452, 9_305),
    ("Gopher", "naive-4-16", 30_000, 898.5, 468),
    ("Boxing", "ar", 100_000, 25.8, None),
    ("CrazyClimber", "hi-4-32", 100_000, 78_917, None),
]


@pytest.mark.parametrize("game,config,step,mean,std", KNOWN)
def test_the_table_of_the_published_runs_is_reproduced(game, config, step, mean, std):
    point = published_at(f"ALE/{game}-v5", config, step)
    digits = 0.05 if game == "Boxing" else 0.5
    assert point is not None and point.seeds == 5
    assert point.mean == pytest.approx(mean, abs=1.02 * digits)
    assert std is None or point.std == pytest.approx(std, abs=1.02 * digits)


def test_eight_environments_with_five_configurations_and_five_seeds_each():
    scores = published_scores()
    assert len({env for env, _ in scores}) == 8
    assert all(len(published_configs(env)) == 5 for env, _ in scores)
    assert all(sorted(seeds) == [0, 1, 2, 3, 4] for seeds in scores.values())
    for seeds in scores.values():
        for curve in seeds.values():
            assert (np.diff(curve.steps) > 0).all() and np.isfinite(curve.returns).all()


def test_the_window_ends_at_the_step_and_leaves_its_start_out():
    curve = published_curve("ALE/Boxing-v5", "ar")[0]
    first = int(curve.steps[0])
    assert published_at("ALE/Boxing-v5", "ar", first - 1) is None
    at, after = (published_at("ALE/Boxing-v5", "ar", s, window=200) for s in (first, first + 200))
    assert at is not None and at.seeds >= 1
    assert after is None or after.seeds < 5


def test_source_and_licence_head_a_small_file():
    data = resources.files("horizon_imagination.metrics") / "data" / "published_scores.csv.gz"
    content = data.read_bytes()
    assert len(content) < 400_000
    head = gzip.decompress(content).decode()[:400]
    assert "leor-c/horizon-imagination" in head and "Apache-2.0" in head


def test_unknown_names_are_answered_with_the_known_ones():
    assert published_configs("catch") == []
    with pytest.raises(UsageError, match="ALE/Gopher-v5"):
        published_curve("catch", "ar")
    with pytest.raises(UsageError, match="hi-4-16"):
        published_curve("ALE/Gopher-v5", "hi")
