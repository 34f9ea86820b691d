"""One page that holds a world model and runs it: no server, no network, no Python.

The networks, ONNX Runtime and the page's own code are inside `index.html`, so that a double click
opens it: a browser does not let a page that is a file fetch its neighbours.
"""

import base64
import gzip
import html
import json
import re
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from einops import rearrange

from horizon_imagination.action_json import space_to_json
from horizon_imagination.agent import Agent
from horizon_imagination.envs import make_env
from horizon_imagination.errors import UsageError
from horizon_imagination.export.card import about, files_of, names_of_actions, write_card
from horizon_imagination.export.dream_graphs import dream_graphs, play_context, window
from horizon_imagination.export.onnx_file import check_installed, traced, write_onnx
from horizon_imagination.files import output_folder, write_text
from horizon_imagination.provenance import told
from horizon_imagination.wording import size

STATIC = Path(__file__).parent / "static"
SHARED = Path(__file__).parent.parent / "play" / "static"
MODULES = (
    *(SHARED / name for name in ("page.js", "keys.js", "draw.js")),
    *(STATIC / f"{name}.js" for name in ("imagination", "actions", "backend", "model", "dream")),
    *(STATIC / f"{name}.js" for name in ("controls", "main")),
)
"""The page's code, in the order in which one module needs the other."""
PAGE = "index.html"
LARGEST = 256 * 2**20
"""Bytes of networks that a page can hold: a browser's strings end at twice that."""
USAGE = """\
A world model that runs in a browser, exported by `horizon export --web`. Open `index.html`: it is
complete, needs no server and no network, and can be mailed as it is."""


@dataclass(frozen=True)
class Runtime:
    """ONNX Runtime for browsers: its script, its WebAssembly and its licence."""

    script: bytes
    wasm: bytes
    licence: str


@cache
def runtime(build: str = "web") -> Runtime:
    """One that comes with the package, `web` or `webgpu`; made by scripts/make_web_runtime.py."""
    with tarfile.open(STATIC / f"onnxruntime-{build}.tar.xz", "r:xz") as archive:
        parts = {entry.name: archive.extractfile(entry) for entry in archive if entry.isfile()}
        content = {name: file.read() for name, file in parts.items() if file}
    return Runtime(content["ort.mjs"], content["ort.wasm"], content["LICENSE"].decode())


def export_web(
    agent: Agent,
    folder: Path,
    *,
    starts: int = 16,
    seed: int = 0,
    trained: dict[str, int] | None = None,
    trust: bool = False,
    webgpu: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Export the world model of an agent that is on the CPU as one page; returns the card.

    The page begins its episodes where the real world began `starts` of them. Without `webgpu` it is
    smaller and runs on WebAssembly alone.
    """
    check_installed()
    output_folder(folder)
    latents = first_latents(agent, starts, seed, trust=trust)
    graphs = graph_files(agent)
    weight = sum(map(len, graphs.values()))
    if weight > LARGEST:
        raise UsageError(
            f"the networks have {size(weight)}, a page holds at most {size(LARGEST)}: "
            "export a smaller agent"
        )
    runtimes = {"": runtime(), **({"-webgpu": runtime("webgpu")} if webgpu else {})}
    binary = sum(len(one.wasm) for one in runtimes.values())
    say(f"networks: {size(weight)}, ONNX Runtime: {size(binary)}, before compression")
    names = names_of_actions(agent, trust=trust)
    card = about(agent, names, trained or {})
    write_text(folder / PAGE, page(card, facts(agent, names, latents), graphs, runtimes))
    card |= {"scores": {}, "protocol": [], "notes": {}, "files": files_of(folder, (PAGE,))}
    write_card(folder, card, f"A dream of {card['world']}", USAGE)
    return card


@torch.no_grad()
def first_latents(agent: Agent, count: int, seed: int, *, trust: bool) -> list[list[float]]:
    """Latents of the first frames of some episodes of the real world."""
    env = make_env(agent.config.env.trusted() if trust else agent.config.env, seed)
    try:
        frames = [torch.from_numpy(env.reset(seed=seed + i)[0].copy()) for i in range(count)]
    finally:
        env.close()
    z = agent.tokenizer.encode(rearrange(torch.stack(frames), "b h w c -> b 1 c h w"))
    return [[round(x, 6) for x in latent.flatten().tolist()] for latent in z]


def graph_files(agent: Agent) -> dict[str, bytes]:
    """The graphs of a dream as ONNX files, by name."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, graph in dream_graphs(agent).items():
            path = Path(folder) / f"{name}.onnx"
            write_onnx(traced(graph), graph, path)
            found[name] = path.read_bytes()
    return found


def facts(agent: Agent, actions: tuple[str, ...], starts: list[list[float]]) -> dict[str, Any]:
    """What the page must know of the agent beside its networks."""
    cfg = agent.config.imagination
    return {
        "actions": list(actions),
        "action_space": space_to_json(agent.action_space).get("actions"),
        "latent": list(agent.latent_shape),
        "window": window(agent),
        "context": play_context(agent),
        "imagination_context": cfg.context,
        "horizon": cfg.horizon,
        "budget": cfg.budget,
        "decay_horizon": cfg.decay_horizon,
        "hidden": {
            name: getattr(agent, name).lstm.hidden for name in ("actor", "reward", "critic")
        },
        "starts": starts,
    }


def page(
    card: dict[str, Any],
    told_to_page: dict[str, Any],
    graphs: dict[str, bytes],
    runtimes: dict[str, Runtime],
) -> str:
    """The whole page; the runtimes by what is added to the names of their parts."""
    parts, notice = {}, ""
    for suffix, one in runtimes.items():
        parts |= {f"runtime{suffix}": one.script, f"wasm{suffix}": one.wasm}
        notice = one.licence.replace("--", "- -")  # that of the last one holds for all
    parts |= graphs
    payload = [f"<!-- ONNX Runtime\n{notice}\n-->"]
    payload += [
        f'<script type="text/plain" id="{name}">{packed(content)}</script>'
        for name, content in parts.items()
    ]
    note = f"Trained in {card['world']}, exported by {told(card['made'])}. "
    note += "The networks run in this page, on ONNX Runtime (MIT licence)."
    values = {
        "title": html.escape(f"{card['world']} · Horizon"),
        "world": html.escape(card["world"]),
        "icon": base64.b64encode((SHARED / "icon.svg").read_bytes()).decode(),
        "style": (SHARED / "style.css").read_text(),
        "note": html.escape(note),
        "facts": json.dumps(told_to_page, separators=(",", ":")).replace("<", "\\u003c"),
        "payload": "\n".join(payload),
        "script": joined(MODULES),
    }
    frame = (STATIC / "web.html").read_text()
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], frame)


def packed(content: bytes) -> str:
    """Bytes as text that a page can hold: base64 of gzip, the same for the same bytes."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def joined(modules: tuple[Path, ...]) -> str:
    """Modules of JavaScript as one script: without their imports of each other and their exports.

    Their top-level names must differ, since they now share one scope.
    """
    texts = []
    for path in modules:
        text = re.sub(r'^import [^;]* from "\./\w+\.js";\n', "", path.read_text(), flags=re.M)
        texts.append(re.sub(r"^export ", "", text, flags=re.M))
    script = "\n".join(texts)
    named = re.findall(r"^(?:async )?(?:function\*?|const|let|class) (\w+|\$)", script, flags=re.M)
    twice = {name for name in named if named.count(name) > 1}
    assert not twice, f"names that two modules share: {twice}"
    assert "</script" not in script
    return script
