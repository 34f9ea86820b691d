"""The shape of the source: files, lines, import cycles, modules loaded, calls from main to a loss.

Why: a reader's walk through the code is a number that changes can make worse. It measures the
package that Python imports, so PYTHONPATH=OTHER/src compares two trees. The last line is JSON.
"""

import ast
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "horizon_imagination"
SHELL = ("cli", "run", "studies", "report", "scale", "bench")

TRAIN = """
import sys
from horizon_imagination.cli import main
calls = []
def watch(frame, event, _):
    if event == "call" and frame.f_code.co_qualname == "ControllerLoss.__call__":
        walk = []
        while frame is not None and frame.f_code.co_name != "<module>":
            walk.append(frame.f_code.co_qualname)
            frame = frame.f_back
        if any(name.startswith("Trainer.") for name in walk):  # not the estimate before the run
            calls.extend(walk)
            sys.setprofile(None)
sys.setprofile(watch)
try:
    main(["train", "--preset", "debug", "--out", sys.argv[1], "--runtime.device", "cpu"])
except SystemExit:
    pass
ours = sum(name.startswith("horizon_imagination") for name in sys.modules)
print("measured", len(sys.modules), ours, " < ".join(calls))
"""
HELP = """
import sys, time
from horizon_imagination.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
ours = sum(name.startswith("horizon_imagination") for name in sys.modules)
print("measured", len(sys.modules), ours, time.process_time())
"""


def root() -> Path:
    """The folder of the package that is imported here."""
    spec = find_spec(PACKAGE)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def folder(path: Path, top: Path) -> str:
    """The folder a file belongs to; the name of the file at the top."""
    part = path.relative_to(top).parts[0]
    return part.removesuffix(".py")


def imports(path: Path, tree: ast.Module, top: Path) -> set[str]:
    """The folders, or files at the top, that a file imports from, other than its own."""
    named = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
    named += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    ours = {name.split(".")[1] for name in named if name.startswith(f"{PACKAGE}.")}
    return ours - {folder(path, top), "__init__"}


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Import cycles between folders, each once: the first found is cut, then the next is sought."""
    edges, found = {a: set(b) for a, b in edges.items()}, []
    while True:
        try:
            TopologicalSorter(edges).prepare()
            return found
        except CycleError as error:
            cycle = error.args[1]
            found.append(cycle)
            edges[cycle[1]].discard(cycle[0])


def measured(code: str, *words: str) -> tuple[list[int], str]:
    """Run a snippet in a fresh interpreter: modules loaded, of them ours, and what else it says."""
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    line = next(x for x in run.stdout.splitlines() if x.startswith("measured"))
    _, modules, ours, rest = line.split(" ", 3)
    return [int(modules), int(ours)], rest


def main() -> None:
    """Print the table, then one JSON object."""
    top = root()
    files, lines, edges, public = defaultdict(int), defaultdict(int), defaultdict(set), 0
    for path in sorted(top.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        name = "(top)" if path.parent == top else folder(path, top)
        files[name] += 1
        lines[name] += len(text.splitlines())
        if path != top / "__init__.py":
            edges[folder(path, top)] |= imports(path, tree, top)
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        public += sum(isinstance(n, definitions) and n.name[0] != "_" for n in tree.body)
    with tempfile.TemporaryDirectory() as scratch:
        train, calls = measured(TRAIN, f"{scratch}/run")
    help_, seconds = measured(HELP)
    for name in sorted(files):
        print(f"{name:14} {files[name]:4} files {lines[name]:6} lines")
    result = {
        "files": dict(files), "lines": dict(lines),
        "all files": sum(files.values()), "all lines": sum(lines.values()),
        "shell files": sum(files[name] for name in SHELL),
        "shell lines": sum(lines[name] for name in SHELL),
        "cycles": cycles(edges), "public names": public,
        "modules of --help": help_, "seconds of --help": round(float(seconds), 2),
        "modules of train": train, "calls": len(calls.split(" < ")), "walk": calls,
    }  # fmt: skip
    print(json.dumps(result))


if __name__ == "__main__":
    main()
