"""The stand-in for Craftium is put on the path only by the tests that ask for it."""

import sys
from pathlib import Path

import gymnasium
import pytest

collect_ignore = ["standin"]
STANDIN = Path(__file__).parent / "standin"


@pytest.fixture
def craftium(monkeypatch):
    """The module `craftium`: our stand-in, which speaks the documented interface."""
    monkeypatch.syspath_prepend(str(STANDIN))
    monkeypatch.delitem(sys.modules, "craftium", raising=False)
    import craftium

    yield craftium
    for name in [name for name in gymnasium.registry if name.startswith("Craftium/")]:
        del gymnasium.registry[name]
    sys.modules.pop("craftium", None)
