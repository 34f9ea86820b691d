"""Damaged files take neither much memory nor much time."""

import json
import shutil
import tracemalloc

import pytest

from horizon_imagination.agent import Agent
from horizon_imagination.errors import UsageError
from horizon_imagination.schema import read_bytes
from horizon_imagination.snapshots import snapshots


def test_room_is_taken_for_what_is_there(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 10)
    tracemalloc.start()
    assert read_bytes(tmp_path / "a", 2**30) == b"x" * 10
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20


@pytest.mark.parametrize(
    ("section", "field", "value", "said"),
    [
        ("denoiser", "heads", 4000, "parameters, the weights beside it have"),
        ("denoiser", "layers", 10**9, "cannot be built: 1000000000 layers"),
        ("tokenizer", "channels", -8, "cannot be built"),
    ],
)
def test_an_agent_larger_than_its_weights_is_refused_before_it_is_built(
    trained, tmp_path, section, field, value, said
):
    folder = shutil.copytree(snapshots(trained)[-1], tmp_path / "agent")
    (folder / "sha256.json").unlink(missing_ok=True)
    about = json.loads((folder / "agent.json").read_text())
    about["config"][section][field] = value
    (folder / "agent.json").write_text(json.dumps(about))
    with pytest.raises(UsageError, match=said):
        Agent.load(folder, "cpu")
