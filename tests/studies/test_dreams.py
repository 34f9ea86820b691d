"""`horizon study dreams`: the same contexts and policy in the dream and in the environment."""

import json
import shutil

import numpy as np
import pytest
import torch

from horizon_imagination.agent import Agent
from horizon_imagination.learn.controller import Outcome
from horizon_imagination.schedules import horizon_schedule
from horizon_imagination.studies import dreams
from horizon_imagination.studies.dreams import Followed, Futures, describe, ratio_interval, summary


@pytest.fixture(scope="module")
def played(trained, tmp_path_factory):
    """Futures of a small agent, and how far it said it was."""
    said = []
    agent = Agent.load(trained, "cpu")
    futures = dreams.play_and_imagine(
        agent,
        agent.config.env,
        tmp_path_factory.mktemp("dreams") / "replay",
        contexts=10,
        steps=40,
        seed=3,
        progress=lambda *x: said.append(x),
    )
    return futures, said


def test_every_context_has_a_future_in_both_worlds(played):
    futures, said = played
    for paid in (futures.imagined, futures.replayed, futures.read, futures.real):
        assert paid.shape == (10, 6) and np.isfinite(paid).all()
    # catch pays plus or minus one at the last frame of an episode, and nothing else
    assert set(np.unique(futures.real)) <= {-1.0, 0.0, 1.0}
    assert (np.abs(futures.real).sum(1) <= 1).all() and np.abs(futures.real).sum() > 0
    assert futures.ended[1] == pytest.approx(np.mean(np.abs(futures.real).sum(1) == 1))
    assert ("playing", 40, 40) in said and said[-1] == ("imagining", 10, 10)


def test_nothing_is_paid_after_an_end():
    valid = torch.tensor([[True, True, False]])
    ends = torch.tensor([[False, True, False]])
    dream = Outcome(torch.tensor([[1.0, 2.0, 4.0]]), ends, valid)
    real = Outcome(torch.tensor([[8.0, 1.0, 3.0]]), ends, torch.tensor([[True, False, False]]))
    again = dream._replace(reward=torch.tensor([[9.0, 8.0, 7.0]]))
    found = dreams._joined([Followed(dream, again, torch.tensor([[5.0, 6.0, 7.0]]), real)], 1)
    assert found.imagined.tolist() == [[1, 2, 0]] and found.replayed.tolist() == [[9, 8, 0]]
    assert found.read.tolist() == [[5, 0, 0]] and found.real.tolist() == [[8, 0, 0]]
    assert found.ended == (1.0, 1.0)


def test_the_ratio_is_of_sums_and_its_interval_covers_it():
    rng = np.random.default_rng(0)
    real = rng.uniform(0, 2, 400)
    paid = 0.8 * real + rng.normal(0, 0.3, 400)
    found = ratio_interval(paid, real)
    assert found is not None and found.low < 0.8 < found.high and found.high - found.low < 0.1
    assert found.estimate == pytest.approx(paid.sum() / real.sum())
    assert ratio_interval(paid, np.zeros(400)) is None


def test_a_dream_that_pays_too_little_late_shows_it_there():
    real = np.ones((50, 8))
    imagined = real.copy()
    imagined[:, 6:] = 0.25
    found = summary(Futures(imagined, 0.5 * real, real, real, (0.0, 0.0)))
    assert [part[0] for part in found["imagined_over_real_by_part"]] == [1, 1, 1, 0.25]
    assert found["parts"] == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert found["imagined_over_real"][0] == pytest.approx((6 + 0.5) / 8)
    said = "\n".join(describe(found))
    assert "imagined / real 0.81" in said and "7 to 8: 0.25" in said and "read / real 1.00" in said
    assert "replayed / real 0.50" in said


def test_a_world_that_paid_nothing_says_so():
    zero = np.zeros((3, 4))
    assert "paid nothing" in describe(summary(Futures(zero, zero, zero, zero, (0.0, 0.0))))[-1]


def test_the_command_writes_figures_and_picture(command, trained, tmp_path):
    out = tmp_path / "out"
    line = f"study dreams {trained} --contexts 4 --steps 12 --device cpu --out {out}"
    status, printed, _ = command(f"{line} --json")
    assert status == 0
    found = json.loads(printed.splitlines()[-1])
    assert found["contexts"] == 4 and len(found["real_by_frame"]) == found["horizon"]
    assert json.loads((out / "dreams.json").read_text())["contexts"] == 4
    assert (out / "dreams.png").stat().st_size > 1000
    _, printed, _ = command(line)
    assert printed.splitlines()[-1].startswith("figure: ") and "{" not in printed
    assert command(f"study dreams {trained} --contexts 0")[0] == 2


def test_dreams_may_follow_another_schedule(command, trained, tmp_path, monkeypatch):
    """Its results stand apart from those of the agent's own."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    seen, play = [], dreams.play_and_imagine

    def spied(*arguments, schedule, **named):
        seen.append(schedule)
        return play(*arguments, schedule=schedule, **named)

    monkeypatch.setattr(dreams, "play_and_imagine", spied)
    line = f"study dreams {run} --contexts 4 --steps 12 --device cpu"
    assert command(line)[0] == command(f"{line} --budget 9 --decay-horizon 3")[0] == 0
    own, other = (run / "studies" / name / "dreams.json" for name in ("dreams", "dreams-3-9"))
    own, other = (json.loads(path.read_text()) for path in (own, other))
    assert seen[0] is None and torch.equal(seen[1], horizon_schedule(6, 9, 3))
    assert (
        (other["budget"], other["decay_horizon"]) == (9, 3) != (own["budget"], own["decay_horizon"])
    )
    assert own["real_by_frame"] == other["real_by_frame"], "the same contexts, really played"
    assert own["imagined_by_frame"] != other["imagined_by_frame"]
    for wrong in ("--budget 0", "--decay-horizon 99"):
        status, _, said = command(f"{line} {wrong}")
        assert status == 2 and "Traceback" not in said
