"""Which modules' examples are run: those whose optional packages are there."""

import importlib.util

collect_ignore_glob = []
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob.append("src/horizon_imagination/kernels/[a-z]*.py")
