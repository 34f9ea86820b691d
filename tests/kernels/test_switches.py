"""Where kernels are used: where they can be, unless switched off; elsewhere the plain path."""

import dataclasses
import warnings

import pytest
import torch

from horizon_imagination import kernels
from horizon_imagination.agent import Agent
from horizon_imagination.presets import PRESETS

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _warnings_not_yet_given():
    kernels._warn.cache_clear()


def agent(fused):
    config = PRESETS["debug"][1]
    runtime = dataclasses.replace(config.runtime, fused=fused, device="cpu")
    return Agent(dataclasses.replace(config, runtime=runtime), 3, CPU)


def test_without_a_gpu_auto_is_silent_and_on_warns_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not agent("auto").fused and not agent("off").fused
    with pytest.warns(UserWarning, match="no CUDA device here") as said:
        assert not agent("on").fused
        assert not agent("on").fused
    # Others may come meanwhile, when the garbage of earlier tests is collected.
    assert ["no CUDA device here" in str(one.message) for one in said].count(True) == 1


def test_without_triton_a_gpu_takes_the_plain_path(monkeypatch):
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    with pytest.warns(UserWarning, match="no Triton here"):
        assert not kernels.wanted("on", torch.device("cuda"))
    assert not kernels.wanted("auto", torch.device("cuda"))


def test_with_both_kernels_are_used_unless_switched_off(monkeypatch):
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: name)
    assert [kernels.wanted(s, torch.device("cuda")) for s in ("auto", "on", "off")] == [
        True, True, False,
    ]  # fmt: skip


def test_asked_for_without_a_gpu_the_numbers_are_the_plain_ones():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked, plain = agent("on"), agent("off")
    frames = torch.arange(2 * 3 * 32 * 32, dtype=torch.int64).remainder(256).to(torch.uint8)
    frames = frames.view(2, 3, 32, 32)
    torch.testing.assert_close(asked.encode(frames), plain.encode(frames), atol=0, rtol=0)
    assert asked.world_model.fused is None


def test_fuse_switches_every_part_that_has_a_kernel():
    network = agent("off").tokenizer
    switched = [m for m in kernels.fuse(network).modules() if getattr(m, "fused", False)]
    kinds = {type(module).__name__ for module in switched}
    assert kinds == {"Conv2d", "GroupNorm"}
