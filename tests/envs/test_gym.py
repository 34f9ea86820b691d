"""Environments nobody here wrote, and every layout of an image."""

import numpy as np
import pytest
from standin_worlds import Painted

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import make_env, restore, snapshot
from horizon_imagination.envs.resize import resize
from horizon_imagination.errors import UsageError


def painted(layout: str = "hwc", kind: str = "uint8", start: int = 0, **changes):
    options = f'{{"layout": "{layout}", "kind": "{kind}", "start": {start}}}'
    return make_env(EnvConfig(id="standin_worlds:Painted", options=options, **changes), seed=7)


@pytest.mark.parametrize("kind", ["uint8", "unit", "float255"])
@pytest.mark.parametrize("layout", ["hwc", "chw", "dict hwc", "dict chw"])
def test_every_layout_of_a_picture_is_seen_alike(layout, kind):
    frame, _ = painted(layout, kind).reset()
    assert np.array_equal(frame, resize(Painted.PICTURE, 64))


@pytest.mark.parametrize("layout", ["grey hwc", "grey chw", "grey hw_"])
def test_a_grey_picture_gets_three_equal_channels(layout):
    frame, _ = painted(layout).reset()
    assert np.array_equal(frame[:, :, 1], resize(Painted.PICTURE[:, :, :1], 64)[:, :, 0])
    assert np.array_equal(frame[:, :, 0], frame[:, :, 2])


def test_grey_frames_are_the_luminance():
    frame, _ = painted(grey=True, size=32).reset()
    colour = resize(Painted.PICTURE, 32).astype(float)
    assert frame.shape == (32, 32, 1)
    assert np.abs(frame[:, :, 0] - colour @ [0.299, 0.587, 0.114]).max() <= 0.51


def test_actions_begin_at_zero_whatever_the_world_counts_from():
    env = painted(start=5)
    env.reset()
    assert env.action_space.start == 0 and env.action_space.n == 3
    assert [env.step(action)[1] for action in (0, 2)] == [5.0, 7.0]


def test_a_frame_skip_sums_rewards_and_stops_at_the_end():
    env = painted(frame_skip=3)
    env.reset()
    assert env.step(2)[1:4] == (6.0, False, False)
    assert env.step(2)[1:4] == (2.0, True, False)


def test_a_time_limit_truncates_but_never_hides_a_termination():
    env = painted(time_limit=4)
    env.reset()
    assert [env.step(0)[2:4] for _ in range(4)][-1] == (True, False)
    env = painted(time_limit=2)
    env.reset()
    assert [env.step(0)[2:4] for _ in range(2)] == [(False, False), (False, True)]


def test_the_first_reset_uses_the_seed_of_the_run_and_later_ones_none():
    env = painted()
    assert [env.reset()[1]["seed"] for _ in range(3)] == [7, None, None]
    assert env.reset(seed=3)[1]["seed"] == 3


def test_cartpole_is_played_from_pixels():
    env = make_env(EnvConfig(id="CartPole-v1", pixels=True), seed=0)
    first, _ = env.reset()
    assert first.shape == (64, 64, 3) and first.std() > 0
    ends = False
    while not ends:
        frame, reward, terminated, truncated, _ = env.step(0)
        ends = terminated or truncated
    assert reward == 1.0 and terminated and not np.array_equal(first, frame)
    assert snapshot(env) is None
    again = make_env(EnvConfig(id="CartPole-v1", pixels=True), seed=0)
    assert np.array_equal(again.reset()[0], first)
    env.close()
    again.close()


def test_minigrid_is_played_from_pixels_and_through_its_own_wrapper():
    pytest.importorskip("minigrid")
    env = make_env(EnvConfig(id="MiniGrid-Empty-5x5-v0", pixels=True, size=32), seed=0)
    frame, _ = env.reset()
    turned = env.step(0)[0]
    assert frame.shape == (32, 32, 3) and not np.array_equal(frame, turned)
    with pytest.raises(UsageError, match=r"env\.pixels"):
        make_env(EnvConfig(id="MiniGrid-Empty-5x5-v0"), seed=0)


def test_crafter_is_played_through_the_shim():
    pytest.importorskip("crafter")
    env = make_env(EnvConfig(id="crafter:Env", old_api=True, options='{"seed": 1}'), seed=0)
    frame, _ = env.reset()
    assert frame.shape == (64, 64, 3) and frame.std() > 0 and env.action_space.n == 17
    assert env.step(1)[2:4] == (False, False)


def test_a_world_of_the_users_can_take_part_in_snapshots():
    cfg = EnvConfig(id="standin_worlds:Saved", time_limit=9)
    env, other = make_env(cfg, seed=0), make_env(cfg, seed=0)
    env.reset()
    env.step(0)
    state = snapshot(env)
    assert state is not None and snapshot(painted()) is None
    restore(other, state)
    assert [other.step(0)[2] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("limit", [False, True])
def test_the_old_interface_is_understood(limit):
    options = '{"limit": true}' if limit else ""
    env = make_env(
        EnvConfig(id="standin_worlds:Old", old_api=True, options=options, size=16), seed=4
    )
    frame, _ = env.reset()
    assert frame.max() == 0 and env.unwrapped.env.seeds == [4]
    steps = [env.step(1) for _ in range(3)]
    assert [step[0].max() for step in steps] == [1, 2, 3]
    assert steps[0][2:4] == (False, False) and steps[2][2:4] == (not limit, limit)


@pytest.mark.parametrize(
    "cfg,words",
    [
        (EnvConfig(id="CartPol-v1"), "did you mean CartPole-v1"),
        (EnvConfig(id="cathc"), "did you mean catch"),
        (EnvConfig(id="zzzzzzzzzz"), "horizon envs"),
        (EnvConfig(id="Pendulum-v1", pixels=True), "continuous actions"),
        (EnvConfig(id="standin_worlds:Continuous"), "continuous actions"),
        (EnvConfig(id="CartPole-v1"), r"no image.*--env\.pixels"),
        (EnvConfig(id="standin_worlds:TwoPictures"), "2 images among the entries left, right"),
        (EnvConfig(id="standin_worlds:Missing"), "has no Missing"),
        (EnvConfig(id="no_such_module:Name"), "cannot import no_such_module"),
        (EnvConfig(id="standin_worlds:Old"), r"add --env\.old_api"),
        (EnvConfig(id="standin_worlds:Painted", old_api=True), None),
        (EnvConfig(id="standin_worlds:Painted", options="{"), "no JSON"),
        (EnvConfig(id="standin_worlds:Painted", options="[1]"), "JSON object"),
        (EnvConfig(id="standin_worlds:Painted", options='{"colour": 1}'), "could not be built"),
    ],
)
def test_bad_input_is_answered_in_one_line(cfg, words):
    with pytest.raises(UsageError, match=words) as error:
        make_env(cfg, seed=0).reset()
    assert "\n" not in str(error.value)
