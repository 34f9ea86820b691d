"""Each point of the Atari protocol against the real emulator."""

import itertools
import json
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from PIL import Image

from horizon_imagination.config import AtariConfig, EnvConfig
from horizon_imagination.envs import make_env, restore, snapshot
from horizon_imagination.envs.atari import LIFE_LOST, PAPER_GAMES, Atari, atari_games
from horizon_imagination.envs.known import atari_game
from horizon_imagination.errors import UsageError

ale_py = pytest.importorskip("ale_py")
gymnasium.register_envs(ale_py)
DEFAULT = AtariConfig()
QUIET = AtariConfig(max_noops=0)


def reference(game: str, **arguments) -> gymnasium.Env:
    """What the published runs stepped: ale-py's own Gymnasium environment."""
    env = gymnasium.make(f"ALE/{game}-v5", **({"repeat_action_probability": 0.0} | arguments))
    return env.unwrapped


def pillow(screen: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(screen).resize((64, 64), Image.Resampling.BILINEAR))


def actions(env: gymnasium.Env, steps: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(env.action_space.n, size=steps).tolist()


def play(env: gymnasium.Env, steps: int, seed: int = 0) -> list:
    trace = []
    for action in actions(env, steps, seed):
        frame, reward, terminated, truncated, _ = env.step(action)
        trace.append((frame.tobytes(), reward, terminated, truncated))
        if terminated or truncated:
            trace.append(env.reset()[0].tobytes())
    return trace


@pytest.mark.parametrize("game,num_actions", PAPER_GAMES.items())
def test_frames_and_rewards_are_those_of_the_published_runs(game, num_actions):
    """The same actions in ale-py's environment, seen through Pillow, show the same."""
    env = Atari(game, 64, QUIET)
    env.reset(seed=0)
    twin = reference(game)
    twin.reset(seed=0)
    assert env.action_space.n == twin.action_space.n == num_actions
    rewards = []
    for action in actions(env, 200):
        frame, reward, terminated, truncated, _ = env.step(action)
        screen, twin_reward, twin_terminated, twin_truncated, _ = twin.step(action)
        assert (reward, terminated, truncated) == (twin_reward, twin_terminated, twin_truncated)
        assert np.abs(frame.astype(int) - pillow(screen)).max() <= 1
        rewards.append(reward)
        if terminated:
            break
    assert any(rewards) or game in ("Gopher", "KungFuMaster")  # their first points come late


@pytest.mark.parametrize("frame_skip", [1, 3, 4])
def test_a_step_emulates_frame_skip_frames(frame_skip):
    env = Atari("Gopher", 64, replace(QUIET, frame_skip=frame_skip))
    env.reset()
    assert env.ale.getEpisodeFrameNumber() == 0
    for step in range(1, 6):
        *_, info = env.step(0)
        assert info["episode_frames"] == env.ale.getEpisodeFrameNumber() == step * frame_skip


@pytest.mark.parametrize("unit,frames", [("steps", 4), ("frames", 1)])
def test_a_reset_takes_one_to_max_noops_noops(unit, frames):
    env = Atari("Gopher", 64, AtariConfig(max_noops=3, noop_unit=unit), seed=0)
    seen = {env.reset()[1]["episode_frames"] for _ in range(30)}
    assert seen == {frames, 2 * frames, 3 * frames}


def test_by_default_a_reset_takes_up_to_thirty_agent_steps():
    env = Atari("Boxing", 16, DEFAULT, seed=1)
    seen = {env.reset()[1]["episode_frames"] for _ in range(40)}
    assert min(seen) >= 4 and max(seen) <= 120 and len(seen) > 10
    assert all(frames % 4 == 0 for frames in seen)


def test_the_rewards_of_skipped_frames_are_summed():
    single = Atari("CrazyClimber", 16, replace(QUIET, frame_skip=1))
    skipping = Atari("CrazyClimber", 16, QUIET)
    single.reset(seed=5)
    skipping.reset(seed=5)
    inside = 0
    for action in actions(skipping, 150):
        parts = [single.step(action)[1] for _ in range(4)]
        assert skipping.step(action)[1] == sum(parts)
        inside += any(parts[:3])
    assert inside  # some reward fell on a frame that only a sum can see


def test_max_pool_shows_the_maximum_of_the_last_two_emulated_frames():
    pooled = Atari("Asteroids", 64, replace(QUIET, max_pool=True))
    single = Atari("Asteroids", 64, replace(QUIET, frame_skip=1))
    pooled.reset(seed=2)
    single.reset(seed=2)
    differences = 0
    for action in actions(pooled, 60):
        frame = pooled.step(action)[0]
        screens = []
        for _ in range(4):
            single.step(action)
            screens.append(single.ale.getScreenRGB())
        expected = pillow(np.maximum(screens[2], screens[3]))
        assert np.abs(frame.astype(int) - expected).max() <= 1
        differences += not np.array_equal(screens[2], screens[3])
    assert differences


def test_the_full_action_set_has_eighteen_actions_in_the_emulators_order():
    env = Atari("Gopher", 16, replace(QUIET, full_actions=True))
    assert [action.value for action in env.actions] == list(range(18)) and env.action_space.n == 18
    assert Atari("Gopher", 16, QUIET).action_space.n == 8


def test_sticky_actions_are_off_by_default_and_repeat_when_asked_for():
    assert Atari("Boxing", 16, DEFAULT).ale.getFloat("repeat_action_probability") == 0.0
    traces = []
    for sticky, seed in ((0.0, 1), (0.0, 2), (0.5, 1), (0.5, 1), (0.5, 2)):
        env = Atari("Boxing", 16, replace(QUIET, sticky=sticky))
        env.reset(seed=seed)
        traces.append(play(env, 60))
    plain, plain_other_seed, sticky, again, other_seed = traces
    assert plain == plain_other_seed and sticky == again
    assert sticky != plain and sticky != other_seed


def breakout(**changes) -> Atari:
    return Atari("Breakout", 32, replace(QUIET, **changes))


def until_end(env: Atari) -> tuple[int, bool, bool]:
    """Serve and stand still: (steps, terminated, truncated) at the end."""
    for step in itertools.count(1):
        _, _, terminated, truncated, _ = env.step(1)
        if terminated or truncated:
            return step, terminated, truncated


def test_by_default_only_the_end_of_the_game_ends_an_episode():
    env = breakout()
    env.reset(seed=0)
    until_end(env)
    assert env.ale.lives() == 0 and env.ale.game_over(with_truncation=False)


def test_the_loss_of_a_life_can_end_an_episode_and_the_game_goes_on():
    env = breakout(end_on_life_loss=True)
    _, info = env.reset(seed=0)
    lives = [info["lives"]]
    for _ in range(5):
        _, terminated, truncated = until_end(env)
        assert terminated and not truncated
        lives.append(env.ale.lives())
        _, info = env.reset()
    assert lives == [5, 4, 3, 2, 1, 0] and info["lives"] == 5


def test_a_lost_life_is_told_apart_from_the_end_of_the_game():
    env, said = breakout(end_on_life_loss=True), []
    env.reset(seed=0)
    for _ in range(5):
        terminated = False
        while not terminated:
            *_, terminated, _, info = env.step(1)
        said.append(info.get(LIFE_LOST))
        env.reset()
    assert said == [True, True, True, True, None]


def test_rewards_are_raw_unless_their_sign_is_asked_for():
    raw, signs = (
        Atari("CrazyClimber", 16, QUIET),
        Atari("CrazyClimber", 16, replace(QUIET, sign_rewards=True)),
    )
    raw.reset(seed=0)
    signs.reset(seed=0)
    rewards = [(raw.step(a)[1], signs.step(a)[1]) for a in actions(raw, 150)]
    assert max(r for r, _ in rewards) > 1
    assert all(sign == np.sign(reward) for reward, sign in rewards)


def test_an_episode_is_truncated_at_max_frames():
    env = Atari("Gopher", 16, replace(QUIET, max_frames=40))
    env.reset(seed=0)
    steps, terminated, truncated = until_end(env)
    assert (steps, terminated, truncated) == (10, False, True)
    assert env.reset()[1]["episode_frames"] == 0


def test_the_terminal_frame_is_the_last_screen_of_the_game():
    env, twin = breakout(), reference("Breakout")
    env.reset(seed=0)
    twin.reset(seed=0)
    terminated = False
    while not terminated:
        frame, _, terminated, _, _ = env.step(1)
        screen, _, twin_terminated, _, _ = twin.step(1)
        assert terminated == twin_terminated
    reference_frame = np.asarray(
        Image.fromarray(screen).resize((32, 32), Image.Resampling.BILINEAR)
    )
    assert np.abs(frame.astype(int) - reference_frame).max() <= 1


PROTOCOLS = [
    DEFAULT,
    AtariConfig(sticky=0.25, max_noops=5),
    AtariConfig(max_pool=True, frame_skip=1, max_frames=90),
    AtariConfig(end_on_life_loss=True, max_noops=3),
]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["default", "sticky", "max_pool", "lives"])
def test_a_restored_emulator_goes_on_bit_for_bit(protocol):
    cfg = EnvConfig(id="Breakout", size=32, atari=protocol, time_limit=70, grey=True)
    env = make_env(cfg, seed=3)
    env.reset()
    play(env, 50)
    state = snapshot(env)
    assert state is not None and plain(state)
    after = play(env, 150, seed=1)
    fresh = make_env(cfg, seed=77)
    restore(fresh, state)
    assert play(fresh, 150, seed=1) == after


def test_a_restored_emulator_remembers_that_a_life_was_lost():
    env, fresh = breakout(end_on_life_loss=True), breakout(end_on_life_loss=True)
    env.reset(seed=0)
    until_end(env)
    restore(fresh, snapshot(env))
    assert fresh.reset()[1]["lives"] == env.reset()[1]["lives"] == 4


def plain(value) -> bool:
    """Only what JSON and plain arrays can hold."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(plain(v) for v in value)
    if isinstance(value, np.ndarray):
        return value.dtype != object
    return json.loads(json.dumps(value)) == value


def test_the_same_seed_gives_the_same_episodes():
    envs = [make_env(EnvConfig(id="ALE/Boxing-v5", size=16), seed=s) for s in (1, 1, 2)]
    starts = [[env.reset()[1]["episode_frames"] for _ in range(5)] for env in envs]
    assert starts[0] == starts[1] != starts[2]


def test_every_game_of_the_emulator_can_be_named():
    assert len(atari_games()) == 104
    assert atari_game("ALE/KungFuMaster-v5") == atari_game("KungFuMaster") == "KungFuMaster"
    assert atari_game("ALE/KungFuMaster-v4") is atari_game("KungFuMaster-v5") is None
    for game in ("Pong", "MsPacman", "MontezumaRevenge"):
        frame, _ = Atari(game, 64, QUIET).reset()
        assert frame.shape == (64, 64, 3) and frame.std() > 0


@pytest.mark.parametrize(
    "name,near",
    [("ALE/Boxng-v5", "ALE/Boxing-v5"), ("KungFuMastr", "KungFuMaster"), ("boxing", "Boxing")],
)
def test_a_misspelt_game_is_answered_with_the_nearest_one(name, near):
    with pytest.raises(UsageError, match=f"did you mean {near}") as error:
        make_env(EnvConfig(id=name), seed=0)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "changes", [{"frame_skip": 0}, {"max_noops": -1}, {"sticky": 1.0}, {"max_frames": 0}]
)
def test_impossible_protocols_are_refused(changes):
    with pytest.raises(UsageError, match=f"env.atari.{next(iter(changes))}"):
        make_env(EnvConfig(id="Boxing", atari=AtariConfig(**changes)), seed=0)


def test_the_general_frame_skip_does_not_apply():
    with pytest.raises(UsageError, match=r"env\.atari\.frame_skip"):
        make_env(EnvConfig(id="Boxing", frame_skip=2), seed=0)
