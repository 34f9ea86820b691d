"""What must be settled before any test: how kernels run, and which modules' examples can."""

import importlib.util
import os

import pytest
import torch

# Before anything imports Triton: without a GPU its interpreter runs the kernels.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

collect_ignore_glob = []
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob.append("src/horizon_imagination/kernels/[a-z]*.py")

SLOW_TIMEOUT = 1200.0
"""Seconds for a slow test; `timeout` in pyproject.toml is the limit of the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests without a time limit of their own more time: none may hang."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT))
