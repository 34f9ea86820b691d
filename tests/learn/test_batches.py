"""Which segments are learned from, and which are measured."""

import torch
from numbered_world import config, encode, filled

from horizon_imagination.agent import Agent
from horizon_imagination.data import Replay
from horizon_imagination.learn.batches import RandomBatches, ReplayBatches
from horizon_imagination.learn.guard import Guard
from horizon_imagination.learn.latents import LatentCache
from horizon_imagination.learn.learners import make_learners
from horizon_imagination.presets import DEBUG, replaced
from horizon_imagination.streams import Streams


def drawn(folder, share, stream):
    """Which of 200 segments reach the end of an episode."""
    cfg = replaced(config(), replay={"end_share": share})
    store = filled(folder / f"{share}-{stream}")
    agent = Agent(cfg, 4, torch.device("cpu"))
    latents = LatentCache(store, encode, agent.device)
    latents.refresh()
    replay, streams = Replay(store, cfg.replay), Streams(0, agent.device)
    found = ReplayBatches(agent, replay, latents, streams).segments(200, stream)
    return found.terminated.any(1)


def test_learners_see_more_ends_and_measurements_do_not(tmp_path):
    plain, more = (drawn(tmp_path, share, "replay") for share in (0.0, 1.0))
    assert more.sum() > plain.sum() > 0
    assert torch.equal(drawn(tmp_path, 0.0, "examine"), drawn(tmp_path, 1.0, "examine"))


def test_imagination_is_measured_where_training_segments_are_shorter(tmp_path):
    short = replaced(DEBUG, world_model={"segment_length": 4})
    imagined = short.imagination.context + short.imagination.horizon
    cpu, asked = torch.device("cpu"), []
    agent = Agent(short, 3, cpu)

    class Asked(RandomBatches):
        def segments(self, count, stream="replay", length=None):
            asked.append((stream, length))
            return super().segments(count, stream, length)

    batches = Asked(agent, torch.Generator().manual_seed(0))
    learners = make_learners(agent, batches, Streams(0, cpu), Guard(tmp_path, every=1))
    found = learners.world_model.settle()
    assert {"world_model/imagined_reward", "world_model/unheeded_changes"} <= set(found)
    assert asked[-1] == ("examine", imagined) and batches.segments(2).z.shape[1] == 4
