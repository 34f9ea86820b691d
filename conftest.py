"""What must be settled before any test: how kernels run, and which modules' examples can."""

import importlib.util
import os

import torch

# Before anything imports Triton: without a GPU its interpreter runs the kernels.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

collect_ignore_glob = []
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob.append("src/horizon_imagination/kernels/[a-z]*.py")
