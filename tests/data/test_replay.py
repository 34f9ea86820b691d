from dataclasses import replace

import numpy as np
import pytest
import torch
from coded_world import ENDS, LENGTHS, assert_consistent, create, fill, frame_at, play
from scipy.stats import chisquare

from horizon_imagination.config import ReplayConfig
from horizon_imagination.data import Replay, Store
from horizon_imagination.errors import UsageError

UNIFORM = ReplayConfig(recent_share=0.0, min_segment=4)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def store(tmp_path):
    return fill(create(tmp_path / "x"))


def segments(replay, batch, length, rng):
    return replay.gather(*replay.segment_rows(batch, length, rng))


def contexts(replay, batch, length, rng):
    return replay.gather(*replay.context_rows(batch, length, rng))


def codes(segment):
    """(episode, step) of the last real frame of each sample."""
    last = segment.mask.sum(1) - 1
    return [tuple(x.tolist()) for x in segment.frames[range(len(last)), last, :2, 0, 0]]


def test_segments_have_everything_in_its_place_and_never_cross_an_episode(store):
    found = segments(Replay(store, UNIFORM), 500, 8, generator())
    assert found.frames.shape == (500, 8, 3, 4, 4)
    for row in range(500):
        assert_consistent(found, row)
    assert found.mask.sum(1).min() == 4
    assert (found.mask.sum(1) == 8).any()


def test_a_shift_by_one_would_be_noticed(store):
    found = segments(Replay(store, UNIFORM), 20, 8, generator())
    shifted = replace(found, action=found.action.roll(1, dims=1))
    with pytest.raises(AssertionError):
        for row in range(20):
            assert_consistent(shifted, row)


@pytest.mark.parametrize("shortest", [2, 4])
def test_an_end_comes_at_the_earliest_with_the_last_frame_of_the_shortest_segment(store, shortest):
    """So a reward model never learns that a context may end before."""
    replay = Replay(store, replace(UNIFORM, min_segment=shortest))
    ended = segments(replay, 2000, 8, generator()).terminated.any(0)
    assert ended.nonzero()[0].item() == shortest - 2, "the step that led to that frame"


def test_every_row_with_enough_frames_left_begins_some_segment(store):
    rows = Replay(store, UNIFORM).segment_rows(4000, 8, generator()).rows[:, 0]
    ends = zip(store.starts, store.ends, strict=True)
    assert set(rows.tolist()) == {r for start, end in ends for r in range(start, end - 3)}


def test_the_terminal_frame_is_kept(store):
    found = segments(Replay(store, UNIFORM), 500, 8, generator())
    seen = set(codes(found))
    assert {(e, LENGTHS[e]) for e in (0, 1, 3)} <= seen
    terminal = (found.terminated[:, :-1] & found.mask[:, 1:]).sum()
    assert terminal > 0 and terminal == found.terminated[:, :-1].sum()


def reaches_an_end(found):
    """Whether a segment holds the frame after which its episode was over."""
    return (found.terminated[:, :-1] & found.mask[:, 1:]).any(1)


def test_a_share_of_segments_reaches_the_end_of_its_episode(tmp_path):
    store = create(tmp_path / "x")
    for episode in range(4):
        play(store, episode, 200, "terminated")
    replay = Replay(store, UNIFORM)
    for share in (0.0, 0.25, 1.0):
        found = replay.gather(*replay.segment_rows(4000, 8, generator(), share))
        alone = 5 / 198  # starts from which 8 frames reach the end, of those with 4 frames left
        expected = share + (1 - share) * alone
        assert reaches_an_end(found).float().mean() == pytest.approx(expected, abs=0.03)
    # All were moved: they begin as often at each of the rows that reach the end.
    back = found.mask.sum(1)
    assert chisquare(torch.bincount(back)[4:].numpy()).pvalue > 0.01


def test_segments_that_reach_an_end_have_everything_in_its_place(store):
    found = Replay(store, UNIFORM)
    found = found.gather(*found.segment_rows(500, 8, generator(), 1.0))
    for row in range(500):
        assert_consistent(found, row)


def test_nothing_is_drawn_for_a_share_of_none(store):
    same = [
        Replay(store, UNIFORM).segment_rows(50, 8, rng, *share).rows
        for rng, share in ((generator(), ()), (generator(), (0.0,)))
    ]
    assert torch.equal(*same)


def test_episodes_that_were_truncated_have_no_end_to_reach(tmp_path):
    store = create(tmp_path / "x")
    play(store, 0, 60, "truncated")
    replay = Replay(store, UNIFORM)
    moved = replay.segment_rows(500, 8, generator(), 1.0).rows
    assert torch.equal(moved, replay.segment_rows(500, 8, generator()).rows)


def test_contexts_end_on_every_frame_with_an_action_and_on_no_other(store):
    found = contexts(Replay(store, UNIFORM), 4000, 6, generator())
    for row in range(300):
        assert_consistent(found, row)
    assert set(codes(found)) == {(e, t) for e, n in enumerate(LENGTHS) for t in range(n)}


def test_contexts_reach_back_as_far_as_the_episode_allows(store):
    found = contexts(Replay(store, UNIFORM), 500, 6, generator())
    for length, (_, step) in zip(found.mask.sum(1).tolist(), codes(found), strict=True):
        assert length == min(6, step + 1)


def test_single_frames_include_the_last_ones(store):
    frames = Replay(store, UNIFORM).frames(3000, generator())
    seen = {tuple(x.tolist()) for x in frames[:, :2, 0, 0]}
    assert seen == {(e, t) for e, n in enumerate(LENGTHS) for t in range(n + 1)}


def test_three_in_ten_draws_favour_recent_rows(tmp_path):
    store = create(tmp_path / "x")
    for episode in range(100):
        play(store, episode, 9)
    draws, edges = 40_000, np.arange(11) / 10
    recent = np.diff(edges**3)  # the distribution function of Beta(3, 1) is x^3
    mixed, uniform = 0.7 * 0.1 + 0.3 * recent, np.full(10, 0.1)
    replay = Replay(store, ReplayConfig())
    for rows, eligible in (
        (replay.frame_rows(draws, generator(1)), np.arange(1000)),
        (replay.segment_rows(draws, 5, generator(2)).rows[:, 0], np.arange(1000) % 10 <= 6),
        (replay.context_rows(draws, 1, generator(3)).rows[:, 0], np.arange(1000) % 10 <= 8),
    ):
        place = np.searchsorted(np.arange(1000)[eligible], rows.numpy())
        total = len(np.arange(1000)[eligible])
        counts = np.bincount(place * 10 // total, minlength=10)
        assert chisquare(counts, mixed * draws).pvalue > 1e-3
        assert chisquare(counts, uniform * draws).pvalue < 1e-9


def test_only_the_newest_frames_count(store):
    config = ReplayConfig(capacity=25, min_segment=2)
    replay, oldest = Replay(store, config), store.num_frames - 25
    for rows, mask in (
        replay.segment_rows(2000, 8, generator()),
        replay.context_rows(2000, 8, generator()),
    ):
        assert rows[mask].min() == oldest
        assert (rows[~mask] == -1).all()
    assert replay.frame_rows(2000, generator()).min() == oldest


def test_samples_follow_the_store_as_it_grows_and_is_rewound(tmp_path):
    store = create(tmp_path / "x")
    replay = Replay(store, UNIFORM)
    play(store, 0, 7)
    assert replay.frame_rows(500, generator()).max() == 7
    position = store.position()
    play(store, 1, 12, "truncated")
    assert replay.frame_rows(500, generator()).max() == 20
    assert any(episode == 1 for episode, _ in codes(contexts(replay, 100, 3, generator())))
    store.rewind(position)
    assert replay.frame_rows(500, generator()).max() == 7


def test_single_frames_are_those_of_their_rows(store):
    replay = Replay(store, ReplayConfig())
    frames = replay.gather_frames(replay.frame_rows(9, generator(6)))
    assert torch.equal(frames, replay.frames(9, generator(6)))


def test_a_reader_samples_the_same_as_the_writer(store, tmp_path):
    store.flush()
    reader = Replay(Store.open(tmp_path / "x"), ReplayConfig())
    expected = contexts(Replay(store, ReplayConfig()), 50, 5, generator())
    assert torch.equal(contexts(reader, 50, 5, generator()).frames, expected.frames)


def test_the_latest_context_is_the_end_of_the_open_episode(store):
    replay = Replay(store, UNIFORM)
    latest = replay.latest(4)
    assert latest.frames[0, :, 1, 0, 0].tolist() == [6, 7, 8, 9]
    assert latest.prev_actions[0, -1] == latest.frames[0, -1, 2, 0, 0].int() - 1
    assert replay.latest(50).frames.shape[1] == LENGTHS[-1] + 1 and ENDS[-1] == "open"
    store.end()
    with pytest.raises(ValueError, match="no episode is open"):
        replay.latest(4)


def test_too_little_data_is_one_clear_error(tmp_path):
    store = create(tmp_path / "x")
    replay = Replay(store, UNIFORM)
    with pytest.raises(UsageError, match="no episode of 1 frame among its 0 frames"):
        replay.frames(1, generator())
    store.begin(frame_at(0, 0))
    assert replay.frames(1, generator()).shape == (1, 3, 4, 4)
    with pytest.raises(UsageError, match=r"episode of 2 frames among its 1 frames; .* more$"):
        contexts(replay, 1, 4, generator())
    later = Replay(store, replace(UNIFORM, min_future=3))
    with pytest.raises(UsageError, match=r"episode of 4 frames .* lower replay\.min_future \(3\)"):
        contexts(later, 1, 4, generator())
    with pytest.raises(UsageError, match=r"episode of 4 frames .* lower replay\.min_segment \(4\)"):
        segments(replay, 1, 8, generator())


def test_contexts_can_be_kept_away_from_the_end(tmp_path):
    """With `min_future` m, at least m real steps follow every context."""
    store = Store.create(tmp_path / "store", (1, 2, 2), 2, "numbered")
    for length in (3, 7):
        store.begin(np.zeros((1, 2, 2), np.uint8))
        for step in range(1, length + 1):
            frame = np.full((1, 2, 2), step, np.uint8)
            store.add(0, 0.0, step == length, False, frame)
    replay = Replay(store, ReplayConfig(min_future=4))
    found = contexts(replay, 200, 3, torch.Generator().manual_seed(0))
    last = found.mask.sum(1) - 1
    steps = found.frames[torch.arange(200), last, 0, 0, 0]
    assert set(steps.tolist()) == {0, 1, 2, 3}  # of the episode of 7 steps alone
