"""Real child processes, killed, frozen and made to misbehave."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import gymnasium
import numpy as np
import pytest

from horizon_imagination.config import AtariConfig, EnvConfig
from horizon_imagination.envs import EnvFailure, make_env, restore, snapshot
from horizon_imagination.errors import UsageError


def fragile(how: str = "", at: int = 3, **changes) -> gymnasium.Env:
    options = json.dumps({"how": how, "at": at})
    settings = {"step_timeout": 30.0, "reset_timeout": 60.0} | changes
    cfg = EnvConfig(
        id="standin_worlds:Fragile", options=options, size=16, isolation="process", **settings
    )
    return make_env(cfg, seed=0)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_child_truncates_the_episode_and_is_replaced():
    env = fragile()
    _, info = env.reset()
    first = info["pid"]
    frame, *_ = env.step(0)
    os.kill(first, signal.SIGKILL)
    last, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info == {"failure": "crash: the process died (SIGKILL)"}
    assert np.array_equal(last, frame)  # the last good one
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    _, info = env.reset()
    assert info["pid"] != first and not alive(first)
    assert (env.failures, env.failures_in_a_row) == (1, 1)
    env.step(0)
    assert (env.failures, env.failures_in_a_row) == (1, 0)
    env.close()
    assert not alive(info["pid"])


def test_a_frozen_child_is_given_up_after_the_timeout():
    env = fragile(step_timeout=2.0)
    _, info = env.reset()
    env.step(0)
    os.kill(info["pid"], signal.SIGSTOP)
    start = time.monotonic()
    *_, truncated, failure = env.step(0)
    assert 2.0 <= time.monotonic() - start < 20.0
    assert truncated and failure["failure"] == "hang: no answer within 2 s (step)"
    assert not alive(info["pid"])
    assert env.reset()[1]["pid"] != info["pid"]
    env.close()


@pytest.mark.parametrize(
    "how,reason",
    [
        ("exit", r"died \(exit status 3\)"),
        ("raise", r"crash: step\(\) .* failed .*RuntimeError: the engine is gone"),
        ("shape", r"crash: .*shape \(8, 16, 3\), but its space says \(16, 16, 3\)"),
        ("reward", r"crash: step\(\) .* gave the reward nan \(step 2 of an episode\)"),
        ("stray", "garbage: b'hello, I am the '.* came through the pipe instead of a message"),
        ("memory", "crash: .*MemoryError"),
    ],
)
def test_every_misbehaviour_ends_the_episode_with_its_reason(how, reason):
    env = fragile(how, at=2, memory_limit=2.0)
    env.reset()
    assert env.step(0)[1:4] == (1.0, False, False)
    frame, reward, terminated, truncated, info = env.step(0)
    assert frame.max() == 1 and (reward, terminated, truncated) == (0.0, False, True)
    assert re.search(reason, info["failure"]) and env.failures == 1


def test_half_a_message_is_given_up_after_the_timeout():
    env = fragile("half", at=2, step_timeout=2.0)
    env.reset()
    env.step(0)
    start = time.monotonic()
    *_, truncated, info = env.step(0)
    assert time.monotonic() - start < 20.0
    assert truncated and info["failure"] == "hang: no answer within 2 s (step)"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to find who left")
@pytest.mark.parametrize("end", ["close", "crash"])
def test_processes_that_left_the_session_of_the_child_are_ended_with_it(end):
    env = fragile("daemon", at=1)
    env.reset()
    daemon = int(env.step(0)[1])
    assert alive(daemon) and os.getsid(daemon) != os.getsid(env.child.process.pid)
    if end == "crash":
        os.kill(env.child.process.pid, signal.SIGKILL)
        env.step(0)
    else:
        env.close()
    for _ in range(50):
        if not alive(daemon):
            return
        time.sleep(0.1)
    os.kill(daemon, signal.SIGKILL)
    pytest.fail("a process outlived the environment that started it")


@pytest.mark.slow
def test_an_environment_that_dies_every_few_steps_can_still_be_used():
    env = fragile("exit", at=10)
    steps, episodes = 0, 0
    while steps < 25:
        env.reset()
        episodes += 1
        truncated = False
        while not truncated and steps < 25:
            *_, truncated, _ = env.step(0)
            steps += 1
    assert (env.failures, episodes) == (2, 3)
    env.close()


def test_too_many_failures_in_a_row_stop_the_run():
    env = fragile("raise", at=1, max_failures=2)
    env.reset()
    assert env.step(0)[3]
    env.reset()
    with pytest.raises(EnvFailure, match=r"2 times in a row.*the engine is gone"):
        env.step(0)


@pytest.mark.slow
def test_a_reset_that_never_works_stops_the_run():
    env = fragile("reset", max_failures=2)
    with pytest.raises(EnvFailure, match="no world today"):
        env.reset()
    assert env.failures == 2


def test_a_user_error_in_the_child_is_the_users_to_see():
    with pytest.raises(UsageError, match="did you mean catch"):
        make_env(EnvConfig(id="catsh", isolation="process"), seed=0)


@pytest.mark.parametrize("env_id", ["fog", "Boxing"])
def test_a_supervised_world_is_the_same_world(env_id):
    """Frames, rewards and snapshots equal those of the environment in this process."""
    if env_id == "Boxing":
        pytest.importorskip("ale_py")
    cfgs = [
        EnvConfig(id=env_id, size=16, isolation=isolation, atari=AtariConfig(max_noops=3))
        for isolation in ("inline", "process")
    ]
    inline, apart = (make_env(cfg, seed=5) for cfg in cfgs)
    assert np.array_equal(inline.reset()[0], apart.reset()[0])
    assert trace(inline, 20) == trace(apart, 20)
    state = snapshot(apart)
    after = trace(apart, 20)
    restore(apart, state)
    assert trace(apart, 20) == after == trace(inline, 20)
    apart.close()


def trace(env: gymnasium.Env, steps: int) -> list:
    seen = []
    for step in range(steps):
        frame, reward, terminated, truncated, _ = env.step(step % 3)
        seen.append((frame.tobytes(), reward, terminated, truncated))
        if terminated or truncated:
            seen.append(env.reset()[0].tobytes())
    return seen


@pytest.mark.slow
def test_the_child_leaves_when_its_parent_is_gone(tmp_path):
    """Even if the simulator hangs and never looks at the pipe."""
    script = (
        "import os, sys\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from horizon_imagination.config import EnvConfig\n"
        "from horizon_imagination.envs import make_env\n"
        "env = make_env(EnvConfig(id='standin_worlds:Fragile', size=16, isolation='process',\n"
        '    options=\'{"how": "hang", "at": 1}\', step_timeout=1.0), seed=0)\n'
        "print(env.reset()[1]['pid'], flush=True)\n"
        "env.child.pipe.send(('step', 0))\n"
        "os._exit(0)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    child = int(out.stdout)
    for _ in range(100):
        if not alive(child):
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child outlived its parent")
