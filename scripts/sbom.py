"""Write what the project is made of: a lock file with hashes, a list of licences, an SBOM.

The lock file holds every package of the extra `dev` at the versions of constraints.txt, with the
hashes of all its files, for every supported Python and platform. torch, and what only its own
builds need, stay apart: an installed torch is kept, whatever build it is. Licences and the SBOM
(CycloneDX 1.5, JSON) describe what is installed here.
"""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
OUT = ROOT / "locks"
NAME = "horizon_imagination"
APART = re.compile(r"^(torch|nvidia-.*|cuda-.*)==")
OLDEST = "3.11.5"


def main() -> None:
    """Write all three."""
    OUT.mkdir(exist_ok=True)
    (OUT / "requirements.txt").write_text(lock())
    packages = installed(NAME)
    (OUT / "licences.md").write_text(licences(packages))
    (OUT / "sbom.json").write_text(json.dumps(sbom(packages), indent=1) + "\n")
    print(f"{len(packages)} packages: {OUT}/requirements.txt, licences.md, sbom.json")


def lock() -> str:
    """The packages, versions and hashes that uv resolves, without torch and its own."""
    words = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "pyproject.toml"]
    words += ["--quiet", "--extra", "dev", "--constraints", "constraints.txt", "--universal"]
    words += ["--python-version", OLDEST, "--generate-hashes", "--no-header", "--no-annotate"]
    words += ["--no-emit-index-url"]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if said.returncode:
        raise SystemExit(f"uv could not resolve the packages: {said.stderr.strip()}")
    head = (
        "# pip install --require-hashes -r locks/requirements.txt, after torch; make sbom\n"
        "# writes this file\n"
    )
    return head + "".join(entry for entry in entries(said.stdout) if not APART.match(entry))


def entries(text: str) -> list[str]:
    """The lines of each package together.

    >>> entries("a==1 \\\\\\n    --hash=x\\nb==2\\n")
    ['a==1 \\\\\\n    --hash=x\\n', 'b==2\\n']
    """
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.startswith(" ") and found:
            found[-1] += line
        else:
            found.append(line)
    return found


def own_requirements() -> list[str]:
    """What pyproject.toml names, all extras included."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = about["optional-dependencies"].values()
    return [*about["dependencies"], *(text for extra in extras for text in extra)]


def installed(root: str) -> dict[str, list[str]]:
    """Every installed package that the project's extras lead to, and what each one requires."""
    found: dict[str, list[str]] = {}
    todo: list[tuple[str, frozenset[str]]] = [(root, frozenset())]
    seen = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            required = own_requirements() if name == root else metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # of an extra that is not installed
        needs = found.setdefault(name, [])
        for need in map(Requirement, required):
            wanted = ["", *extras]
            if need.marker and not any(need.marker.evaluate({"extra": x}) for x in wanted):
                continue
            other = normal(need.name)
            if other == normal(root):
                continue  # an extra that names others
            todo.append((other, frozenset(need.extras)))
            if other not in needs:
                needs.append(other)
    return {name: sorted(needs) for name, needs in sorted(found.items())}


def normal(name: str) -> str:
    """A package's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(name: str) -> str:
    """The licence that a package states."""
    about = metadata.metadata(name).json
    stated = str(about.get("license_expression") or "")
    if not stated:
        known = [x for x in about.get("classifier") or [] if x.startswith("License ::")]
        stated = ", ".join(x.split(" :: ")[-1] for x in known)
    if not stated:
        lines = str(about.get("license") or "").strip().splitlines()
        stated = lines[0][:80] if lines else ""
    return stated or "not stated"


def licences(packages: dict[str, list[str]]) -> str:
    """A table for people."""
    rows = [
        f"| {name} | {metadata.version(name)} | {licence(name)} |"
        for name in packages
        if name != NAME
    ]
    head = "# Licences of the packages\n\nWritten by `make sbom` from what each package states.\n\n"
    return head + "\n".join(["| package | version | licence |", "|---|---|---|", *rows]) + "\n"


def sbom(packages: dict[str, list[str]]) -> dict:
    """The packages as CycloneDX."""
    known = {name: reference(name) for name in packages}
    components = [
        {
            "type": "library",
            "bom-ref": known[name],
            "name": name,
            "version": metadata.version(name),
            "purl": known[name],
            "licenses": [{"license": {"name": licence(name)}}],
        }
        for name in packages
        if name != NAME
    ]
    mine = {"type": "application", "bom-ref": known[NAME], "name": NAME}
    edges = [
        {"ref": known[name], "dependsOn": [known[x] for x in needs if x in known]}
        for name, needs in packages.items()
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": mine | {"version": metadata.version(NAME)}},
        "components": components,
        "dependencies": edges,
    }


def reference(name: str) -> str:
    """The package URL."""
    return f"pkg:pypi/{normal(name)}@{metadata.version(name).split('+')[0]}"


if __name__ == "__main__":
    main()
