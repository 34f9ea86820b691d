"""A replay that draws from the first rows of a store alone, while others are written."""

import tempfile
from pathlib import Path

import pytest
import torch
from coded_world import action_at, create, fill, frame_at, play, reward_at
from hypothesis import given, settings
from hypothesis import strategies as st

from horizon_imagination.config import ReplayConfig
from horizon_imagination.data import Replay
from horizon_imagination.data.segment import shift_right
from horizon_imagination.errors import UsageError

LENGTH, BATCH = 6, 40
EPISODES = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=6)
"""Steps of each, and whether it terminates."""
CONFIGS = st.builds(
    ReplayConfig,
    capacity=st.integers(1, 60),
    recent_share=st.sampled_from([0.0, 0.5, 1.0]),
    min_segment=st.integers(1, 7),
    min_future=st.integers(1, 4),
)


def writes(episodes):
    """One call for every row; the last episode is open."""
    for episode, (steps, terminates) in enumerate(episodes):
        yield lambda store, episode=episode: store.begin(frame_at(episode, 0))
        for step in range(steps):
            over = step == steps - 1 and episode < len(episodes) - 1
            taken = action_at(episode, step), reward_at(episode, step)
            ended = over and terminates, over and not terminates
            after = frame_at(episode, step + 1)
            yield lambda store, told=(*taken, *ended, after): store.add(*told)


def drawn(replay, kind, seed):
    """Rows and all that learners take from them, or why there is nothing to draw."""
    rng = torch.Generator().manual_seed(seed)
    try:
        if kind == "frames":
            rows = replay.frame_rows(BATCH, rng)
            return rows, replay.gather_frames(rows)
        rows, mask = getattr(replay, kind)(BATCH, LENGTH, rng)
    except UsageError as error:
        return str(error).split(" has ")[1]
    found = replay.gather(rows, mask)
    if kind == "context_rows":
        return rows, mask, found.frames, found.action, found.reward, found.terminated
    # The steps that led to its frames: of one on the last frame no learner asks anything.
    steps = shift_right(found.reward, 0.0), shift_right(found.terminated, False)
    return rows, mask, found.frames, *(step * mask for step in (found.prev_actions, *steps))


def assert_equal(first, second):
    assert type(first) is type(second)
    if isinstance(first, str):
        assert first == second
        return
    for mine, theirs in zip(first, second, strict=True):
        assert torch.equal(mine, theirs)


@settings(max_examples=100, deadline=None)
@given(EPISODES, st.data(), CONFIGS, st.integers(0, 99))
def test_draws_are_those_of_a_store_that_has_only_the_visible_rows(episodes, data, config, seed):
    todo = list(writes(episodes))
    visible = data.draw(st.integers(0, len(todo)))
    with tempfile.TemporaryDirectory() as folder:
        whole, part = create(Path(folder) / "whole"), create(Path(folder) / "part")
        for number, write in enumerate(todo):
            write(whole)
            if number < visible:
                write(part)
        replay, alone = Replay(whole, config), Replay(part, config)
        replay.visible = visible
        for kind in ("frames", "segment_rows", "context_rows"):
            assert_equal(drawn(replay, kind, seed), drawn(alone, kind, seed))
        whole.close()
        part.close()


@pytest.mark.parametrize("kind", ["frames", "segment_rows", "context_rows"])
def test_the_comparison_finds_one_row_too_many(tmp_path, kind):
    replay = Replay(fill(create(tmp_path / "x")), ReplayConfig(min_segment=2))
    replay.visible = 20
    exact = drawn(replay, kind, 0)
    replay.visible = 21
    assert not torch.equal(drawn(replay, kind, 0)[0], exact[0])


def test_the_visible_rows_stay_the_same_while_the_store_grows_until_all_are_visible(tmp_path):
    store = create(tmp_path / "x")
    play(store, 0, 7)
    play(store, 1, 5, "open")
    replay = Replay(store, ReplayConfig(min_segment=2))
    before = drawn(replay, "segment_rows", 0)
    replay.visible = store.num_frames
    assert_equal(drawn(replay, "segment_rows", 0), before)
    store.add(1, 0.5, True, False, frame_at(1, 6))
    play(store, 2, 30)
    assert_equal(drawn(replay, "segment_rows", 0), before)
    replay.visible = None
    rows, *_ = drawn(replay, "segment_rows", 0)
    assert rows.max() == store.num_frames - 1


def test_what_is_latest_is_of_all_rows(tmp_path):
    """Whoever acts sees the frame of now."""
    replay = Replay(fill(create(tmp_path / "x")), ReplayConfig())
    expected = replay.latest(4).frames
    replay.visible = 3
    assert torch.equal(replay.latest(4).frames, expected)
