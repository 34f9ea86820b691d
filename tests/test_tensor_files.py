"""Values of a file that no result may come from are refused, in every precision."""

from pathlib import Path

import pytest
import torch

from horizon_imagination.errors import UsageError
from horizon_imagination.tensor_files import check_finite

EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16, *EIGHT_BITS])
def test_what_is_not_finite_is_refused_in_every_precision(kind):
    good = {"x": torch.ones(3).to(kind), "count": torch.ones(3, dtype=torch.int64)}
    check_finite(good, Path("weights"))
    with pytest.raises(UsageError, match="weights has values that are not finite, in y"):
        check_finite(good | {"y": torch.tensor([1.0, torch.nan]).to(kind)}, Path("weights"))
