"""What `mkdocs.yml` calls: pages from the root of the repository, examples in docstrings."""

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PAGES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
COPIES = ("CITATION.cff", "LICENSE")
DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def moved(text: str) -> str:
    """A page of the root with its links as they are seen from docs/."""
    text = text.replace("](docs/", "](").replace('src="docs/', 'src="')
    for page, source in PAGES.items():
        text = text.replace(f"]({source}", f"]({page}")
    return text


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, and the files that they link to."""
    root = Path(config.config_file_path).parent
    for page, source in PAGES.items():
        text = moved((root / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text))
    for name in COPIES:
        files.append(File.generated(config, name, abs_src_path=str(root / name)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Leave the columns beside a page out where nothing would stand in them."""
    hidden = {"navigation": page.is_homepage, "toc": "\n## " not in markdown}
    page.meta["hide"] = [column for column, empty in hidden.items() if empty]
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Let long names in tables break after a dot or an underscore, and nowhere else."""

    def breakable(code: re.Match[str]) -> str:
        return code[0].replace("_", "_<wbr>").replace(".", ".<wbr>")

    def in_table(table: re.Match[str]) -> str:
        return re.sub(r"<code>[^<]*</code>", breakable, table[0])

    return re.sub(r"<table>.*?</table>", in_table, html, flags=re.DOTALL)


class Examples(griffe.Extension):
    """Fences doctests, so that their brackets are code and not links."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            value = obj.docstring.value
            obj.docstring.value = DOCTEST.sub(lambda m: f"```python\n{m[0]}\n```", value)
