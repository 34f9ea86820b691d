"""The exported policy does what the agent does, and says what it is."""

import ast
import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from horizon_imagination.config import EnvConfig
from horizon_imagination.evaluate import Protocol, evaluate, sampled_action
from horizon_imagination.export.onnx_file import session
from horizon_imagination.export.policy import SOURCE
from horizon_imagination.export.policy_graph import PolicyStep
from horizon_imagination.export.score import Score, keeps, onnx_step, play, torch_step

STEPS = 1000


@pytest.fixture(scope="module")
def frames(agent):
    """Frames of catch under random actions, one episode after the other."""
    env, dice = agent.make_env(seed=5), np.random.default_rng(5)
    seen, ended = [], True
    for _ in range(STEPS):
        if ended:
            seen.append(env.reset()[0])
            ended = False
            continue
        frame, _, terminated, truncated, _ = env.step(int(dice.integers(3)))
        seen.append(frame)
        ended = terminated or truncated
    return seen


def policies(step, frames, hidden):
    """The probabilities at every frame; the state is never forgotten."""
    h, c = (np.zeros((1, hidden), np.float32) for _ in range(2))
    found = []
    for frame in frames:
        probs, h, c = step(frame[None], h, c)
        found.append(probs[0].astype(np.float64))
    return np.array(found), (h, c)


def sampled(policies, omegas):
    """Actions from the same uniforms."""
    return [sampled_action(p, omega) for p, omega in zip(policies, omegas, strict=True)]


def test_a_thousand_recurrent_steps_take_the_actions_of_the_agent(exported, frames):
    agent, folder, _ = exported
    hidden = agent.actor.lstm.hidden
    theirs, states = policies(onnx_step(folder / "policy.onnx"), frames, hidden)
    agent.reset()
    greedy = [agent.act(frame, greedy=True) for frame in frames]
    ours, expected = policies(torch_step(PolicyStep(agent)), frames, hidden)
    assert list(theirs.argmax(1)) == greedy and len(set(greedy)) == 3
    for omega in np.random.default_rng(1).random((3, STEPS)):
        assert sampled(ours, omega) == sampled(theirs, omega)
    assert np.abs(ours - theirs).max() < 1e-4
    assert max(np.abs(a - b).max() for a, b in zip(states, expected, strict=True)) < 1e-3
    agent.reset()


def test_the_exported_policy_has_the_return_of_the_agent(exported):
    agent, folder, card = exported
    protocol = Protocol(agent.config.env, 16, 0, greedy=False)
    played = [episode.total_reward for episode in evaluate(agent, protocol)]
    score = play(onnx_step(folder / "policy.onnx"), protocol, agent.actor.lstm.hidden)
    assert list(score.returns) == played
    assert card["scores"]["agent"]["mean"] == card["scores"]["onnx"]["mean"] == np.mean(played)


def test_the_torch_artifact_loads_and_agrees_with_the_onnx_file(exported):
    agent, folder, _ = exported
    module = torch.export.load(folder / "policy.pt2").module()
    frames = np.random.default_rng(2).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)
    h = np.random.default_rng(3).normal(size=(5, agent.actor.lstm.hidden)).astype(np.float32)
    said = module(*map(torch.from_numpy, (frames, h, h)))
    given = {"frames": frames, "h": h, "c": h}
    for a, b in zip(said, session(folder / "policy.onnx").run(None, given), strict=True):
        assert np.abs(a.detach().numpy() - b).max() < 1e-4


def test_the_card_has_world_actions_score_protocol_and_hashes(exported):
    _, folder, card = exported
    assert json.loads((folder / "card.json").read_text()) == card
    assert (card["world"], card["actions"]) == ("catch", ["left", "stay", "right"])
    assert card["frame"] == [64, 64, 3] and card["made"]["version"]
    assert card["protocol"][0].startswith("16 episodes of catch")
    for name, file in card["files"].items():
        content = (folder / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
        assert (
            len(content) == file["bytes"] and file["sha256"] in (folder / "README.md").read_text()
        )


def test_files_do_not_say_where_they_were_made(exported):
    _, folder, card = exported
    for name in card["files"]:
        content = (folder / name).read_bytes()
        assert b"horizon_imagination/models" not in content and b"/src/" not in content, name


def test_int8_is_there_because_it_keeps_the_return(exported):
    _, folder, card = exported
    small, full = (folder / name for name in ("policy-int8.onnx", "policy.onnx"))
    assert card["scores"]["int8"]["mean"] >= card["scores"]["onnx"]["mean"]
    assert card["notes"]["int8"].startswith("keeps the return")
    assert small.stat().st_size < full.stat().st_size / 3


def test_a_small_policy_that_loses_return_is_left_out():
    full = Score((1.0,) * 10, 70)
    assert keeps(Score((1.0,) * 9 + (-1.0,), 70), full)
    assert not keeps(Score((1.0,) * 5 + (-1.0,) * 5, 70), full)
    assert not keeps(Score((0.99,) * 10, 70), full)  # a small loss that is certain


def test_the_runner_needs_numpy_and_onnxruntime_alone(exported):
    """Imports of this package and of torch fail in the process that runs it."""
    _, folder, _ = exported
    blocked = "import sys; sys.modules.update(torch=None, horizon_imagination=None, onnx=None)"
    code = (
        f"{blocked}; sys.path.insert(0, {str(folder)!r}); import numpy as np; import run_policy; "
        "p = run_policy.Policy(); f = np.zeros((64, 64, 3), np.uint8); p.reset(3); "
        "a = [p.act(f) for _ in range(50)]; p.reset(3); assert a == [p.act(f) for _ in range(50)]; "
        "print(p.act(f, greedy=True), sorted(set(a)))\n"
        "for wrong in (f[:32, :32], f / 255):\n"
        "    try: p.act(wrong)\n"
        "    except ValueError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout, said.stderr
    assert said.stdout.splitlines()[1:] == [
        "got a frame of 32 x 32 x 3, the policy takes 64 x 64 x 3 (card.json)",
        "got a frame of float64, the policy takes bytes (uint8, 0 to 255)",
    ]
    nodes = ast.parse(SOURCE.read_text()).body
    direct = {node.names[0].name for node in nodes if isinstance(node, ast.Import)}
    named = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert direct | named == {"json", "pathlib", "numpy", "onnxruntime"}


def test_bad_words_are_refused_in_one_line(command, tmp_path):
    status, _, said = command("export {place}", place=tmp_path / "nowhere")
    assert status == 2 and "does not exist" in said and said.count("\n") == 1
    for flags, words in {
        "--no-webgpu": "--no-webgpu is about the page: add --web",
        "--webgpu --agent": "--webgpu is about the page",
        "--starts 3": "--starts is about the page",
        "--web --episodes 3": "--episodes is about the policy: leave it out, or --web",
    }.items():
        status, _, said = command(f"export catch {flags}")
        assert status == 2 and words in said and said.count("\n") == 1
    status, _, said = command("export catch --episodes -1")
    assert status == 2 and "expected 0 or more" in said


def test_a_world_that_cannot_be_built_costs_the_names_of_its_actions_alone(agent):
    from dataclasses import replace

    from horizon_imagination.agent import Agent
    from horizon_imagination.export.card import names_of_actions

    unknown = replace(agent.config, env=replace(agent.config.env, id="no-such-world"))
    assert isinstance(unknown.env, EnvConfig)
    assert names_of_actions(Agent(unknown, 3, torch.device("cpu")), trust=False) == ("0", "1", "2")
