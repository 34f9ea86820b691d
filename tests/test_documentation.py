"""The documentation: complete, with links and test names that exist."""

import ast
import re
from pathlib import Path

import pytest

import horizon_imagination

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
METHOD = (ROOT / "docs" / "method.md").read_text()


def names_of_tests():
    """Every test function of the suite, by name."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py"))
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", sorted(set(horizon_imagination.__all__) - {"__version__"}))
def test_every_public_name_stands_in_the_method_page(name):
    assert f"`{name}`" in METHOD


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target.split("#")[0]).exists(), target


@pytest.mark.parametrize("page", ["method.md", "deviations.md"])
def test_the_tests_that_the_docs_name_exist(page):
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text()))
    assert len(named) > 10 and named <= names_of_tests(), named - names_of_tests()


def test_every_row_of_the_deviations_names_a_test():
    rows = re.findall(r"^\| .*\|$", (ROOT / "docs" / "deviations.md").read_text(), re.MULTILINE)[1:]
    assert rows and all("`test_" in row.split("|")[-2] for row in rows)


def test_figures_are_small_enough_to_clone():
    assert all(path.stat().st_size < 300_000 for path in (ROOT / "docs" / "figures").iterdir())
