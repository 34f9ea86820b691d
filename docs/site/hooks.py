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


CODE = re.compile(r"<code>([^<]*)</code>")
FLAG = re.compile(r"(?<![\w-])(--\w[\w.-]*)")


def breaks(html: str, *, in_table: bool) -> str:
    """Code whose flags break after a dot only; in tables, other names also after an underscore."""

    def flag(text: str) -> str:
        parts = re.findall(r"[^.]+\.?", text)
        return "<wbr>".join(f'<span style="white-space: nowrap">{part}</span>' for part in parts)

    def other(text: str) -> str:
        return text.replace("_", "_<wbr>").replace(".", ".<wbr>") if in_table else text

    def code(found: re.Match[str]) -> str:
        pieces = FLAG.split(found[1])  # every second one is a flag
        told = (flag(text) if place % 2 else other(text) for place, text in enumerate(pieces))
        return f"<code>{''.join(told)}</code>"

    return CODE.sub(code, html)


def on_page_content(html: str, **_: Any) -> str:
    """Let names in code break where they can be read, and flags at no hyphen."""
    pieces = re.split(r"(<table>.*?</table>)", html, flags=re.DOTALL)  # every second one a table
    return "".join(breaks(piece, in_table=place % 2 == 1) for place, piece in enumerate(pieces))


class Examples(griffe.Extension):
    """Fences doctests, so that their brackets are code and not links."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            value = obj.docstring.value
            obj.docstring.value = DOCTEST.sub(lambda m: f"```python\n{m[0]}\n```", value)
