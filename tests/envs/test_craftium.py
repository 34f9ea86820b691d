"""The Craftium adapter against a stand-in with the real one's interface and traps."""

import json
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import EnvFailure, actor_bias, make_env, snapshot
from horizon_imagination.envs.craftium import ACTIONS
from horizon_imagination.errors import UsageError

WORLDS = list(ACTIONS)
SPELEO = "Craftium/Speleo-v0"


def inline(env_id: str, **changes):
    return make_env(EnvConfig(id=env_id, isolation="inline", **changes), seed=0)


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A temporary folder and a current folder of our own, to see what is left in them."""
    temporary, current = tmp_path / "tmp", tmp_path / "here"
    temporary.mkdir()
    current.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.chdir(current)
    return lambda: [path.name for folder in (temporary, current) for path in folder.iterdir()]


@pytest.mark.parametrize("env_id", WORLDS)
def test_each_world_is_told_the_papers_settings_and_nothing_else(craftium, env_id):
    """What is passed counts: some of it is also what Craftium does when nothing is said."""
    env = inline(env_id)
    told = {"frameskip": 4, "sync_mode": True, "obs_width": 64, "obs_height": 64}
    told |= {"minetest_conf": {"time_speed": 0}, "fps_max": 10 if "ChopTree" in env_id else 200}
    told |= {f"voxel_obs_r{axis}": 0 for axis in "xyz"}
    told |= {"init_frames": 15} if "SmallRoom" in env_id else {}
    own = ("mt_port", "run_dir_prefix")  # tested below
    assert {k: v for k, v in env.unwrapped.passed.items() if k not in own} == told
    env.close()


def test_each_world_has_the_papers_actions_with_doing_nothing_first(craftium):
    for env_id, num_actions in zip(WORLDS, (4, 4, 7, 8), strict=True):
        env = inline(env_id)
        assert env.action_space.n == len(ACTIONS[env_id]) == num_actions
        assert ACTIONS[env_id][0] == "nop"
        env.close()


def test_every_kind_of_integer_is_an_action(craftium):
    env = inline(SPELEO)
    env.reset()
    for action in (1, np.int32(1), np.array(1), np.int64(0)):
        frame, reward, terminated, truncated, _ = env.step(action)
    assert frame.shape == (64, 64, 3) and frame[0, 0, 0] == 60
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    assert reward == 3.0
    env.close()


@pytest.mark.parametrize("env_id,steps", list(zip(WORLDS, (500, 1000, 500, 2000), strict=True)))
def test_episodes_are_truncated_where_the_world_says(craftium, env_id, steps):
    env = inline(env_id, size=8)
    env.reset()
    ends = [env.step(0)[3] for _ in range(steps)]
    assert ends == [False] * (steps - 1) + [True]
    env.close()


def test_processes_seeded_alike_get_ports_of_their_own(craftium):
    random.seed(0)
    first = inline(SPELEO)
    random.seed(0)
    second = inline(SPELEO)
    first.reset()
    second.reset()
    assert first.unwrapped.port != second.unwrapped.port
    first.close()
    second.close()


def test_the_settings_of_one_world_do_not_leak_into_the_next(craftium):
    first = inline(SPELEO, options=json.dumps({"minetest_conf": {"time_speed": 0, "fog": 1}}))
    second = inline(SPELEO)
    assert "fog" not in second.unwrapped.conf
    first.close()
    second.close()


def test_nothing_is_left_behind_after_close(craftium, scratch):
    env = inline("Craftium/Room-v0")
    env.reset()
    assert len(scratch()) == 1
    env.close()
    env.close()  # twice is fine
    assert scratch() == []


def test_by_default_it_runs_supervised_and_cleans_up_after_a_dead_engine(craftium, scratch):
    options = json.dumps({"minetest_conf": {"standin_die_at": 5}})
    env = make_env(EnvConfig(id=SPELEO, options=options), seed=0)
    env.reset()
    steps = [env.step(0) for _ in range(5)]
    assert [step[3] for step in steps] == [False] * 4 + [True]
    assert "ConnectionError: Connection closed by peer" in steps[-1][4]["failure"]
    assert scratch() == []
    frame, _ = env.reset()
    assert env.failures == 1 and frame.shape == (64, 64, 3) and len(scratch()) == 1
    assert snapshot(env) is None
    env.close()
    assert scratch() == []


def test_a_reset_that_takes_too_long_counts_as_a_failure(craftium):
    options = json.dumps({"minetest_conf": {"standin_reset_seconds": 60.0}})
    env = make_env(EnvConfig(id=SPELEO, options=options, max_failures=1), seed=0)
    env.cfg = replace(env.cfg, reset_timeout=0.5)  # the start of the process may take longer
    with pytest.raises(EnvFailure, match=r"no answer within 0.5 s \(reset\)"):
        env.reset()


def test_without_craftium_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "craftium", None)
    with pytest.raises(UsageError, match="releases") as error:
        inline(SPELEO)
    assert "\n" not in str(error.value)


def test_a_misspelt_world_is_answered_with_the_nearest_one():
    with pytest.raises(UsageError, match="did you mean Craftium/SmallRoom-v0"):
        make_env(EnvConfig(id="Craftium/SmalRoom-v0"), seed=0)


def test_speleo_and_choptree_have_a_prior_on_one_action():
    for env_id, favourite in ((SPELEO, "forward"), ("Craftium/ChopTree-v0", "dig")):
        bias = actor_bias(env_id)
        assert sum(bias) == 1.0 and ACTIONS[env_id][bias.index(1.0)] == favourite
        assert len(bias) == len(ACTIONS[env_id])
    assert actor_bias("Craftium/Room-v0") == actor_bias("catch") == ()


@pytest.mark.craftium
@pytest.mark.slow
@pytest.mark.parametrize("env_id", WORLDS)
def test_the_real_craftium_keeps_the_contract(env_id):
    real = pytest.importorskip("craftium")
    assert Path(str(real.__file__)).parent.name != "standin"
    env = make_env(EnvConfig(id=env_id), seed=0)
    frame, _ = env.reset()
    for action in range(env.action_space.n):
        frame, reward, _, _, info = env.step(action)
        assert frame.shape == (64, 64, 3) and np.isfinite(reward) and "failure" not in info
    env.close()
