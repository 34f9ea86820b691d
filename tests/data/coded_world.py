"""A world made by hand: each frame tells its episode, its step and the action that made it."""

import numpy as np
import torch

from horizon_imagination.data import Segment, Store

SHAPE = (3, 4, 4)
NUM_ACTIONS = 5


def action_at(episode, step):
    return (3 * episode + 2 * step + 1) % NUM_ACTIONS


def reward_at(episode, step):
    return episode + step / 64


def frame_at(episode, step):
    frame = np.empty(SHAPE, np.uint8)
    frame[0], frame[1] = episode, step
    frame[2] = action_at(episode, step - 1) + 1 if step else 0
    return frame


def play(store, episode, steps, ended="terminated", after=None):
    """Write an episode of `steps` steps; `after` is called after each write."""
    store.begin(frame_at(episode, 0))
    if after:
        after()
    for step in range(steps):
        last = step == steps - 1
        terminated, truncated = last and ended == "terminated", last and ended == "truncated"
        action, reward = action_at(episode, step), reward_at(episode, step)
        store.add(action, reward, terminated, truncated, frame_at(episode, step + 1))
        if after:
            after()


ENDS = ["terminated", "truncated", "terminated", "truncated", "terminated", "open"]
LENGTHS = [7, 12, 2, 30, 1, 9]
"""Steps of each episode of `fill`."""


def fill(store):
    for episode, (steps, ended) in enumerate(zip(LENGTHS, ENDS, strict=True)):
        play(store, episode, steps, ended)
    return store


def create(folder):
    return Store.create(folder, SHAPE, NUM_ACTIONS, "coded")


def assert_consistent(segment: Segment, row: int) -> None:
    """Row `row` is a stretch of one episode with everything in its place."""
    real = int(segment.mask[row].sum())
    assert real > 0 and segment.mask[row, :real].all()
    codes = segment.frames[row, :real, :, 0, 0].tolist()
    episode, first = codes[0][0], codes[0][1]
    for t, (code_episode, code_step, code_action) in enumerate(codes):
        step = first + t
        assert (code_episode, code_step) == (episode, step)
        if t:
            assert segment.prev_actions[row, t] == code_action - 1
        if step < LENGTHS[episode]:
            assert segment.action[row, t] == action_at(episode, step)
            assert segment.reward[row, t] == reward_at(episode, step)
            over = step == LENGTHS[episode] - 1 and ENDS[episode] == "terminated"
            assert segment.terminated[row, t] == over
        else:
            assert step == LENGTHS[episode] and t == real - 1
            assert segment.action[row, t] == 0 and segment.reward[row, t] == 0
            assert not segment.terminated[row, t]
    assert segment.prev_actions[row, 0] == -1
    for x in (segment.frames, segment.action, segment.reward, segment.terminated):
        assert not torch.any(x[row, real:] != 0)


def contents(folder):
    """The bytes of every file of a dataset."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
