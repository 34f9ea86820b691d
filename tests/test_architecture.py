"""The house rules that a program can keep: layers, sizes, names, docstrings, lazy imports."""

import ast
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "horizon_imagination"
MODULES = sorted(ROOT.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))

VOCABULARY = {"types", "errors", "files", "wording", "schema", "version"}
VOCABULARY |= {"config", "learner_config"}
METHOD = {
    *("schedules", "stable_actions", "gaussian_actions", "actions", "flow", "imagination"),
    *("returns", "windows", "world_model"),
}
MODELS = {"kernels", "models", "engine"}
AGENT = {
    *("envs", "data", "learn", "metrics", "agent", "collect", "evaluate", "checkpoint"),
    *(
        "action_json",
        "config_json",
        "costs",
        "device",
        "networks",
        "pretrained",
        "snapshots",
        "streams",
        "tensor_files",
    ),
    "timing",
}
OPTIONAL = {"av", "matplotlib", "tensorboard", "PIL", "ale_py", "ray", "wandb", "craftium"}
OPTIONAL |= {"onnx", "onnxruntime", "onnxscript"}
RUNNER = ROOT / "export" / "static" / "run_policy.py"
"""Copied into exports; it runs where this package is not."""
DRAWERS = {"util", "utils", "base", "common", "helper", "helpers", "manager", "misc", "core"}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def layer(part):
    """0 vocabulary, 1 method, 2 models, 3 agent, 4 shell."""
    groups = (VOCABULARY, METHOD, MODELS, AGENT)
    return next((level for level, group in enumerate(groups) if part in group), 4)


def layer_of(path):
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    # The package's top names what stands in every layer, and loads it when it is used.
    return 4 if part == "__init__" else layer(part)


def imported(tree):
    """Every module that is imported anywhere in a file, with the node that does it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "horizon_imagination":
                yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)
            else:
                yield node.module, node


def inside_layer(module):
    """The layer of one of our modules; the package's top, and any name of it, is the shell."""
    parts = module.split(".")
    if len(parts) > 1 and ((ROOT / parts[1]).is_dir() or (ROOT / f"{parts[1]}.py").exists()):
        return layer(parts[1])
    return 4


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_its_own_layer_or_an_earlier_one(path):
    for module, node in imported(ast.parse(path.read_text())):
        if module.split(".")[0] == "horizon_imagination":
            assert inside_layer(module) <= layer_of(path), f"line {node.lineno}: {module}"


def folder_of(module):
    """The folder of one of our modules, or its own name at the top; None for a package's name."""
    parts = module.split(".")
    there = len(parts) > 1 and ((ROOT / parts[1]).is_dir() or (ROOT / f"{parts[1]}.py").exists())
    return parts[1] if there else None


def folder_imports(sources):
    """Which folders each folder imports, from (path inside the package, text) pairs."""
    found = {}
    for path, text in sources:
        mine = Path(path).parts[0].removesuffix(".py")
        names = {folder_of(m) for m, _ in imported(ast.parse(text)) if m.startswith(ROOT.name)}
        found.setdefault(mine, set()).update(names - {None, mine})
    return found


def cycle_of(graph):
    """Folders that import each other in a circle, or None."""
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return set(error.args[1])
    return None


def test_folders_form_no_import_cycle():
    """Lazy imports and those for types alone count too: they are edges of the same drawing."""
    graph = folder_imports((name_of(path), path.read_text()) for path in MODULES)
    assert cycle_of(graph) is None


def test_a_cycle_of_folders_is_found():
    two = [
        ("run/a.py", "from horizon_imagination.scale.table import x"),
        ("scale/b.py", "def f():\n    import horizon_imagination.report.page"),
        ("report/c.py", "from horizon_imagination.scale import suite"),
    ]
    assert cycle_of(folder_imports(two)) == {"report", "scale"}
    assert cycle_of(folder_imports(two[:2])) is None


@pytest.mark.parametrize("name", sorted(METHOD))
def test_the_method_needs_nothing_but_torch_einops_and_jaxtyping(name):
    allowed = {"torch", "einops", "jaxtyping", "horizon_imagination"} | sys.stdlib_module_names
    tree = ast.parse((ROOT / f"{name}.py").read_text())
    assert {module.split(".")[0] for module, _ in imported(tree)} <= allowed


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_optional_packages_are_imported_where_they_are_used(path):
    """A missing one may cost its feature, never the program."""
    if path == RUNNER:
        return
    tree = ast.parse(path.read_text())
    top = ast.Module([node for node in tree.body if not isinstance(node, ast.If)], [])
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inner = {id(n) for f in ast.walk(top) if isinstance(f, functions) for n in ast.walk(f)}
    for module, node in imported(top):
        if id(node) not in inner:
            assert module.split(".")[0] not in OPTIONAL, f"line {node.lineno}: {module}"


@pytest.mark.parametrize("path", [*MODULES, *TESTS], ids=lambda path: path.stem)
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            assert node.end_lineno - node.lineno < 60, node.name


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_file_is_a_drawer(path):
    assert path.stem not in DRAWERS


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_public_name_says_what_it_is(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree) or not tree.body, "the module itself"
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, definitions) and not node.name.startswith("_"):
            # The fields of a config say what they are, under each of them.
            fields = isinstance(node, ast.ClassDef) and path.name == "config.py"
            assert fields or ast.get_docstring(node), node.name


def test_no_two_public_classes_share_a_name():
    """Commands have `Arguments` each; `messages` and graphs are words of a protocol or a page."""
    homes = defaultdict(set)
    for path in MODULES:
        if name_of(path) in ("play/messages.py", "export/dream_graphs.py"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(name_of(path))
    homes.pop("Arguments")
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_annotations_are_objects(path):
    """Shapes are checked at run time under test, so they may not be postponed."""
    assert "__future__" not in {module for module, _ in imported(ast.parse(path.read_text()))}


def test_the_arrows_can_fail():
    tree = ast.parse("from horizon_imagination.agent import Agent\nimport horizon_imagination.cli")
    assert [inside_layer(module) for module, _ in imported(tree)] == [3, 4]
    assert layer_of(ROOT / "flow.py") == 1 and layer_of(ROOT / "models" / "denoiser.py") == 2
