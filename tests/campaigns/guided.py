"""Guided fuzzing: an input that reaches a line which none before it reached becomes a parent.

Lines are those of the package, seen by `sys.settrace`. Half of the inputs are damaged copies of the
undamaged file, as without guidance; the other half descend from parents, and take words from the
texts in the package's own source. The two halves are counted apart.
"""

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from mutations import damaged

import horizon_imagination

ROOT = Path(horizon_imagination.__file__).parent
LARGEST = 2**16
"""Bytes of a parent; larger ones are slow and say no more."""
Line = tuple[str, int]


class Lines:
    """The lines of the package that ran inside `watching`."""

    def __init__(self) -> None:
        self.now: set[Line] = set()
        self._names: dict[CodeType, str] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Forget the lines of before, and trace."""
        self.now, before = set(), sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, _: Any) -> Any:
        name = self._names.get(frame.f_code)
        if name is None:
            path = frame.f_code.co_filename
            name = path.removeprefix(f"{ROOT}/") if path.startswith(f"{ROOT}/") else ""
            self._names[frame.f_code] = name
        if not name:
            return None
        add = self.now.add

        def line(frame: FrameType, event: str, _: Any) -> Any:
            add((name, frame.f_lineno))
            return line

        return line


class Parents:
    """The inputs of a target that reached something new, and the lines that were reached."""

    def __init__(self, seed: bytes, kind: str, more: list[bytes]) -> None:
        self.kind, self.kept, self.words = kind, [seed, *more], [""]
        self.depth: dict[bytes, int] = {}
        self.lines: dict[str, set[Line]] = {"plain": set(), "guided": set()}

    def child(self, dice: Random) -> bytes:
        """A damaged copy of the undamaged file, or of the parent of two that went further."""
        content = self.kept[0]
        if dice.random() < 0.6:
            pair = [dice.choice(self.kept) for _ in range(2)]
            content = max(pair, key=lambda x: self.depth.get(x, 0))
        for _ in range(dice.choice([1, 1, 1, 1, 2, 3])):
            if dice.random() < 0.3:
                content = worded(content, dice, self.words)
            else:
                content = damaged(content, dice, self.kind)
        return content

    def note(self, half: str, content: bytes, reached: set[Line]) -> set[Line]:
        """The lines that are new in a half; the input becomes a parent where there are some."""
        new = reached - self.lines[half]
        self.lines[half] |= new
        if half == "guided" and new:
            self.words = sorted({*self.words, *words_of({name for name, _ in new})})
            if len(content) <= LARGEST:
                self.kept.append(content)
                self.depth[content] = len(reached)
        return new


def worded(content: bytes, dice: Random, words: list[str]) -> bytes:
    """A word, a number or a text of the file replaced by a word of the program."""
    word = dice.choice(words)
    places = list(re.finditer(rb'"[^"\\\n]{0,60}"|[\w.+-]+', content[:LARGEST]))
    if not places:
        return word.encode("utf-8", "surrogatepass")
    place = dice.choice(places)
    quoted = place.group().startswith(b'"') or dice.random() < 0.5
    text = json.dumps(word) if quoted else word
    return content[: place.start()] + text.encode("utf-8", "surrogatepass") + content[place.end() :]


def words_of(names: set[str]) -> set[str]:
    """Short texts in modules of the package: names of fields, kinds, versions."""
    return {word for name in names for word in _module_words(name)}


@cache
def _module_words(name: str) -> set[str]:
    texts = set()
    for node in ast.walk(ast.parse((ROOT / name).read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            texts.add(node.target.id)  # a field of a dataclass
    return {text for text in texts if 0 < len(text) <= 32 and " " not in text}


def keep_parent(folder: Path, name: str, content: bytes) -> None:
    """Write a parent to a corpus, named by its content."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)
