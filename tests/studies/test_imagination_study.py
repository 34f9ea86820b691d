"""The solved world and its film strip."""

import json

import torch

from horizon_imagination.cli import main
from horizon_imagination.studies.imagination import (
    DotStudy,
    columns,
    exact_velocity,
    future,
    locate,
    render,
    run,
    steer,
    summary,
)


def test_the_dot_falls_moves_with_the_action_and_comes_back_around_the_edges():
    first = render(torch.tensor([[6]]), torch.tensor([[0]]))
    frames = future(first, torch.tensor([[-1, 0, 2, 2, 1]]))
    line, column = locate(frames)
    assert line.tolist() == [[6, 7, 0, 1, 2]] and column.tolist() == [[0, 7, 0, 1, 1]]
    assert torch.equal(frames.sum((2, 3, 4)), torch.full((1, 5), -62.0)), "one dot per frame"


def test_the_velocity_points_at_the_truth_and_vanishes_where_time_is_over():
    first = render(torch.tensor([[0]]), torch.tensor([[3]]))
    actions = torch.tensor([[-1, 1, 2]])
    truth = future(first, actions)
    z = torch.cat([first, torch.zeros(1, 2, 1, 8, 8)], dim=1)
    v = exact_velocity(z, torch.tensor([[1.0, 0.5, 0.75]]), actions)
    assert (v[:, 0] == 0).all()
    torch.testing.assert_close(v[:, 1], 2 * truth[:, 1])
    torch.testing.assert_close(v[:, 2], 4 * truth[:, 2])


def test_the_policy_knows_where_to_go_only_as_far_as_it_sees():
    frames = render(torch.tensor([[0, 0, 0]]), torch.tensor([[0, 4, 7]]))
    seen, blind = steer(frames, torch.ones(1, 3)), steer(frames, torch.zeros(1, 3))
    assert seen.argmax(-1).tolist() == [[2, 1, 0]] and (seen.amax(-1) > 0.9).all()
    assert torch.equal(blind[0, 0], blind[0, 2]) and blind.max() < 0.6
    for probs in (seen, blind):
        torch.testing.assert_close(probs.sum(-1), torch.ones(1, 3))


def test_stable_actions_change_less_than_naive_ones_and_lead_the_dot_home():
    study = DotStudy(batch=64)
    stable, naive = (summary(study, run(study, name)) for name in ("stable", "naive"))
    assert stable["changes"] < naive["changes"]
    assert stable["final_distance"] < 0.2
    assert (columns(run(study, "stable"))[:, 0] - 4).abs().float().mean() > 1


def test_the_command_draws_the_film_strip(capsys, tmp_path):
    assert main(["study", "imagination", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(found) == {"stable", "naive"}
    assert (tmp_path / "imagination.png").read_bytes().startswith(b"\x89PNG")
