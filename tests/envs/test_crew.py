"""Several environments a process: the same steps as here, and failures that say what happened."""

import json
import os
import signal
import time

import numpy as np
import pytest

from horizon_imagination.config import EnvConfig, UntrustedId
from horizon_imagination.envs import EnvFailure, make_env
from horizon_imagination.envs.crew import Crew
from horizon_imagination.errors import UsageError

CATCH = EnvConfig(id="catch", size=16)


def fragile(how: str = "", **changes) -> EnvConfig:
    options = json.dumps({"how": how, "at": 2})
    settings = {"step_timeout": 30.0, "reset_timeout": 60.0} | changes
    return EnvConfig(id="standin_worlds:Fragile", options=options, size=16, **settings)


def gone(crew: Crew) -> bool:
    return all(worker.process.poll() is not None for worker in crew._workers)


def test_every_environment_does_what_it_does_here():
    crew, numbers = Crew(CATCH, 2), [3, 4, 8]
    here = {n: make_env(CATCH, n) for n in numbers}
    frames = crew.begin(numbers, numbers)
    for n, frame in zip(numbers, frames, strict=True):
        assert np.array_equal(frame, here[n].reset(seed=n)[0])
    assert crew.action_space.n == here[3].action_space.n
    for turn in range(4):
        actions = [(turn + n) % 3 for n in numbers]
        for n, action, found in zip(numbers, actions, crew.step(numbers, actions), strict=True):
            expected = here[n].step(action)
            assert np.array_equal(found[0], expected[0]) and found[1:4] == expected[1:4]
    crew.end(4)
    assert len(crew.step([8, 3], [0, 0])) == 2  # the others go on
    crew.close()
    assert gone(crew)


def test_numbers_are_spread_over_the_workers():
    crew = Crew(fragile(), 3)
    crew.begin(range(6), range(6))
    pids = [crew.step([n], [0])[0][4]["pid"] for n in range(6)]
    assert pids[:3] == pids[3:] and len(set(pids)) == 3
    crew.close()


def test_an_environment_that_raises_ends_in_one_line_with_its_traceback():
    crew = Crew(fragile("raise"), 2)
    crew.begin([0, 1], [0, 1])
    with pytest.raises(EnvFailure) as failure:
        for _ in range(3):
            crew.step([0, 1], [0, 0])
    assert len(str(failure.value).splitlines()) == 1
    assert "Traceback" in failure.value.traceback
    crew.close()
    assert gone(crew)


def test_a_worker_that_dies_is_named():
    crew = Crew(CATCH, 2)
    crew.begin([0, 1], [0, 1])
    os.kill(crew._workers[1].process.pid, signal.SIGKILL)
    with pytest.raises(EnvFailure, match=r"died \(SIGKILL\)"):
        for _ in range(3):
            crew.step([0, 1], [0, 0])
    crew.close()
    assert gone(crew)


def test_a_worker_that_hangs_is_given_up():
    crew = Crew(fragile(step_timeout=1.0), 1)
    crew.begin([0], [0])
    os.kill(crew._workers[0].process.pid, signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(EnvFailure, match="no answer within 1 s"):
        crew.step([0], [0])
    assert time.monotonic() - begun < 30
    crew.close()
    assert gone(crew)


def test_code_that_only_a_file_names_is_not_started():
    with pytest.raises(UsageError):
        Crew(EnvConfig(id=UntrustedId("standin_worlds:Fragile")), 1)
