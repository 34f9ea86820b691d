"""Write a policy that runs without this package: ONNX, `torch.export`, int8, a card, a runner."""

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from horizon_imagination.actions import ActionSpace, Box, Discrete, MultiDiscrete
from horizon_imagination.agent import Agent
from horizon_imagination.errors import Failure
from horizon_imagination.evaluate import Protocol
from horizon_imagination.export.card import about, files_of, names_of_actions, write_card
from horizon_imagination.export.onnx_file import (
    Graph,
    check_installed,
    traced,
    write_onnx,
    write_program,
)
from horizon_imagination.export.policy_graph import policy_graph
from horizon_imagination.export.score import Score, keeps, onnx_step, play, torch_step
from horizon_imagination.files import output_folder, replacing, write_text
from horizon_imagination.wording import number, size

ONNX, PROGRAM, INT8, RUNNER = "policy.onnx", "policy.pt2", "policy-int8.onnx", "run_policy.py"
SOURCE = Path(__file__).parent / "static" / RUNNER
AGREEMENT = 1e-4
"""Largest difference of a number of the policy or a state between torch and the ONNX file."""
USAGE = """\
A policy with its encoder, preprocessing and recurrent state, exported by `horizon export`.

```python
from run_policy import Policy  # needs numpy and onnxruntime

policy = Policy()
action = policy.act(frame)  # a uint8 frame; policy.reset() begins another episode
```

One step of `policy.onnx` and of `policy.pt2` (`torch.export.load(path).module()`) takes `frames`
(batch, height, width, channel; uint8), `h` and `c` (batch, hidden; zeros at the start of an
episode), and returns {outputs}, `next_h` and `next_c`.{notes}"""
NOTES = {
    Discrete: "",
    MultiDiscrete: """ Probabilities
and logits of all entries of an action stand side by side, entry after entry.""",
    Box: """

An action is `tanh(means + noise * deviations)`, scaled from [-1, 1] to the bounds of the actions;
the noise is standard normal, and none for the greedy action.""",
}


def export_policy(
    agent: Agent,
    folder: Path,
    *,
    episodes: int = 32,
    seed: int = 0,
    trained: dict[str, int] | None = None,
    trust: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Export the encoder and the actor of an agent that is on the CPU; returns the card.

    Agent, ONNX file and int8 file play the same `episodes`; without any, nothing is measured and
    there is no int8 file.
    """
    check_installed()
    output_folder(folder)
    graph = policy_graph(agent)
    program = traced(graph)
    write_program(program, folder / PROGRAM)
    write_onnx(program, graph, folder / ONNX)
    _check_agreement(graph, folder / ONNX)
    write_text(folder / RUNNER, SOURCE.read_text())
    env = agent.config.env.trusted() if trust else agent.config.env
    protocol = Protocol(env, episodes, seed, greedy=False, envs=1)
    scores, notes = _measured(agent, graph.module, folder, protocol, say)
    names = (ONNX, *((INT8,) if "int8" in scores else ()), PROGRAM, RUNNER)
    card = about(agent, names_of_actions(agent, trust=trust), trained or {})
    card |= {
        "hidden": agent.actor.lstm.hidden,
        "parameters": sum(p.numel() for p in graph.module.parameters()),
        "scores": {name: score.to_json() for name, score in scores.items()},
        "protocol": protocol.lines() if episodes else [],
        "notes": notes,
        "files": files_of(folder, names),
    }
    write_card(folder, card, f"A policy for {env.id}", _usage(agent.action_space, graph))
    return card


def _usage(space: ActionSpace, graph: Graph) -> str:
    """How the files are used, and what a step returns."""
    said = ", ".join(f"`{name}`" for name in graph.outputs[:2])
    return USAGE.format(outputs=said, notes=NOTES[type(space)])


def _check_agreement(graph: Graph, path: Path) -> None:
    """Refuse to hand over a file that computes something else."""
    dice, (frames, h, c) = np.random.default_rng(0), graph.arguments
    steps = torch_step(graph.module), onnx_step(path)
    states = [[h.numpy(), c.numpy()] for _ in steps]
    for _ in range(4):
        seen = dice.integers(0, 256, frames.shape, dtype=np.uint8)
        said = [step(seen, *state) for step, state in zip(steps, states, strict=True)]
        far = max(float(np.abs(a - b).max()) for a, b in zip(*said, strict=True))
        if not far <= AGREEMENT:
            raise Failure(f"{path} differs from the agent by {far:.2g} in a step: not exported")
        states = [list(state) for _, *state in said]


def _measured(
    agent: Agent, module: nn.Module, folder: Path, protocol: Protocol, say: Callable[[str], None]
) -> tuple[dict[str, Score], dict[str, str]]:
    """Returns of the agent and of its files, and whether the small one is worth having."""
    small = folder / INT8
    small.unlink(missing_ok=True)
    if not protocol.episodes:
        return {}, {"int8": "left out: its return was not measured"}
    hidden, scores = agent.actor.lstm.hidden, {}
    steps = {"agent": torch_step(module), "onnx": onnx_step(folder / ONNX)}
    for name, step in steps.items():
        scores[name] = play(step, protocol, hidden)
        say(f"{name}: mean return {number(scores[name].mean)}")
    quantize(folder / ONNX, small)
    score = play(onnx_step(small), protocol, hidden)
    what = f"{number(score.mean)} against {number(scores['onnx'].mean)}"
    if keeps(score, scores["onnx"]):
        ratio = f"{size(small.stat().st_size)} instead of {size((folder / ONNX).stat().st_size)}"
        note = f"keeps the return ({what}); {ratio}"
        scores["int8"] = score
    else:
        small.unlink()
        note = f"left out: it loses return ({what})"
    say(f"int8: {note}")
    return scores, {"int8": note}


def quantize(source: Path, target: Path) -> None:
    """Write the same network with weights in 8 bits; activations are scaled as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with replacing(target) as temporary, _without_advice():
        # Signed weights have no fast convolution, some processors have none at all.
        quantize_dynamic(source, temporary, weight_type=QuantType.QUInt8)


@contextlib.contextmanager
def _without_advice():
    """The quantizer asks, through the root logger, for shapes that it does not need here."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(before)
