"""Environments nobody here wrote, and every layout of an image."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from standin_worlds import Painted, Shown

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import EnvFailure, make_env, restore, snapshot
from horizon_imagination.envs.checked import first_line
from horizon_imagination.envs.frames import view_of
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


def test_frames_that_are_skipped_are_not_drawn(monkeypatch):
    drawn, draw = [], Shown.render
    monkeypatch.setattr(Shown, "render", lambda self: drawn.append(1) or draw(self))
    options = json.dumps({"shape": [16, 16, 3], "render_mode": "rgb_array"})
    cfg = EnvConfig(id="standin_worlds:Shown", options=options, size=16, pixels=True, frame_skip=3)
    env = make_env(cfg, seed=0)
    env.reset()
    env.step(0)
    assert len(drawn) == 2


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


def shown(shape, **options):
    changes = {name: options.pop(name) for name in ("channels", "range", "grey") if name in options}
    told = json.dumps({"shape": shape, **options})
    return make_env(EnvConfig(id="standin_worlds:Shown", options=told, size=16, **changes), seed=0)


def raw(env):
    return env.unwrapped.picture


@pytest.mark.parametrize("shape", [(16, 16, 4), (4, 16, 16)])
def test_four_channels_are_refused_until_they_are_named(shape):
    with pytest.raises(UsageError, match=r"--env\.channels rgba or --env\.channels stack"):
        shown(shape)


@pytest.mark.parametrize("shape", [(16, 16, 4), (4, 16, 16)])
def test_transparency_is_dropped_and_a_stack_keeps_its_newest_frame(shape):
    rgba, stack = shown(shape, channels="rgba"), shown(shape, channels="stack")
    picture = raw(rgba) if shape[-1] == 4 else raw(rgba).transpose(1, 2, 0)
    assert np.array_equal(rgba.reset()[0], picture[:, :, :3])
    assert np.array_equal(stack.reset()[0], picture)
    assert stack.observation_space.shape == (16, 16, 4)


@pytest.mark.parametrize("shape", [(3, 16, 16, 3), (3, 3, 16, 16), (2, 16, 16, 1)])
def test_a_stack_of_pictures_keeps_them_in_order(shape):
    env = shown(shape, channels="stack")
    last = shape[-1] in (1, 3)
    newest = raw(env)[-1] if last else raw(env)[-1].transpose(1, 2, 0)
    assert np.array_equal(env.reset()[0][:, :, -newest.shape[2] :], newest)


def test_planes_of_truth_values_become_black_and_white():
    env = shown((16, 16, 6), dtype="bool", bounds=(0, 1), channels="stack")
    assert np.array_equal(env.reset()[0], 255 * raw(env).astype(np.uint8))
    with pytest.raises(UsageError, match=r"--env\.channels stack keeps every channel"):
        shown((16, 16, 6), dtype="bool", bounds=(0, 1))


@pytest.mark.parametrize("bounds", [(-1, 1), (0, 1), (0, 255), (10, 20)])
def test_floats_are_spread_by_the_bounds_of_their_space(bounds):
    env = shown((16, 16, 3), dtype="float32", bounds=bounds)
    low, high = bounds
    expected = (raw(env) - low) / (high - low) * 255
    assert np.abs(env.reset()[0] - expected).max() <= 0.51
    assert env.reset()[0].min() < 5 and env.reset()[0].max() > 250


def test_floats_without_bounds_need_a_range():
    unbounded = {"dtype": "float32", "bounds": (-1e10, 1e10), "values": (-3, 3)}
    with pytest.raises(UsageError, match=r"from -inf to inf.*--env\.range"):
        shown((16, 16, 3), **unbounded)
    env = shown((16, 16, 3), range=(-3.0, 3.0), **unbounded)
    assert np.abs(env.reset()[0] - (raw(env) + 3) / 6 * 255).max() <= 0.51


@pytest.mark.parametrize(
    "options,words",
    [
        (
            {"dtype": "float32", "bounds": (0, 1), "values": (0, 255)},
            r"outside its range.*env\.range",
        ),
        ({"dtype": "float32", "bounds": (0, 1), "shown_as": "uint8"}, "is uint8, but its space"),
        ({"values": (0, 1), "shown_as": "float32"}, r"is float32, but uint8 was .*--env\.range"),
    ],
)
def test_values_that_contradict_the_space_are_refused(options, words):
    with pytest.raises(EnvFailure, match=words):
        shown((16, 16, 3), **options).reset()


def drawn(kind, **changes):
    """A world that is seen by its render, of bytes or of floats from 0 to 1."""
    options = json.dumps({"shape": [16, 16, 3], "drawn_as": kind})
    cfg = EnvConfig(id="standin_worlds:Shown", options=options, size=16, pixels=True, **changes)
    return make_env(cfg, seed=0)


def test_a_render_of_floats_needs_a_range_and_is_never_taken_for_black():
    with pytest.raises(EnvFailure, match=r"the render is float64.*e\.g\. --env\.range 0 1"):
        drawn("float64").reset()
    env, expected = drawn("float64", range=(0.0, 1.0)), drawn("uint8")
    assert np.array_equal(env.reset()[0], expected.reset()[0]) and env.reset()[0].max() > 200
    read = "the render, 16 x 16 x 3 float64, values 0 to 1, as 16 x 16 x 3 (RGB) bytes"
    assert view_of(env).line() == read
    assert "the render, 16 x 16 x 3 uint8" in view_of(expected).line()


@pytest.mark.parametrize(
    "env,words",
    [
        (
            lambda: shown((16, 24, 3)),
            "the observation, 16 x 24 x 3 uint8, values 0 to 255, as",
        ),
        (lambda: painted("dict chw"), "the entry 'image' of the observation, 3 x 24 x 32 uint8"),
        (lambda: shown((4, 16, 16), channels="stack"), r"every channel kept, as 16 x 16 x 4 \(st"),
        (lambda: shown((16, 16, 3), dtype="float32", bounds=(-1, 1)), "float32, values -1 to 1"),
    ],
)
def test_a_line_says_how_the_picture_is_read(env, words):
    assert re.search(words, view_of(env()).line())


def test_a_stack_that_changed_since_the_run_began_is_refused():
    with pytest.raises(UsageError, match="stack_channels is 3, but standin_worlds:Shown shows 4"):
        cfg = EnvConfig(
            id="standin_worlds:Shown", options='{"shape": [4, 16, 16]}', channels="stack"
        )
        make_env(replace(cfg, stack_channels=3), seed=0)


def rude(how):
    return make_env(
        EnvConfig(id="standin_worlds:Rude", size=16, options=json.dumps({"how": how})), seed=0
    )


@pytest.mark.parametrize(
    "how,words",
    [
        (
            "bare reset",
            r"reset\(\).* gave ndarray of .*expected \(observation, info\).*old-api",
        ),
        ("reset", r"reset\(\) of standin_worlds:Rude failed: RuntimeError: the level$"),
        ("four", r"step\(\) .* gave 4 values: expected .*--env\.old-api"),
        ("one", "gave ndarray of shape"),
        ("reward text", "the reward 'much'"),
        ("reward none", "the reward None"),
        ("reward inf", r"the reward inf \(step 2 of an episode\): expected a finite number"),
        ("reward huge", r"the reward 1e\+39"),
        ("flags", r"ndarray of shape \(2,\) for terminated or truncated"),
        ("shape", r"shape \(8, 16, 3\), but its space says \(16, 16, 3\)"),
        ("dtype", "expected numbers"),
        ("nothing", r"shape \(\), but its space"),
        ("exit", "failed.*SystemExit: 0"),
        ("raise", r"step\(\) .* failed \(step 2 of an episode\): RuntimeError: the engine is gone"),
    ],
)
def test_what_a_world_does_against_the_contract_is_one_line(how, words):
    with pytest.raises(EnvFailure, match=words) as error:
        env = rude(how)
        env.reset()
        env.step(0)
        env.step(0)
    assert "\n" not in str(error.value)
    assert ("the engine is gone" in error.value.traceback) == (how == "raise")


def test_a_world_without_info_is_forgiven():
    assert rude("no info").reset()[1] == {}


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
        (EnvConfig(id="far-away-v0"), r"--env PACKAGE:far-away-v0$"),
        (EnvConfig(id="zz-zzzz-v0"), r"is unknown: name the package .* PACKAGE:zz-zzzz-v0$"),
        (EnvConfig(id="standin_worlds:Unbounded"), "finite bounds.*RescaleAction"),
        (EnvConfig(id="standin_worlds:Composite"), "composite actions"),
        (EnvConfig(id="CartPole-v1"), r"no image.*--env\.pixels"),
        (EnvConfig(id="standin_worlds:TwoPictures"), "2 images among the entries left, right"),
        (EnvConfig(id="standin_worlds:Missing"), "has no Missing"),
        (EnvConfig(id="no_such_module:Name"), "cannot import no_such_module"),
        (EnvConfig(id="standin_worlds:Old"), r"add --env\.old-api"),
        (EnvConfig(id="standin_worlds:Painted", old_api=True), None),
        (EnvConfig(id="standin_worlds:Painted", options="{"), "no JSON"),
        (EnvConfig(id="standin_worlds:Painted", options="[1]"), "JSON object"),
        (EnvConfig(id="standin_worlds:Painted", options='{"colour": 1}'), "could not be built"),
        (
            EnvConfig(id="standin_worlds:Rude", options='{"how": "build"}'),
            "KeyError: 'no such level'",
        ),
        (EnvConfig(id="standin_worlds:Rude", options='{"how": "exit early"}'), "SystemExit: 3"),
        (EnvConfig(id="standin_worlds:Seedless"), r"reset\(\) takes no seed.*--env\.old-api"),
        (EnvConfig(id="standin_worlds:Spaceless"), "Spaceless has no action_space"),
        (EnvConfig(id="catch", options='{"size": 8}'), "env.options does not apply to catch"),
        (EnvConfig(id="Boxing", options='{"mode": 8}'), r"env\.options does not apply.*env\.atari"),
        (EnvConfig(id="catch", channels="stack"), "do not apply to catch"),
    ],
)
def test_bad_input_is_answered_in_one_line(cfg, words):
    with pytest.raises(UsageError, match=words) as error:
        make_env(cfg, seed=0).reset()
    assert "\n" not in str(error.value)


def test_an_exception_that_cannot_be_told_as_text_is_told_by_its_kind():
    class MuteError(RuntimeError):
        def __str__(self):
            raise ValueError("no words for it")

    assert first_line(MuteError()) == "MuteError"
    assert first_line(RuntimeError("one\ntwo")) == "RuntimeError: one"


def test_frames_of_absurd_size_are_refused():
    with pytest.raises(UsageError, match=r"env\.size is 100000: expected at most 4096"):
        make_env(EnvConfig(id="catch", size=100_000), 0)
