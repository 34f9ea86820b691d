"""The loop of all learners: rates, clipping, pieces of a batch, and the guard."""

import math

import pytest
import torch
from numbered_world import config, learner, learners
from safetensors.torch import load_file

from horizon_imagination.learn.guard import Guard, NotFiniteError
from horizon_imagination.learn.learner import Learner, Losses, Term, learning_rate, sum_terms
from horizon_imagination.streams import Streams


def squares(parameter, guard, cfg, sample, name="net"):
    """Mean of (parameter . x)^2 over the rows of x that are not all zero."""

    def loss(x):
        real = (x != 0).any(1)
        total = ((x @ parameter).square() * real).sum()
        return Losses({"square": Term(total, real.sum())}, {"square": total.detach() / real.sum()})

    return Learner("squares", cfg, sample, loss, {name: [parameter]}, guard)


def test_the_rate_warms_up_in_a_line():
    cfg = learner(learning_rate=0.4, warmup_steps=4)
    rates = [learning_rate(cfg, step) for step in range(6)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_the_rate_falls_by_a_cosine_and_stays_at_its_end():
    cfg = learner(learning_rate=1.0, final_learning_rate=0.2, decay_steps=8)
    rates = [learning_rate(cfg, step) for step in (0, 2, 4, 8, 100)]
    quarter = 0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2
    assert rates == pytest.approx([1.0, quarter, 0.6, 0.2, 0.2])


def test_the_rate_reaches_the_optimiser(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(2))
    cfg = learner(learning_rate=0.1, warmup_steps=2, weight_decay=0.0)
    made = squares(parameter, Guard(tmp_path, 1), cfg, lambda n: torch.ones(n, 2))
    made.step()
    # The first step of Adam has the length of its rate.
    torch.testing.assert_close(parameter.detach(), torch.full((2,), 0.95))
    assert made.steps == 1


def test_terms_are_weighted_means_and_empty_ones_are_zero():
    def term(total, count, weight=1.0):
        return Term(torch.tensor(total), torch.tensor(count), weight)

    terms = {"a": term(6.0, 3), "b": term(5.0, 2, -0.1), "c": term(0.0, 0)}
    assert sum_terms(terms).item() == pytest.approx(2 - 0.25)


def pieces_of(*batches):
    left = list(batches)
    return lambda n: left.pop(0)


def gradient_of_step(tmp_path, cfg, *batches):
    parameter = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    made = squares(parameter, Guard(tmp_path, 1), cfg, pieces_of(*batches))
    metrics = made.step()
    assert parameter.grad is not None
    return parameter.grad, metrics


def test_pieces_of_a_batch_give_the_gradient_of_the_whole(tmp_path):
    x = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    free = {"max_grad_norm": 1e9}
    whole, metrics = gradient_of_step(tmp_path, learner(**free), x)
    parts, in_parts = gradient_of_step(
        tmp_path, learner(micro_batches=4, **free), x[:2], x[2:4], x[4:6], x[6:]
    )
    torch.testing.assert_close(whole, parts)
    for name, value in metrics.items():
        torch.testing.assert_close(value, in_parts[name])


def test_pieces_are_asked_for_in_their_size(tmp_path):
    asked = []

    def sample(n):
        asked.append(n)
        return torch.ones(n, 2)

    parameter = torch.nn.Parameter(torch.ones(2))
    squares(parameter, Guard(tmp_path, 1), learner(micro_batches=4), sample).step()
    assert asked == [2, 2, 2, 2]
    with pytest.raises(ValueError, match="micro_batches"):
        learner(micro_batches=3)


def test_groups_are_clipped_apart(tmp_path):
    """A loud network does not silence the one beside it."""
    loud, quiet = torch.nn.Parameter(torch.tensor([3.0])), torch.nn.Parameter(torch.tensor([1.0]))

    def loss(x):
        return Losses({"both": Term((100 * loud + 0.1 * quiet).sum(), torch.tensor(1))}, {})

    cfg = learner(batch_size=1, max_grad_norm=1.0)
    parameters = {"loud": [loud], "quiet": [quiet]}
    made = Learner("two", cfg, torch.ones, loss, parameters, Guard(tmp_path, 1))
    metrics = made.step()
    assert loud.grad is not None and quiet.grad is not None
    assert loud.grad.item() == pytest.approx(1, rel=1e-4)
    assert quiet.grad.item() == pytest.approx(0.1, rel=1e-4)
    assert metrics["two/loud_grad_norm"].item() == pytest.approx(100)


def test_a_group_may_have_a_rate_and_a_weight_decay_of_its_own(tmp_path):
    """AdamW's first step: w (1 - rate decay) - rate sign(gradient)."""
    first, second = (torch.nn.Parameter(torch.tensor([1.0])) for _ in range(2))

    def loss(x):
        return Losses({"both": Term((first + second).sum(), torch.tensor(1))}, {})

    cfg = learner(batch_size=1, learning_rate=0.1, weight_decay=0.5)
    made = Learner(
        "two", cfg, torch.ones, loss, {"first": [first], "second": [second]}, Guard(tmp_path, 1),
        rates={"second": 0.1}, weight_decays={"second": 2.0},
    )  # fmt: skip
    made.step()
    assert first.item() == pytest.approx(1 - 0.1 * 0.5 - 0.1, rel=1e-5)
    assert second.item() == pytest.approx(1 - 0.01 * 2.0 - 0.01, rel=1e-5)


def test_a_resting_learner_works_in_every_nth_epoch():
    cfg = learner(first_epoch=2, rest_from=5, rest_every=3, last_epoch=12)
    assert [epoch for epoch in range(16) if cfg.works_in(epoch)] == [2, 3, 4, 5, 8, 11]
    with pytest.raises(ValueError, match="rest_every must be at least 1"):
        learner(rest_every=0)


def test_a_learner_takes_more_steps_in_its_early_epochs():
    cfg = learner(steps_per_epoch=3, first_epoch=1, early_until=4, early_steps=5, last_epoch=5)
    assert [cfg.steps_in(epoch) for epoch in range(7)] == [0, 5, 5, 5, 3, 3, 0]
    assert [learner(steps_per_epoch=3).steps_in(epoch) for epoch in (0, 9)] == [3, 3]
    assert learner(steps_per_epoch=0, early_until=4, early_steps=5).steps_in(0) == 0
    with pytest.raises(ValueError, match="early_until 4 needs early_steps of at least 1"):
        learner(early_until=4)


def test_denoiser_and_reward_model_and_actor_and_critic_are_groups_of_their_own(tmp_path):
    _, made = learners(tmp_path)
    assert list(made.world_model.parameters) == ["denoiser", "reward"]
    assert list(made.controller.parameters) == ["actor", "critic"]
    metrics = made.world_model.step()
    assert {"world_model/denoiser_grad_norm", "world_model/reward_grad_norm"} <= set(metrics)


def test_a_learner_works_from_its_first_to_its_last_epoch(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(2))
    made = squares(parameter, Guard(tmp_path, 1), learner(first_epoch=2, last_epoch=3), torch.ones)
    assert [made.steps_in(epoch) for epoch in range(5)] == [0, 0, 1, 1, 0]


def test_a_loss_that_is_no_number_stops_before_the_weights_move(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(2))
    bad = torch.tensor([[1.0, torch.inf]])
    made = squares(parameter, Guard(tmp_path, 1), learner(), pieces_of(torch.ones(1, 2), bad))
    made.step()
    before = parameter.detach().clone()
    with pytest.raises(NotFiniteError, match="squares, step 1: the loss is not finite") as stop:
        made.step()
    assert torch.equal(parameter, before) and made.steps == 1
    path = tmp_path / "not-finite-squares-1.safetensors"
    assert str(path) in str(stop.value)
    assert torch.equal(load_file(path)["batch"], bad)


def test_weights_that_the_last_step_has_spoiled_are_found_before_anyone_uses_them(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(2))
    cfg = learner(learning_rate=1e30, weight_decay=1e30)
    made = squares(parameter, Guard(tmp_path, 1), cfg, pieces_of(torch.ones(1, 2)))
    made.settle()
    made.step()
    assert not parameter.isfinite().all()
    with pytest.raises(NotFiniteError, match="squares, step 0: it left weights of the net that"):
        made.settle()


def test_every_piece_of_the_batch_is_saved(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(2))
    bad, good = torch.tensor([[1.0, torch.nan]]), torch.ones(1, 2)
    cfg = learner(batch_size=2, micro_batches=2)
    made = squares(parameter, Guard(tmp_path, 1), cfg, pieces_of(bad, good))
    with pytest.raises(NotFiniteError):
        made.step()
    saved = load_file(tmp_path / "not-finite-squares-0.safetensors")
    assert set(saved) == {"batch.0", "batch.1"} and saved["batch.0"].isnan().any()


def test_a_gradient_that_is_no_number_names_its_module(tmp_path):
    parameter = torch.nn.Parameter(torch.zeros(1))

    def loss(x):
        return Losses({"root": Term(parameter.sqrt().sum(), torch.tensor(1))}, {})

    guard = Guard(tmp_path, 1)
    made = Learner("root", learner(), torch.ones, loss, {"reward": [parameter]}, guard)
    with pytest.raises(NotFiniteError, match="gradient of the reward is not finite"):
        made.step()


def test_a_guard_that_looks_now_and_then_still_finds_the_step(tmp_path):
    guard = Guard(tmp_path, every=4)
    for step in range(3):
        bad = step == 1
        guard.watch("net", step, torch.tensor(torch.nan if bad else 1.0), torch.full((1,), step))
        guard.check()
    with pytest.raises(NotFiniteError, match="step 1"):
        guard.check()
    assert load_file(tmp_path / "not-finite-net-1.safetensors")["batch"].item() == 1
    later = Guard(tmp_path, every=1000)
    later.watch("net", 7, torch.tensor(torch.inf), torch.zeros(1))
    with pytest.raises(NotFiniteError, match="step 7"):
        later.check(now=True)


def test_a_batch_of_many_tensors_is_saved_by_name(tmp_path):
    _, made = learners(tmp_path, config())
    batch = made.world_model.sample(2)
    guard = Guard(tmp_path, every=1)
    guard.watch("world_model", 0, torch.tensor(torch.nan), batch)
    with pytest.raises(NotFiniteError):
        guard.check()
    saved = load_file(tmp_path / "not-finite-world_model-0.safetensors")
    assert set(saved) == {f"batch.{name}" for name in batch._fields}


def test_a_stream_that_an_old_snapshot_does_not_know_begins_anew():
    old, fresh = Streams(3, torch.device("cpu")), Streams(3, torch.device("cpu"))
    for purpose in ("replay", "examine"):
        torch.rand(5, generator=old[purpose])
    state = old.state()
    del state["examine"]
    fresh.restore(state)
    again = Streams(3, torch.device("cpu"))
    for purpose, like in (("replay", old), ("examine", again)):
        assert torch.equal(
            torch.rand(4, generator=fresh[purpose]), torch.rand(4, generator=like[purpose])
        )


def test_what_a_stage_examines_bears_the_learners_name(tmp_path):
    made = squares(torch.nn.Parameter(torch.ones(2)), Guard(tmp_path, 1), learner(), torch.ones)
    made.examine = lambda: {"seen": torch.tensor(2.0)}
    assert made.settle() == {"squares/seen": 2.0}
