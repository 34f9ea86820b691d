"""A refactor may not move the losses of twenty training steps."""

import json

import pytest
from losses_of_training import STEPS, VARIANTS, WATCHED, losses, path


@pytest.mark.parametrize("variant", VARIANTS)
def test_twenty_steps_of_each_learner_give_the_losses_written_down(variant, tmp_path):
    golden = json.loads(path(variant).read_text())
    found = losses(variant, tmp_path)
    assert set(found) == set(golden) == {name for names in WATCHED.values() for name in names}
    for name, values in found.items():
        assert len(values) == STEPS
        # Wide enough for another processor's rounding, narrow enough for any change of method.
        assert values == pytest.approx(golden[name], rel=1e-3, abs=1e-4), name
