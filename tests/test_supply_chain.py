"""What the project installs is locked with hashes, and nothing opens the network unasked."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "locks"

WATCHED = """
import sys
def hook(name, about):
    if name == "socket.__new__" and int(about[1]) in (2, 10):
        raise RuntimeError(f"the network is opened: {about}")
    if name in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise RuntimeError(f"the network is asked: {name} {about}")
sys.addaudithook(hook)
import socket
try:
    socket.socket()
except RuntimeError:
    pass
else:
    raise SystemExit("the hook does not see sockets")
import horizon_imagination as hi
hi.Agent, hi.Config, hi.make_env, hi.load_run
from horizon_imagination.cli import main
run, quiet = sys.argv[1], ["--device", "cpu"]
assert main(["--help"]) == 0
assert main(["train", "--preset", "debug", "--training.epochs", "1", "--out", run]) == 0
assert main(["evaluate", run, "--episodes", "1", *quiet]) == 0
assert main(["doctor", run]) in (0, 1)
"""


@pytest.mark.slow
def test_nothing_opens_the_network_at_import_training_and_evaluation(tmp_path):
    words = [sys.executable, "-c", WATCHED, str(tmp_path / "run")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def locked():
    """Versions of the lock file, and how many hashes each package has."""
    found, name = {}, ""
    for line in (LOCKS / "requirements.txt").read_text().splitlines():
        if match := re.match(r"([a-z0-9][\w.-]*)==([^ ;]+)", line):
            name = match[1]
            found[name] = [match[2], 0]
        elif "--hash=sha256:" in line:
            found[name][1] += 1
    return found


def test_the_lock_file_has_the_versions_of_the_constraints_with_hashes():
    found = locked()
    assert len(found) > 100 and all(hashes for _, hashes in found.values())
    for line in (ROOT / "constraints.txt").read_text().split():
        name, _, version = line.partition("==")
        name = re.sub(r"[-_.]+", "-", name).lower()
        if name in found:
            assert found[name][0] == version, f"{name}: run make sbom"
    assert "torch" not in found, "an installed torch is kept"


def test_every_dependency_is_in_the_lock_file_and_in_the_sbom():
    import tomllib

    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w.-]+", text)[0] for text in about["dependencies"]]
    known = {re.sub(r"[-_.]+", "-", name).lower() for name in names}
    assert known - {"torch"} <= locked().keys(), "run make sbom"
    bom = json.loads((LOCKS / "sbom.json").read_text())
    parts = {part["name"]: part for part in bom["components"]}
    assert bom["bomFormat"] == "CycloneDX" and known <= parts.keys(), "run make sbom"
    assert all(part["licenses"][0]["license"]["name"] for part in parts.values())
