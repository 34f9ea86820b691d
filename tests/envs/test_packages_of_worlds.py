"""Packages that register worlds: on import, by a call, or not at all."""

import sys

import gymnasium
import pytest

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import make_env, packages
from horizon_imagination.errors import BrokenWorldError, UsageError

ID = "Stand-In/Painted-v1"
REGISTER = f"""
import gymnasium
def register_envs():
    gymnasium.register("{ID}", entry_point="standin_worlds:Painted")
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a package `calling`; what it registers is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "calling").mkdir()

    def write(name, text):
        (tmp_path / "calling" / name).write_text(text)

    before = set(gymnasium.registry)
    yield write
    for name in set(gymnasium.registry) - before:
        del gymnasium.registry[name]
    for name in [x for x in sys.modules if x.split(".")[0] == "calling"]:
        del sys.modules[name]


def played(name):
    env = make_env(EnvConfig(id=name, size=16), seed=0)
    return env.reset()[0].shape


def test_a_package_that_registers_on_import_is_named_before_its_id(package):
    package("__init__.py", REGISTER + "register_envs()")
    assert played(f"calling:{ID}") == (16, 16, 3)


def test_a_call_that_registers_is_made(package):
    package("__init__.py", REGISTER)
    assert played(f"calling:{ID}") == (16, 16, 3) == played(f"calling:{ID}")


def test_known_packages_need_no_name_and_register_elsewhere(package, monkeypatch):
    package("__init__.py", "")
    package("gym.py", REGISTER)
    monkeypatch.setitem(packages.PACKAGES, "Stand-In/", "calling")
    monkeypatch.setitem(packages.REGISTERING, "calling", "calling.gym")
    assert played(ID) == (16, 16, 3) == played(f"calling:{ID}")
    with pytest.raises(UsageError, match=r"calling registers no such id \(did you mean Stand-In"):
        played("Stand-In/Painted-v0")


def test_a_known_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(packages.PACKAGES, "Stand-In/", "no_such_package")
    with pytest.raises(UsageError, match="needs a package: pip install no_such_package"):
        played(ID)


def test_an_id_that_nobody_registers_is_one_line_that_says_what_to_do(package):
    package("__init__.py", REGISTER)
    with pytest.raises(UsageError, match=r"did you mean calling:Stand-In/Painted-v1\?") as error:
        played("calling:Stand-In/Painted-v0")
    assert "make it in a module of your own and name that" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_module_that_cannot_be_imported_is_one_line_with_its_traceback(package):
    package("__init__.py", "1 / 0")
    with pytest.raises(BrokenWorldError, match="importing calling failed: ZeroDivision") as error:
        played("calling:World")
    assert "calling/__init__.py" in error.value.traceback
