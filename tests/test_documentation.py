"""The documentation: complete, with links and test names that exist."""

import ast
import importlib
import re
from dataclasses import fields
from pathlib import Path

import pytest

import horizon_imagination
from horizon_imagination.run.folder import MAY_CHANGE

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
WHERE = "".join((ROOT / "docs" / f"{x}.md").read_text() for x in ("method", "python"))


def names_of_tests():
    """Every test function of the suite, by name."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py"))
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", sorted(set(horizon_imagination.__all__) - {"__version__"}))
def test_every_public_name_is_documented(name):
    assert f"`{name}`" in WHERE


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


def prose(text):
    """The lines of a page outside code and tables."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [line for line in outside.splitlines() if not line.startswith("|")]


def test_the_first_screen_of_the_readme_shows_the_method_and_runs_it():
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:25])
    assert "docs/figures/" in screen and "make demo" in screen and "make test" in screen


def test_the_readme_has_short_lines_and_one_table_of_results():
    text = (ROOT / "README.md").read_text()
    assert [line for line in prose(text) if len(line) >= 100] == []
    assert len(re.findall(r"^\|[-:| ]+\|$", text, re.MULTILINE)) == 1
    assert "import *" not in text


def test_the_changelog_is_cut_into_versions_newest_first():
    text = (ROOT / "CHANGELOG.md").read_text()
    first, *versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    dates = [re.fullmatch(r"\d+\.\d+\.\d+ - (\d{4}-\d{2}-\d{2})", version) for version in versions]
    assert first == "Unreleased" and len(dates) >= 2 and all(dates)
    assert [match[1] for match in dates] == sorted((m[1] for m in dates), reverse=True)


def test_the_training_page_names_every_field_that_may_change_on_resume():
    page = (ROOT / "docs" / "training.md").read_text()
    assert [field for field in MAY_CHANGE if f"`{field.rstrip('.')}`" not in page] == []
    assert "env.time_limit" not in MAY_CHANGE  # as the page says


def test_every_folder_of_the_source_has_a_folder_of_tests():
    source = (ROOT / "src" / "horizon_imagination").iterdir()
    folders = {path.name for path in source if path.is_dir() and (path / "__init__.py").exists()}
    assert folders <= {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}


def glossary():
    """Word -> home, of every row of the glossary."""
    section = (ROOT / "docs" / "design.md").read_text().split("## Glossary")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| .+ \| `([\w.]+)` \|$", section, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\|", section, re.MULTILINE)) - 2
    return dict(rows)


def test_the_glossary_has_at_most_fifty_words():
    assert 20 < len(glossary()) <= 50


@pytest.mark.parametrize("home", sorted(set(glossary().values())))
def test_every_home_of_the_glossary_exists(home):
    module, _, rest = home.rpartition(".")
    path = horizon_imagination.__name__
    if (owner := module.rpartition(".")[2])[:1].isupper():  # a field of a dataclass
        module, rest = module.rpartition(".")[0], f"{owner}.{rest}"
    found = importlib.import_module(f"{path}.{module}")
    name, _, field = rest.partition(".")
    assert hasattr(found, name)
    assert not field or field in {item.name for item in fields(getattr(found, name))}
