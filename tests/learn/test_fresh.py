"""Metrics of steps that no learner has seen."""

import pytest
import torch
from numbered_world import LENGTHS, config, encode, filled, reward_at

from horizon_imagination.agent import Agent
from horizon_imagination.data import Replay
from horizon_imagination.learn.fresh import fresh_metrics, fresh_rows


def replay_of(folder):
    cfg = config()
    return Replay(filled(folder / "data"), cfg.replay), cfg


@pytest.mark.parametrize("steps", [1, 5, 13, 25, 1000])
def test_every_one_of_the_newest_steps_is_in_one_segment(tmp_path, steps):
    replay, _ = replay_of(tmp_path)
    rows, mask = fresh_rows(replay, steps, 7)
    starts = set(replay.store.starts.tolist())
    led_to = [int(r) for row, real in zip(rows, mask, strict=True) for r in row[1:][real[1:]]]
    # Every frame but the first of an episode was led to by one step, in the order of time.
    newest = range(max(replay.store.num_frames - steps, 0), replay.store.num_frames)
    assert led_to == [row for row in newest if row not in starts]


def test_fresh_rewards_are_those_of_the_newest_steps(tmp_path):
    replay, cfg = replay_of(tmp_path)
    agent = Agent(cfg, 4, torch.device("cpu"))
    agent.encode = encode
    steps = LENGTHS[-1]  # the last episode: two segments of six steps
    found = fresh_metrics(agent, replay, steps, epoch=3)
    paid = sum(reward_at(len(LENGTHS) - 1, step) for step in range(steps))
    assert found["fresh/real_reward"].item() == pytest.approx(paid / 2)
    assert {"fresh/reward", "fresh/end", "fresh/denoiser"} <= set(found)
    assert all(value.isfinite() for value in found.values())


def test_fresh_metrics_are_the_same_again_and_move_no_stream(tmp_path):
    replay, cfg = replay_of(tmp_path)
    agent = Agent(cfg, 4, torch.device("cpu"))
    before = torch.get_rng_state()
    first, second = (fresh_metrics(agent, replay, 20, epoch=3) for _ in range(2))
    assert first == second and torch.equal(before, torch.get_rng_state())
    assert fresh_metrics(agent, replay, 20, epoch=4) != first
