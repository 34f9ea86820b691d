"""`horizon evaluate` and `horizon record`: a stated protocol, datasets that appear whole."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from unittest.mock import patch

import gymnasium
import numpy as np
import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.config import AtariConfig, EnvConfig
from horizon_imagination.data import Store, validate
from horizon_imagination.evaluate import (
    EpisodeResult,
    Protocol,
    _Here,
    default_workers,
    evaluate,
    sampled_action,
)
from horizon_imagination.presets import DEBUG
from horizon_imagination.run.evaluation import published, summary, told
from horizon_imagination.run.record_dataset import Recording, record


@pytest.fixture
def run(trained, tmp_path):
    """A copy that may be written to."""
    return shutil.copytree(trained, tmp_path / "run")


def test_every_episode_is_stored_with_the_protocol_and_repeats(run, command):
    for _ in range(2):
        status, out, _ = command(f"evaluate {run} --episodes 6 --seed 3 --parallel 4")
        assert status == 0
        assert "6 episodes of catch, seed 3, 4 concurrently" in out
        assert "sampled from the policy" in out and "random -0.75, best 1" in out
        (path,) = (run / "evaluations").iterdir()  # the same protocol, the same file
        found = json.loads(path.read_text())
        episodes = found["episodes"]
        assert len(episodes) == 6 and len({x["seed"] for x in episodes}) == 6
        assert found["summary"]["mean"] == np.mean([x["total_reward"] for x in episodes])
        assert found["trained"] == {"epoch": 4, "env_steps": 140}
        path.rename(run / "before.json") if not (run / "before.json").exists() else None
    before = json.loads((run / "before.json").read_text())
    assert before["episodes"] == found["episodes"]


def test_sampled_and_greedy_are_two_files_and_said_so(run, command):
    command(f"evaluate {run} --episodes 2")
    _, out, _ = command(f"evaluate {run} --episodes 2 --greedy")
    assert "the most probable one" in out
    assert len(list((run / "evaluations").iterdir())) == 2


def frames_of(path):
    av = pytest.importorskip("av")
    with av.open(str(path)) as film:
        return [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]


def test_a_film_of_the_first_episode_can_be_had(run, command, tmp_path):
    status, _, _ = command(f"evaluate {run} --episodes 2 --video {tmp_path / 'film.mp4'}")
    assert status == 0
    frames = frames_of(tmp_path / "film.mp4")
    assert len(frames) == 8  # seven steps, eight frames
    assert frames[0].shape == (256, 256, 3), "the world's 32 pixels, eight times as large"


def test_a_film_of_several_episodes_shows_one_after_the_other(run, command, tmp_path):
    line = f"evaluate {run} --episodes 3 --parallel 2 --video {tmp_path / 'film.mp4'}"
    assert command(f"{line} --video-episodes 3")[0] == 0
    assert len(frames_of(tmp_path / "film.mp4")) == 3 * 8 + 2 * 8  # with a pause between two
    status, _, err = command(f"{line} --video-episodes 4")
    assert status == 2 and "expected 1 to --episodes" in err


def test_json_is_one_object_and_nothing_else(run, command):
    status, out, _ = command(f"evaluate {run} --episodes 3 --json")
    assert status == 0 and out.count("\n") == 1
    said = json.loads(out)
    assert len(said["episodes"]) == 3 and said["summary"]["random"] == -0.75
    stored = json.loads(Path(said.pop("file")).read_text())
    assert stored == said


def test_random_play_is_a_baseline_and_no_evaluation_of_the_agent(run, command):
    status, out, _ = command(f"evaluate {run} --random --episodes 40")
    assert status == 0 and "actions: random" in out
    assert not (run / "evaluations").exists()
    (path,) = (run / "baselines").iterdir()
    said = json.loads(path.read_text())
    assert said["snapshot"] == "random" and said["trained"] == {} == said["published"]
    assert said["summary"]["mean"] < 0, "an untrained player misses most balls"


def test_random_play_needs_no_run(command, tmp_path):
    line = "evaluate --random --env catch --env.size 16 --episodes 5"
    status, out, _ = command(line)
    assert status == 0 and "not stored: name a file with --out" in out
    assert command(f"{line} --out {tmp_path / 'x' / 'random.json'}")[0] == 0
    assert len(json.loads((tmp_path / "x" / "random.json").read_text())["episodes"]) == 5


def test_a_place_that_cannot_be_written_is_found_out_before_playing(run, command, monkeypatch):
    (run / "evaluations").write_text("in the way")
    monkeypatch.setattr("horizon_imagination.evaluate.evaluate", lambda *_, **__: 1 / 0)
    status, _, err = command(f"evaluate {run} --episodes 3")
    assert status == 2 and "give a writable one with --out" in err
    status, _, err = command(f"evaluate {run} --episodes 3 --out {run}")
    assert status == 2 and f"'{run}' is a folder; give a file with --out" in err


@pytest.mark.parametrize("words", ["", "--json"])
def test_what_was_played_is_said_though_it_cannot_be_stored(words, run, command, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("horizon_imagination.cli.evaluate.write_json", full)
    status, out, err = command(f"evaluate {run} --episodes 3 --device cpu {words}")
    assert status == 2 and err.count("\n") == 1 and "No space left on device" in err
    assert len(json.loads(out)["episodes"]) == 3 if words else "interquartile mean" in out


@pytest.mark.parametrize(
    "line,said",
    [
        ("{tmp}/nothing", "does not exist"),
        ("{tmp}", "holds no snapshot yet"),
        ("{run} --episodes 0", "at least 1"),
        ("--episodes 3", "name a run"),
        ("--random", "--env ID"),
        ("{run} --random --greedy", "exclude each other"),
        ("{run} --env.size 64", "use it where it was trained"),
        ("{run} --env cach", "did you mean catch?"),
        ("{run} --env.atari.sticky 0.25", "--env.atari.sticky is about Atari games, and catch is"),
        ("--random --env catch --env.atari.max_pool", "--env.atari.max-pool is about Atari"),
    ],
)
def test_bad_input_is_one_line(line, said, command, run, tmp_path):
    (tmp_path / "empty").mkdir()
    line = line.replace("{tmp}/nothing", str(tmp_path / "no")).replace("{run}", str(run))
    status, _, err = command("evaluate " + line.replace("{tmp}", str(tmp_path / "empty")))
    assert status == 2 and len(err.splitlines()) == 1 and said in err


class Steps(gymnasium.Env):
    """Ends after as many steps as its seed says; what it pays tells which actions were taken."""

    observation_space = gymnasium.spaces.Box(0, 255, (32, 32, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)
    open = 0
    most = 0

    def __init__(self, seed, least=1):
        self.least = least
        Steps.open += 1
        Steps.most = max(Steps.most, Steps.open)

    def reset(self, *, seed=None, options=None):
        self.rng, self.length, self.taken = np.random.default_rng(seed), self.least + seed % 7, 0
        return self.rng.integers(256, size=(32, 32, 3), dtype=np.uint8), {}

    def step(self, action):
        self.taken += 1
        frame = self.rng.integers(256, size=(32, 32, 3), dtype=np.uint8)
        return frame, float(action * 2**self.taken), self.taken == self.length, False, {}

    def close(self):
        Steps.open -= 1


@pytest.fixture
def steps(monkeypatch):
    """Worlds of many lengths."""
    Steps.open = Steps.most = 0
    monkeypatch.setattr("horizon_imagination.evaluate.make_env", lambda cfg, seed: Steps(seed))


@pytest.mark.parametrize("greedy", [True, False])
def test_an_episode_is_the_same_whatever_is_played_beside_it(steps, greedy):
    torch.manual_seed(0)
    agent = Agent(DEBUG, 2, torch.device("cpu"))
    with torch.no_grad():
        for weight in agent.actor.lstm.parameters():
            weight.mul_(8)  # so that it goes by what it remembers
        agent.actor.head.weight.mul_(30)
        agent.actor.head.bias.zero_()
    alone, *together = (
        evaluate(agent, Protocol(EnvConfig(), 12, 1, greedy, n)) for n in (1, 2, 5, 12)
    )
    assert len({e.length for e in alone}) > 3, "places are taken again at different times"
    assert len({e.total_reward for e in alone}) > 3, "and actions are not the same in all of them"
    assert all(alone == played for played in together)


def test_worlds_in_processes_of_their_own_are_stepped_together_with_the_same_results():
    inline, apart = (EnvConfig(id="catch", size=32, isolation=x) for x in ("inline", "process"))
    barrier = Barrier(3)  # nobody passes it before three episodes have begun

    class Slow(_Here):
        def _begin(self, number, seed):
            frame = super()._begin(number, seed)
            if number < 3:
                barrier.wait(60)
            return frame

    with patch("horizon_imagination.evaluate._Here", Slow):
        together = evaluate(None, Protocol(apart, 4, 1, False, envs=3))
    assert together == evaluate(None, Protocol(inline, 4, 1, False, envs=3))


@pytest.mark.parametrize("workers", [2, 3, 9])
@pytest.mark.parametrize("greedy", [False, True])
def test_a_crew_of_workers_plays_the_same_episodes(workers, greedy):
    torch.manual_seed(0)
    agent = Agent(DEBUG, 3, torch.device("cpu"))
    protocol = Protocol(DEBUG.env, 7, 1, greedy, envs=5)
    rounds, films = {1: [], workers: []}, {1: [[], []], workers: [[], []]}
    alone, spread = (
        evaluate(
            agent,
            protocol,
            films=films[n],
            on_steps=lambda *counts, n=n: rounds[n].append(counts),
            workers=n,
        )
        for n in (1, workers)
    )
    assert alone == spread and rounds[1] == rounds[workers]
    for here, there in zip(films[1], films[workers], strict=True):
        assert all(map(np.array_equal, here, there)) and len(here) == len(there) > 3


def test_atari_takes_the_cores_there_are_and_short_worlds_this_process():
    games, board = Protocol(EnvConfig(id="ALE/Boxing-v5"), 100, 0, False, 16), EnvConfig()
    assert [default_workers(games, cores) for cores in (1, 4, 8, 64)] == [1, 1, 8, 16]
    assert default_workers(Protocol(board, 100, 0, False), 64) == 1
    apart = Protocol(replace(games.env, isolation="process"), 100, 0, False)
    assert default_workers(apart, 64) == 1


def test_the_command_takes_workers(run, command):
    _, one, _ = command(f"evaluate {run} --episodes 4 --json --workers 1")
    _, two, _ = command(f"evaluate {run} --episodes 4 --json --workers 2")
    assert json.loads(one) == json.loads(two)
    status, _, err = command(f"evaluate {run} --workers -1")
    assert status == 2 and "expected at least 0" in err
    status, _, err = command(f"evaluate {run} --workers 2 --env.isolation process")
    assert status == 2 and "--workers 2 and --env.isolation process" in err


def test_every_episode_has_dice_of_its_own(steps, monkeypatch):
    monkeypatch.setattr("horizon_imagination.evaluate.make_env", lambda _, s: Steps(s, least=30))
    played = evaluate(None, Protocol(EnvConfig(), episodes=9, seed=0, greedy=False))
    begun = [int(e.total_reward) % 2**30 for e in played]
    assert len(set(begun)) == 9


def test_a_place_is_taken_again_as_soon_as_its_episode_ends(steps):
    rounds = []
    protocol = Protocol(EnvConfig(), episodes=20, seed=0, greedy=False, envs=4)
    played = evaluate(None, protocol, on_steps=lambda *counts: rounds.append(counts))
    assert [e.length for e in played] == [1 + e.seed % 7 for e in played]
    free = [0] * 4  # when each of four places is free again
    for length in (e.length for e in played):
        free.sort()
        free[0] += length
    in_groups = sum(max(e.length for e in played[i : i + 4]) for i in range(0, 20, 4))
    assert len(rounds) == max(free) < in_groups
    assert Steps.most == 4 and Steps.open == 0


@pytest.mark.parametrize("what", ["reset", "step"])
def test_worlds_are_closed_when_one_of_them_fails(steps, monkeypatch, what):
    monkeypatch.setattr(Steps, what, lambda self, *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        evaluate(None, Protocol(EnvConfig(), 5, 0, False, envs=3))
    assert Steps.most > 0 and Steps.open == 0


def test_actions_are_drawn_as_often_as_the_policy_says():
    policy = np.array([0.1, 0.0, 0.6, 0.3])
    drawn = [sampled_action(policy, omega) for omega in (np.arange(1000) + 0.5) / 1000]
    assert np.bincount(drawn, minlength=4).tolist() == [100, 0, 600, 300]


def test_the_summary_has_robust_means_and_landmarks():
    played = [EpisodeResult(i, x, 7, "terminated") for i, x in enumerate([0.0, 10.0, 20.0, 130.0])]
    protocol = Protocol(EnvConfig(id="ALE/Boxing-v5"), 4, 0, False)
    found = summary(protocol, played)
    assert found["mean"] == 40.0 and found["median"] == 15.0 == found["interquartile_mean"]
    low, high = found["mean_interval"]
    assert 0 <= low < 40 < high <= 130
    assert found["human_normalized"] == pytest.approx((40 - 0.1) / (12.1 - 0.1))


def test_the_published_curve_is_read_at_the_same_number_of_steps():
    early, late = (published("ALE/Boxing-v5", steps) for steps in (20_000, 100_000))
    assert "hi-4-16" in late and late["hi-4-16"]["mean"] > early["hi-4-16"]["mean"]
    assert published("catch", 100_000) == {}
    content = {
        "summary": summary(
            Protocol(EnvConfig(), 1, 0, False), [EpisodeResult(0, 1.0, 7, "terminated")]
        ),
        "published": late,
        "trained": {"env_steps": 100_000},
    }
    assert any("hi-4-16 at 100,000 steps" in line for line in told(content))


def test_the_atari_protocol_is_stated():
    env = EnvConfig(id="ALE/Boxing-v5", atari=AtariConfig(sticky=0.25, max_noops=7))
    said = " ".join(Protocol(env, 10, 0, False).lines())
    assert "up to 7 no-ops (in steps)" in said and "sticky 0.25" in said


def test_whole_games_are_played_where_training_ends_with_a_life():
    whole = EnvConfig(id="ALE/Breakout-v5", size=16, atari=AtariConfig(max_noops=0))
    lives = replace(whole, atari=replace(whole.atari, end_on_life_loss=True))
    played, expected = (evaluate(None, Protocol(env, 1, 0, False)) for env in (lives, whole))
    assert played == expected
    assert not Protocol(lives, 1, 0, False).to_json()["env"]["atari"]["end_on_life_loss"]


def test_a_random_recording_is_a_sealed_and_good_dataset(dataset):
    assert validate(dataset) == []
    store = Store.open(dataset)
    assert len(store.episodes) == 10 and store.num_steps == 70
    assert store.frame_shape == (3, 32, 32) and store.env_id == "catch"
    assert set(np.unique(store.action)) == {0, 1, 2}
    assert store.episodes[0].info == {"policy": "random"}


def test_an_agent_records_in_its_own_world_and_steps_are_counted(command, trained, tmp_path):
    status, out, _ = command(f"record --agent {trained} --steps 30 --out {tmp_path / 'data'}")
    assert status == 0 and "30 steps" in out
    store = Store.open(tmp_path / "data")
    assert store.num_steps == 30 and store.frame_shape == (3, 32, 32)
    assert store.episodes[-1].ended == "truncated" and validate(tmp_path / "data") == []


def test_a_greedy_recording_takes_the_actions_that_the_agent_takes(trained, tmp_path):
    agent = Agent.load(trained, "cpu")
    what = Recording(env=agent.config.env, out=tmp_path / "data", episodes=2, greedy=True)
    store = Store.open(record(what, agent))
    for episode in store.episodes:
        agent.reset()
        for row in range(episode.start, episode.start + episode.num_steps):
            observation = store.frames[row].transpose(1, 2, 0)
            assert agent.act(observation, greedy=True) == store.action[row]


def test_an_interrupted_recording_leaves_nothing(tmp_path):
    def stop(ended):
        if ended:
            raise KeyboardInterrupt

    what = Recording(env=EnvConfig(id="catch"), out=tmp_path / "data", episodes=5)
    with pytest.raises(KeyboardInterrupt):
        record(what, None, stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line,said",
    [
        ("--env catch --out {tmp}/x", "--episodes N or --steps N"),
        ("--env catch --episodes 1 --steps 3 --out {tmp}/x", "one of them"),
        ("--env catch --episodes 0 --out {tmp}/x", "at least 1"),
        ("--episodes 1 --out {tmp}/x", "--env ID"),
        ("--env catch --episodes 1 --out {tmp}", "exists already"),
        ("--agent {trained} --env.size 48 --episodes 1 --out {tmp}/x", "where it was trained"),
    ],
)
def test_bad_recordings_are_refused_in_one_line(line, said, command, trained, tmp_path):
    line = line.replace("{tmp}", str(tmp_path)).replace("{trained}", str(trained))
    status, _, err = command(f"record {line}")
    assert status == 2 and len(err.splitlines()) == 1 and said in err
    assert list(tmp_path.iterdir()) == []
