"""An agent in one file acts and imagines as the agent does, and stands for its run."""

import json
import shlex

import pytest
import torch
from safetensors.torch import load_file, save_file

from horizon_imagination.actions import Box
from horizon_imagination.agent import Agent
from horizon_imagination.checkpoint import trained_for
from horizon_imagination.cli import main
from horizon_imagination.errors import Failure
from horizon_imagination.export.agent_file import export_agent
from horizon_imagination.play.library import curves, load, players
from horizon_imagination.presets import PRESETS, replaced
from horizon_imagination.snapshots import HEADER, WEIGHTS, home, read_agent_file

DEBUG = PRESETS["debug"][1]
CENTRED = replaced(DEBUG, controller={"center_features": True})
CPU = torch.device("cpu")


@pytest.fixture
def averaged():
    """An agent whose average is not what is being trained."""
    torch.manual_seed(0)
    agent = Agent(CENTRED, Box((-1.0, -2.0), (1.0, 2.0)), CPU)
    assert agent.denoiser_average is not None
    with torch.no_grad():
        for weight in agent.denoiser.parameters():
            weight.add_(1.0)
    center = agent.actor.encoder.center
    for running in (agent.denoiser.statistics, agent.denoiser_average.statistics, center):
        running.steps.fill_(70_001.0)
        running.mean.fill_(0.1)
    return agent


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of seconds, and its agent as a file."""
    folder = tmp_path_factory.mktemp("file") / "run"
    line = "train --preset debug --training.epochs 3 --runtime.device cpu"
    assert main([*line.split(), "--out", str(folder)]) == 0
    assert main(["export", str(folder), "--agent"]) == 0
    return folder, folder / "export" / "run.safetensors"


def test_the_weights_are_the_agents_rounded_and_the_denoiser_is_its_average(averaged, tmp_path):
    path = tmp_path / "one.safetensors"
    export_agent(averaged, path, {"epoch": 3, "env_steps": 600})
    found = Agent.load(path, "cpu")
    assert found.action_space == averaged.action_space
    assert found.config == replaced(CENTRED, denoiser={"ema": 0.0})
    assert found.denoiser_average is None
    for name, network in averaged.networks().items():
        network = averaged.denoiser_average if name == "denoiser" else network
        mine, statistics = found.networks()[name].state_dict(), dict(network.named_buffers())
        for key, value in network.state_dict().items():
            rounded = value if key in statistics else value.half().float()
            assert torch.equal(mine[key], rounded), f"{name}.{key}"
    counted = found.denoiser.statistics.steps, found.actor.encoder.center.steps
    assert counted == (70_001, 70_001)  # more than half precision can count
    assert trained_for(path) == {"epoch": 3, "env_steps": 600}


def test_it_is_about_half_as_large_without_the_weights_that_only_training_needs(averaged, tmp_path):
    averaged.save(tmp_path)
    export_agent(averaged, tmp_path / "one", {})
    whole = sum(value.numel() for value in averaged.weights().values())
    kept = sum(value.numel() for value in load_file(tmp_path / "one").values())
    assert kept == whole - sum(v.numel() for v in averaged.denoiser.state_dict().values())
    small, large = ((tmp_path / name).stat().st_size for name in ("one", WEIGHTS))
    assert small < 0.52 * large


def test_a_weight_that_half_precision_cannot_hold_is_refused(averaged, tmp_path):
    with torch.no_grad():
        next(averaged.actor.parameters()).view(-1)[0] = 1e5
    with pytest.raises(Failure, match=r"actor.* is too large for half precision"):
        export_agent(averaged, tmp_path / "one", {})
    assert not list(tmp_path.iterdir())


def test_a_file_of_a_file_is_the_same(trained, tmp_path):
    _, path = trained
    export_agent(Agent.load(path, "cpu"), tmp_path / "again", trained_for(path))
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_it_stands_for_its_run(trained, tmp_path):
    folder, path = trained
    handed = path.rename(tmp_path / "handed.safetensors")
    data, results = folder / "replay", tmp_path / "handed-results"
    assert home(handed) == results
    lines = (
        f"evaluate {handed} --episodes 2 --device cpu",
        f"strip {handed} --data {data} --examples 1",
        f"study dreams {handed} --contexts 4 --steps 40 --device cpu",
        f"export {handed} --episodes 0",
        f"record --out {tmp_path / 'data'} --agent {handed} --steps 20 --device cpu",
        f"train --preset debug --init-from {handed} --training.epochs 1 --out {tmp_path / 'next'}",
    )
    try:
        for line in lines:
            assert main(line.split()) in (0, None), line
    finally:
        handed.rename(path)
    wrote = {str(file.relative_to(results)) for file in results.rglob("*") if file.is_file()}
    assert {"videos/strips.png", "studies/dreams/dreams.json", "export/policy/policy.onnx"} <= wrote
    (evaluation,) = (results / "evaluations").iterdir()
    said = json.loads(evaluation.read_text())
    assert said["snapshot"] == "handed.safetensors" and said["trained"]["epoch"] == 3
    assert json.loads((results / "export/policy/card.json").read_text())["trained"]["epoch"] == 3


def test_it_plays_as_the_agent_with_rounded_weights(trained):
    folder, path = trained
    agent, other = Agent.load(folder, "cpu"), Agent.load(path, "cpu")
    with torch.no_grad():
        for name, network in agent.networks().items():
            if name != "denoiser":
                network.load_state_dict(other.networks()[name].state_dict())
    returns = [one.evaluate(episodes=6, seed=3).returns for one in (agent, other)]
    assert returns[0] == returns[1]


def test_it_can_be_played(trained):
    (player,) = players(trained[1]).values()
    agent, label = load(player, "best", "cpu")
    assert (agent.config.env.id, label, player.replay) == ("catch", "", None)
    assert curves(player)["curves"] == []


def test_the_header_alone_says_what_it_is(trained):
    about = read_agent_file(trained[1])
    assert about.agent.config.env.id == "catch" and about.agent.action_space.n == 3
    assert about.trained["epoch"] == 3


def header(path, **entries):
    save_file({"x": torch.zeros(2)}, path, {"format": "pt", **entries})


def odd_entry(path, value):
    """A header in which the agent is no text, as it is in every file that safetensors writes."""
    content = json.dumps({"__metadata__": {HEADER: value}}).encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: header(path), "holds no agent; expected a file of horizon export --agent"),
        (lambda path: header(path, **{HEADER: "{"}), "is damaged, no JSON"),
        (lambda path: header(path, **{HEADER: '{"agent": 3, "version": "1"}'}), "agent"),
        (lambda path: path.write_bytes(b"\xff" * 64), "holds no agent"),
        (lambda path: path.write_bytes(b""), "holds no agent"),
        (lambda path: path.write_bytes((9).to_bytes(8, "little") + b"[1, 2, 3]"), "holds no agent"),
        (lambda path: odd_entry(path, 5), "holds no agent"),
        (lambda path: odd_entry(path, None), "holds no agent"),
        (lambda path: odd_entry(path, {"agent": {}}), "holds no agent"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_agent_is_one_line(make, expected, tmp_path, capsys):
    path = tmp_path / "odd.safetensors"
    make(path)
    assert main(["evaluate", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and expected in said and "odd.safetensors" in said


def test_a_file_that_was_cut_is_one_line(trained, tmp_path, capsys):
    path = tmp_path / "cut.safetensors"
    path.write_bytes(trained[1].read_bytes()[:-100])
    assert main(["evaluate", str(path), "--episodes", "1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--agent --web", "--web and --agent exclude each other"),
        ("--agent --out {folder}", "is a folder; give a file with --out"),
    ],
)
def test_bad_input_is_one_line(words, expected, trained, capsys):
    line = f"export {trained[0]} {words.format(folder=trained[0])}"
    assert main(line.split()) == 2
    assert expected in capsys.readouterr().err


def test_the_command_that_plays_it_can_be_pasted(trained, tmp_path, capsys):
    path = tmp_path / "an agent.safetensors"
    assert main(["export", str(trained[0]), "--agent", "--out", str(path)]) == 0
    assert shlex.split(capsys.readouterr().out)[-3:] == ["horizon", "play", str(path)]


def test_a_report_says_that_a_file_is_no_run(trained, capsys):
    assert main(["report", str(trained[1])]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "is no run" in said
