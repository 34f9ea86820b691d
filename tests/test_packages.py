"""The packages that `make dist` builds: what is in them, and that they work alone."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "horizon_imagination"


def run(*words, **options):
    result = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, **options
    )
    assert result.returncode == 0, f"{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with the wheel and the source archive of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    run(*build, cwd=folder)
    return folder


@pytest.fixture
def interpreter(packages, tmp_path):
    """A new environment with the wheel in it and the packages of this one, but not this tree."""
    home = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    wheel = next(packages.glob("*.whl"))
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps")
    run(*pip, "--no-index", wheel, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    # A path file inside a folder that a path file names is not read: editable installs are gone.
    shared = [entry for entry in sys.path if Path(entry).name.endswith("-packages")]
    packages_of_venv = next(home.glob("lib/python*/site-packages"))
    (packages_of_venv / "shared.pth").write_text("\n".join(shared) + "\n")
    return python


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(packages):
    with zipfile.ZipFile(next(packages.glob("*.whl"))) as wheel:
        held = {name for name in wheel.namelist() if name.startswith("horizon_imagination/")}
    ours = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert held == {path.relative_to(SOURCE.parent).as_posix() for path in ours}
    assert "horizon_imagination/py.typed" in held
    assert any(name.endswith("published_scores.csv.gz") for name in held)


@pytest.mark.slow
def test_the_source_archive_builds_and_holds_no_runs(packages):
    with tarfile.open(next(packages.glob("*.tar.gz"))) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert {"src", "pyproject.toml", "README.md", "LICENSE"} <= tops
    assert not tops & {"runs", "site", "dist", ".venv"}


@pytest.mark.slow
def test_the_wheel_trains_where_the_source_tree_is_not(interpreter, tmp_path):
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    options = {"cwd": tmp_path, "env": alone | {"OMP_NUM_THREADS": "1"}}
    where = "import horizon_imagination, sys; print(horizon_imagination.__file__, sys.path)"
    told = run(interpreter, "-c", where, **options)
    assert str(tmp_path / "venv") in told.split()[0] and str(ROOT / "src") not in told
    command = interpreter.parent / "horizon"
    run(command, "train", "--preset", "debug", "--training.epochs", "1", "--out", "run", **options)
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1
    assert "Gopher" in run(command, "envs", **options)
