"""The documentation site: it builds strictly, and every link of a built page resolves."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import horizon_imagination

ROOT = Path(__file__).parent.parent
GENERATED = {"404.html"}  # its links are those of a server's root
OUTSIDE = re.compile(r"^(?:[a-z]+:|//)")


class Links(HTMLParser):
    """What a page links to, what it loads, and the names that it can be entered by."""

    def __init__(self, page):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag == "link" and values.get("href"):
            self.loads.append(values["href"])
        elif values.get("src"):
            self.loads.append(values["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages of the built site, by path."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(words, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = [page for page in folder.rglob("*.html") if page.name not in GENERATED]
    return {page.resolve(): Links(page) for page in pages}


def broken(site, page, target):
    """Whether a link of a page leads nowhere."""
    parts = urlsplit(target)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not path.exists():
        return True
    return bool(parts.fragment) and path in site and parts.fragment not in site[path].anchors


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site):
    for page, found in site.items():
        inside = [x for x in (*found.links, *found.loads) if not OUTSIDE.match(x) and x != "."]
        assert [x for x in inside if broken(site, page, x)] == [], page.name
    assert len(site) > 15


@pytest.mark.slow
def test_the_site_loads_nothing_from_outside(site):
    for page, found in site.items():
        fetched = [x for x in found.loads if OUTSIDE.match(x) and not x.startswith("data:")]
        assert fetched == [], page.name


@pytest.mark.slow
def test_every_public_name_has_an_entry_in_the_reference(site):
    (reference,) = [found for page, found in site.items() if page.name == "reference.html"]
    entries = {anchor.rsplit(".", 1)[-1] for anchor in reference.anchors if "." in anchor}
    assert set(horizon_imagination.__all__) - {"__version__"} <= entries


@pytest.mark.slow
def test_flags_break_after_a_dot_only(site):
    page = next(path for path in site if path.name == "quality.html").read_text(encoding="utf-8")
    assert '<code><span style="white-space: nowrap">--decay-horizons</span></code>' in page
    assert not re.search(r"<code>--\w", page)
