"""`hi.train`: environments, callbacks, world models and schedules given as Python objects."""

from dataclasses import replace

import gymnasium
import pytest
import torch

import horizon_imagination as hi
from horizon_imagination.cli import main
from horizon_imagination.data import Store
from horizon_imagination.envs.catch import SmallCatch
from horizon_imagination.envs.given import register
from horizon_imagination.errors import UsageError
from horizon_imagination.presets import DEBUG
from horizon_imagination.studies.dreams import play_and_imagine
from horizon_imagination.studies.exact_catch import ExactCatch
from horizon_imagination.studies.quality.videos import generate, sample_scenes
from horizon_imagination.world_model import check_world_model

CONFIG = replace(
    DEBUG,
    controller=replace(DEBUG.controller, context=2),
    imagination=replace(DEBUG.imagination, horizon=3, budget=2),
    replay=replace(DEBUG.replay, min_segment=3),
    training=replace(DEBUG.training, epochs=2, collect_steps=8, initial_steps=24, evaluate_every=2),
)
SCHEDULE = torch.tensor([[0.0, 0, 0], [1, 0, 0.25], [1, 0.5, 1], [1, 1, 1]])
"""Neither Horizon nor any other of the project's: the last frame is clean before the second."""


class MyCatch(SmallCatch):
    """An environment of the user's own."""

    def __init__(self):
        super().__init__(16)


class Diary(hi.Callback):
    """Writes down what happens, adds a metric, and may stop the run."""

    def __init__(self, stop_at=None):
        self.lines, self.stop_at = [], stop_at

    def on_start(self, run):
        self.run = run
        self.lines.append(f"start {run.first_epoch}")

    def on_epoch(self, epoch):
        self.lines.append(f"epoch {epoch}")

    def on_stage(self, epoch, name, steps):
        self.lines.append(name)

    def on_metrics(self, epoch, metrics):
        metrics["mine/epoch"] = float(epoch)
        self.lines.append("metrics")
        if epoch == self.stop_at:
            self.run.stop()

    def on_snapshot(self, epochs, folder):
        assert (folder / "agent.json").is_file()
        self.lines.append(f"snapshot {epochs}")

    def on_end(self):
        self.lines.append("end")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run in a given environment and a given world model, stopped and resumed."""
    folder, world = tmp_path_factory.mktemp("python") / "run", ExactCatch(4, 16)
    first, second = Diary(stop_at=0), Diary()
    given = {"env": MyCatch, "out": folder, "world_model": world, "schedule": SCHEDULE}
    config = replace(CONFIG, env=replace(CONFIG.env, size=16))
    begun = hi.train(config, callbacks=[first], progress=False, **given)
    stopped = begun.epochs, begun.finished  # as the folder was then
    run = hi.train(config, callbacks=[second], progress=False, **given)
    return stopped, run, first.lines, second.lines


def test_callbacks_are_told_the_life_of_a_run_in_order(trained):
    _, _, first, second = trained
    epoch = ["collect", "controller", "metrics"]
    assert first == ["start 0", "epoch 0", *epoch, "snapshot 1", "end"]
    epoch.insert(2, "evaluate")
    assert second == ["start 1", "epoch 1", *epoch, "snapshot 2", "end"]


def test_a_run_that_a_callback_stopped_goes_on_where_it_was(trained):
    stopped, run, *_ = trained
    assert stopped == (1, False)
    assert (run.epochs, run.finished) == (2, True)


def test_metrics_are_columns_with_those_of_callbacks_among_them(trained):
    columns = trained[1].metrics()
    assert columns["epoch"] == [0, 1] and columns["mine/epoch"] == [0.0, 1.0]
    assert columns["evaluation/return"][0] is None
    assert {len(column) for column in columns.values()} == {2}


def test_in_a_given_world_model_actor_and_critic_are_all_that_learns(trained):
    names = {name.split("/")[0] for name in trained[1].metrics()}
    assert "controller" in names and not names & {"tokenizer", "world_model", "fresh"}
    assert set(trained[1].agent.networks()) == {"actor", "critic"}


def test_the_agent_of_a_run_plays_in_the_environment_that_was_given(trained):
    agent = trained[1].agent
    played = agent.evaluate(3, seed=5)
    assert len(played.returns) == 3 and set(played.returns) <= {-1.0, 1.0}
    assert played.mean == sum(played.returns) / 3
    assert played.returns == agent.evaluate(3, seed=5).returns
    assert agent.evaluate(2, env="small-catch").protocol.env.id == "small-catch"


def test_what_was_given_as_an_object_is_needed_again_and_one_line_says_so(trained, monkeypatch):
    folder = trained[1].folder
    with pytest.raises(UsageError, match=r"given from Python.*world_model="):
        hi.load_run(folder).agent  # noqa: B018
    with pytest.raises(UsageError, match=r"started from Python.*world_model=.*schedule="):
        hi.train(trained[1].config, env=MyCatch, out=folder, progress=False)
    again = hi.load_run(folder, env=MyCatch, world_model=ExactCatch(4, 16))
    assert again.agent.make_env().observation_space.shape == (16, 16, 3)
    monkeypatch.delitem(gymnasium.registry, "given/MyCatch-v0")
    with pytest.raises(UsageError, match=r"give it again.*env=MyEnv"):
        again.agent.make_env()


def test_the_command_line_refuses_to_resume_what_only_python_can(trained, capsys):
    assert main(["train", "--out", str(trained[1].folder)]) == 2
    said = capsys.readouterr().err
    assert "hi.train(" in said or "env=MyEnv" in said
    assert len(said.strip().splitlines()) == 1


def test_networks_that_a_given_world_model_replaces_are_missed_in_one_line(trained):
    with pytest.raises(UsageError, match="it has no tokenizer of its own"):
        trained[1].agent.tokenizer  # noqa: B018


@pytest.mark.parametrize(
    "given,said",
    [
        ({"env": dict}, "no gymnasium.Env"),
        ({"schedule": torch.eye(3)}, "first row of a schedule"),
        ({"config": "demmo"}, "demmo"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(given, said, tmp_path):
    given = {"config": CONFIG, "out": tmp_path / "run", "progress": False} | given
    with pytest.raises(UsageError, match=said) as error:
        hi.train(given.pop("config"), **given)
    assert "\n" not in str(error.value)


def test_a_run_in_a_given_world_model_can_be_played_and_drawn(trained, tmp_path):
    worker_module = pytest.importorskip("horizon_imagination.play.worker")
    run = trained[1]
    settings = worker_module.Settings(run.folder, tmp_path, world_model=ExactCatch(4, 16))
    worker = worker_module.Worker(settings, lambda answer, client: None)
    game = worker.game
    while not game.ended:
        assert game.step(1)
    last = game.moments["model"]
    assert last.reading.end == 1.0 and last.reward in (-1.0, 1.0)
    real = SmallCatch(16)
    assert last.picture.shape == real.render().shape and game.steps == 3
    picture = hi.strips(run.agent, run.folder, count=1)
    assert picture.size[0] > 50


def test_the_studies_take_a_given_world_model(trained, tmp_path):
    agent, store = trained[1].agent, Store.open(trained[1].folder / "replay")
    scenes = sample_scenes(agent, store, videos=4, horizon=2, context=1, seed=0)
    made = generate(agent, scenes, hi.autoregressive_schedule(2, 2), batch=4)
    store.close()
    real, videos = scenes.frames[:, 1:].float(), made.videos.float()
    assert made.broken == 0 and (videos - real).abs().mean() < 2, "its velocities are exact"
    # Its own environment cannot be put back into an earlier state; the embedded one can.
    env = replace(agent.config.env, id="small-catch")
    sizes = {"contexts": 4, "steps": 24, "seed": 0, "progress": lambda *_: None}
    futures = play_and_imagine(agent, env, tmp_path / "dreams", **sizes)
    assert futures.imagined.shape == (4, 3)
    # Its reward model is exact, too, on the frames that the environment shows.
    assert futures.read == pytest.approx(futures.real, abs=0.05)


def test_objects_that_are_no_environment_and_no_world_model_are_refused():
    with pytest.raises(UsageError, match="expected an id, a class"):
        register(SmallCatch(16))
    with pytest.raises(ValueError, match="Linear, has no latent_shape, encode"):
        check_world_model(torch.nn.Linear(2, 2))


def test_progress_in_a_notebook_is_plain_text(capsys, monkeypatch):
    from horizon_imagination.run.display import Display, notebook_console

    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as kernels do
    assert not notebook_console().is_terminal
    Display(notebook_console()).on_note("a [line] of text")
    assert capsys.readouterr().out == "a [line] of text\n"
